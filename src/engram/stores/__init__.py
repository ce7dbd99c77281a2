"""Stores of memories."""
