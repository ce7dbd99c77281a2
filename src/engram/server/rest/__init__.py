"""The REST server: requests are authenticated, converted to operations of `engram.api`, and answered as JSON."""
