# One command sets up what it needs: `make demo`, `make test`, `make lint`, `make types`, `make bench`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ENV := $(VENV)/.ready
UV = $(BIN)/uv pip
PYTEST_ARGS ?=

.PHONY: help env demo test test-fast test-crash lint format types bench generate lock clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

env: $(ENV)  ## Create the environment under .venv

$(ENV): pyproject.toml requirements/bootstrap.lock requirements/dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "LakeTable needs Python 3.11 or later; this is %d.%d. Set PYTHON=python3.11 (or later)." % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.lock
	$(UV) install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.lock
	$(UV) install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $(ENV)

demo: $(ENV)  ## Plan and apply the quickstart on the embedded catalog, load rows, evolve it twice
	$(BIN)/python specs_examples/demo.py

test: $(ENV)  ## Run every test
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

test-fast: $(ENV)  ## Run the tests that need no JVM
	$(BIN)/python -m pytest -m 'not spark' $(PYTEST_ARGS)

test-crash: $(ENV)  ## Kill every kind of data job, and the operator, before and after each write, and print what became of it
	$(BIN)/python -m pytest -m crash $(PYTEST_ARGS)

lint: $(ENV)  ## Check style (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(ENV)  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(ENV)  ## Check types (mypy --strict)
	$(BIN)/mypy

bench: $(ENV)  ## Measure speed and memory against other tools, as one table
	$(BIN)/python -m tests.bench

generate: $(ENV)  ## Rewrite everything generated: CRDs, JSON Schemas, findings pages, goldens
	$(BIN)/python -m pytest --update-golden -q -m 'not spark'

lock: $(ENV)  ## Resolve the dependencies anew
	$(UV) compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 \
		--extra spark --extra java --extra connect --extra operator --extra dev pyproject.toml -o requirements/dev.lock
	for image in operator:operator job:connect; do \
		$(UV) compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 \
			--constraint requirements/dev.lock --extra $${image#*:} pyproject.toml -o requirements/$${image%:*}.lock || exit 1; \
	done
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["bench"], sep="\n")' \
		| $(UV) compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 \
		- -o requirements/bench.lock

clean:  ## Remove the environment and caches
	rm -rf $(VENV) $(VENV)-bench .mypy_cache .ruff_cache .pytest_cache .hypothesis
