"""Recall memories: turn a query into a ranked list.

- `search`: the pipeline: understand the query, find candidates, rank, group, pack and log.
- `understand`: parse a query into terms, people and time.
- `features`, `rank`, `trees`: score the candidates and order them.
- `pack`, `quoting`: fit memories into a token budget, and quote them for a model.
- `credit`, `learned_weights`, `tuning`: adjust the ranking by outcomes.
- `explain`: list all candidates with the parts of their scores.
"""
