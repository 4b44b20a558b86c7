"""What others serve becomes a scenario: a reader for each tool's files, one writer of scenarios."""
