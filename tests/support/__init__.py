"""Servers, workers and data that several tests share."""
