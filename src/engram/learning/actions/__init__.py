"""Normalise actions and look up how they went."""
