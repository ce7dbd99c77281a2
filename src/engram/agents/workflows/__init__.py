"""Workflows: read definitions (`definition`), run them with memory (`runner`), journal every step (`journal`)."""
