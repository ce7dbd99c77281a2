"""Decide whether an action may run, and run prevention checks."""
