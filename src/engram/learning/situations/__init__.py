"""Group decision contexts into situations."""
