"""Worlds with noisy logs of many kinds of work, in which advice is asked for and judged by the true rates."""
