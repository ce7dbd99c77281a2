"""Engram over HTTP: parse, one call of the engine, render."""
