"""Upkeep of a database: consolidate and forget memories, evaluate their use, rebuild derived data, copy it.

`maintenance` has the interface, `Upkeep`; `consolidation` and `evaluation` do its two larger jobs; `copying` moves a
database to another back end.
"""
