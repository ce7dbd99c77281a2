"""Patterns: find what worked repeatedly, what goes with success, and which action to take when.

- `synthesis` pools the outcomes of one or several agents into success patterns, decision templates and rates.
- `successes` finds approaches that worked again and again, with the steps to repeat them.
- `factors` finds the features that go with success or failure, guarding against chance.
- `decision_tree` grows a small readable tree: which action to take, depending on the context.
- `pattern_lookup` finds a learned pattern by a name or word that a user types.
"""
