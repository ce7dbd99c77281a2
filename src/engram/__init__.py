"""Engram: a memory for AI agents that learns from outcomes."""
