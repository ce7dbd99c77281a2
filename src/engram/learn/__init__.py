"""What outcomes teach."""
