"""Learn from outcomes."""
