"""Questions: a scenario goes in; a recommendation, its price and its reasons come out."""
