"""Keep facts: extract them from text, order them in time, link them in a graph."""
