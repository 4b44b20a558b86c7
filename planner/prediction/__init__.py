"""What nobody measured, foretold with a band."""
