"""Prevention: decide whether an action may run, and run the commands of prevention checks.

- `verdicts` allows an action, warns about it or blocks it, with the failures behind that and what to do instead.
- `check_commands` runs the command of a check, with the user's permission.
"""
