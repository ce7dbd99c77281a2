"""Situations: group the contexts of decisions that mean the same.

A situation is one kind of context, in other words and with other ids and numbers.

- `situations` keeps the situations of an agent up to date, decision by decision; `editor` lets users rename, merge,
  split and pin them.
- `wordings` groups contexts that use the same words; `behaviour` compares what is done in them.
- `nearness` learns how similar two contexts must be to be of one kind; `everyday_texts` are its reference.
- `similar_contexts` groups the episodes of several agents for patterns and templates.
"""
