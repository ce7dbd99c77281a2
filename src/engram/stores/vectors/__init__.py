"""Nearest-neighbour indexes, derived from the mirrored vectors."""
