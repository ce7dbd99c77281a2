"""Failures: recognise recurring ones, remember what solved them, and derive prevention checks.

- `signatures` extracts from an error what stays the same when it recurs; `variable_parts` masks values such as paths
  and numbers, and `log_templates` groups lines of unknown formats.
- `pattern_index` finds the known failure pattern of an error signature.
- `recognizer` keeps failures, solutions, verdicts and checks up to date, event by event.
- `check_templates` names patterns and words their prevention checks; `check_effect` measures whether a check helps.
"""
