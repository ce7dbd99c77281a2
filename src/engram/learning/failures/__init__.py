"""Recognise recurring failures by their error signature."""
