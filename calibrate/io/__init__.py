"""Files: read and written strictly, points and what was measured of them, and on which machine."""
