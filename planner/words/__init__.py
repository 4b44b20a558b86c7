"""Sentences for what answers hold as data. All text about a candidate, a warning or an assumption is made here."""
