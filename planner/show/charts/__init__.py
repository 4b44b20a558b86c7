"""Charts of answers as SVG, for pages."""
