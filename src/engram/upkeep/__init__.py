"""Maintain a memory: rebuild derived data, consolidate, evaluate."""
