"""Learn from decisions, failures and their outcomes, and advise before the next action.

- `service`: what one agent has learned, and how it is used.
- `events`, `state`: the events of an agent, and the learned state that is computed from them.
- `advice`: suggest, predict and check, including what others share.
- `outcomes`: credit an outcome to decisions, suggestions and recalled memories.
- `alarms`: bursts of contradicting outcomes, and a limit on the weight of each source.
- `reuse`, `avoided_failures`: rate shared patterns, and estimate the failures that they avoided.
- `scores`: measure how well learning works.
- `actions`, `decisions`, `failures`, `patterns`, `prevention`, `situations`: the algorithms.
"""
