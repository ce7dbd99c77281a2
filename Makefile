# Everything happens inside this folder: the environment in .venv, the embedding model in .venv/share.
PYTHON ?= python3
BIN := .venv/bin
MODELS := .venv/share/engram/models
PYTEST := $(BIN)/python -m pytest -q -n 2

.DEFAULT_GOAL := help
.PHONY: help demo test check bench nightly soak proto stubs lock clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

.venv/installed: requirements-dev.lock pyproject.toml engram-bench/pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e engram-bench
	@touch $@

$(MODELS)/installed: .venv/installed
	$(BIN)/engram model install arctic-embed-s --to $(MODELS)
	@touch $@

demo: $(MODELS)/installed  ## watch an agent fail, learn, and do better
	@$(BIN)/python examples/demo.py

test: lint $(MODELS)/installed  ## run every check and every test
	$(PYTEST)

check: lint  ## run the checks and the fast tests
	$(PYTEST) -m "not slow"

.PHONY: backends
backends: $(MODELS)/installed  ## run every test, and write down which back end keeps which contract
	$(PYTEST) tests --backends-table docs/backends.md

.PHONY: lint
lint: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(MODELS)/installed  ## measure, and print ratios
	$(BIN)/python benchmarks/writes.py
	$(BIN)/python benchmarks/redaction.py
	$(BIN)/python benchmarks/backends.py
	$(BIN)/python benchmarks/vectors.py
	$(BIN)/python benchmarks/embedding.py
	$(BIN)/python benchmarks/learning.py
	$(BIN)/python benchmarks/variants.py
	$(BIN)/python benchmarks/working.py
	$(BIN)/python benchmarks/audit.py
	$(BIN)/python benchmarks/encryption.py
	$(BIN)/python benchmarks/hooks.py
	$(BIN)/python benchmarks/memories.py
	$(BIN)/python benchmarks/server.py
	$(BIN)/engram bench transfer
	$(BIN)/engram bench advice --short
	$(BIN)/engram bench latency --sizes 10000,100000

nightly: $(MODELS)/installed  ## the long form of the tests: more kills, more steps, other examples each time
	ENGRAM_LONG=1 $(PYTEST)

soak: $(MODELS)/installed  ## ten minutes of mixed load on a real server: no error, no growth
	$(BIN)/python benchmarks/soak.py

proto: .venv/installed  ## number new fields of the gRPC messages, and write the .proto files
	$(BIN)/python -m engram.server.grpc.generate

stubs: .venv/installed  ## write the types of the methods of the clients
	$(BIN)/python -m engram.client.stubs

lock: .venv/installed  ## pin the newest versions that the ranges allow
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --no-emit-index-url --no-emit-find-links --upgrade -o requirements-dev.lock

clean:  ## remove everything that was made here
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
