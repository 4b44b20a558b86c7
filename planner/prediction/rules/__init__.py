"""Rules by which a pair is predicted besides what was learnt: from another GPU, from layers, from data sheets."""
