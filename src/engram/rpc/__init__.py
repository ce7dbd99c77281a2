"""Engram over gRPC: parse, one call of the engine, render."""
