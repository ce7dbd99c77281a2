# Everything happens inside this folder: the environment in .venv, the embedding model in its share/.
# PYTHON=python3.13 (a name or a path) uses an environment of its own, in .venv/3.13.
PYTHON ?= python3
VENV := .venv
ifneq ($(origin PYTHON),file)
  VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  ifeq ($(VERSION),)
    $(error $(PYTHON) does not run; set PYTHON to the name or the path of a Python 3.11 or newer)
  endif
  VENV := .venv/$(VERSION)
  export MYPY_CACHE_DIR := $(VENV)/mypy_cache
endif
BIN := $(VENV)/bin
MODELS := $(VENV)/share/engram/models
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist worksteal
PURE := tests/unit tests/contract/test_store_memory.py

.DEFAULT_GOAL := help
.PHONY: help demo quick check test lint backends bench nightly soak proto stubs lock clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(VENV)/installed: requirements-dev.lock pyproject.toml engram-bench/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e engram-bench
	@touch $@

$(MODELS)/installed: $(VENV)/installed
	$(BIN)/engram model install arctic-embed-s --to $(MODELS)
	@touch $@

demo: $(MODELS)/installed  ## watch an agent fail, learn, and do better
	@$(BIN)/python examples/demo.py

quick: lint  ## run the linters and the pure tests: no server, no process, no model; about a minute
	$(PYTEST) $(PURE) -m pure

check: lint $(MODELS)/installed  ## run the linters and all tests but the slow ones; about five minutes
	$(PYTEST) -m "not slow"

test: lint $(MODELS)/installed  ## run the linters and every test; under 15 minutes
	$(PYTEST)

backends: $(MODELS)/installed  ## run every test, and write down which back end keeps which contract
	$(PYTEST) tests --backends-table docs/backends.md

lint: $(VENV)/installed  ## check format, style, types and import contracts
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

proto: $(VENV)/installed  ## number new fields of the gRPC messages, and write the .proto files
	$(BIN)/python -m engram.server.grpc.generate

stubs: $(VENV)/installed  ## write the types of the methods of the clients
	$(BIN)/python -m engram.client.stubs

lock: $(VENV)/installed  ## pin the newest versions that the ranges allow
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --no-emit-index-url --no-emit-find-links --upgrade -o requirements-dev.lock

clean:  ## remove everything that was made here
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
