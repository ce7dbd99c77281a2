"""Weigh past decisions for the next one."""
