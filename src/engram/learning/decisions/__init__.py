"""Past decisions: estimate how likely each action is to succeed, and suggest one.

- `suggestions` recommends an action or abstains, and predicts the success of one action.
- `belief` estimates the success rate of every action in a context; suggestions, verdicts and patterns all use it.
- `beta` and `comparisons` are the statistics underneath: posteriors of rates, intervals, exact tests.
- `rate_changes` detects that the success rate of an action has changed.
- `rates` counts outcomes by feature, action and day; `agreement` weighs the outcomes of other agents.
"""
