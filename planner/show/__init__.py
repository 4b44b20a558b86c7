"""Answers as people see them: text, charts and pages."""
