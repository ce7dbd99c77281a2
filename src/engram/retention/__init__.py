"""Delete memories: by retention policies, by request, or everything of an agent.

`policies` runs the policies and respects legal holds, `erasure` deletes memories with every copy and trace, `archive`
writes and reads the files of archived memories.
"""
