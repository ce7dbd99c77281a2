"""Text analysis shared by all stores.

- `terms` splits text into index and query terms, and compares texts by their normal form.
- `passages` splits long texts for embedding.
- `time_phrases` reads phrases such as "last week" as intervals of time.
- `safe_yaml` reads YAML written by hand as plain JSON values.
"""
