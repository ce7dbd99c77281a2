"""Agents at work: their definitions, cycles and workspaces, guarded calls, tasks and workflows.

`guard` checks single calls, `executor` runs tasks with memory, `workflows` runs several steps, `cycles` records
proposals and results, `definitions` stores agents' definitions, `workspaces` snapshots folders.
"""
