"""Contracts that every back end and embedder keeps, ours and other people's: subclass one and give a fixture."""
