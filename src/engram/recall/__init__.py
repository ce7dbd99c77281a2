"""Recall memories: turn a query into a ranked list.

- `search`: the pipeline: parse the query, find candidates, rank, group, pack and log.
- `understand`: parse a query into terms, people and time.
- `features` and `rank`: describe the candidates in numbers, score and order them; `learned_weights` learns from
  reported outcomes which parts of a score matter to an agent.
- `pack`, `quoting`: fit memories into a token budget, and quote them for a model.
- `explain`: list all candidates with the parts of their scores.
"""
