"""Simulated teams with noisy logs of many kinds of work, in which suggestions are judged by the true success rates.

- `kinds` describes a kind of work; `worlds_seen` are those to develop on, `worlds_unseen` those held out.
- `worlds` makes the log of a simulated team; `simulation` records it and asks for suggestions; `figures` reports them.
- `contexts` asks about 1 to 20 simple contexts; `off_topic` are questions about something else.
"""
