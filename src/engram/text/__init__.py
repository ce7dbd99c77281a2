"""Analyse text: index terms, time phrases, passages, and safe YAML."""
