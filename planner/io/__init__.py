"""Borders: YAML, JSON, CSV and people's units, read strictly and written whole."""
