"""Snapshots of folders: take, compare, restore and prune them.

`snapshots` is the interface, `objects` stores file contents by hash, `dir_handles` accesses folders safely, `chunks`
splits large files.
"""
