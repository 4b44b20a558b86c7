"""What nobody measured, predicted with a band."""
