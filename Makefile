# One command each; CI calls the same. `make help` lists them.

PYTHON ?= python3
UV_VERSION := 0.13.9
BIN := .venv/bin
PY := $(BIN)/python
UV := $(BIN)/uv
MADE := .venv/made
T ?= tests
PYTEST := $(PY) -m pytest -n auto --maxprocesses 4 --dist worksteal
SOURCES := $(shell find sandbox/epochs -type f -not -path '*/built/*' -not -name '*.pyc' 2>/dev/null)

.DELETE_ON_ERROR:
.PHONY: help setup run test lint typecheck bench fmt check soak sim db lock clean

help: ## list the commands
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: $(MADE)/sandbox ## make the environment (a second time: nothing to do)

run: setup ## start Rewind, run the quick start, keep serving (ONCE=1: exit after it; DEMO=crash: kill a process)
	@$(PY) -m examples.quickstart.run $(if $(ONCE),--once) $(if $(filter crash,$(DEMO)),--crash)

test: setup $(MADE)/npm-tests $(MADE)/chromium ## run the tests (T=path for some of them)
	$(PYTEST) $(T)

lint: setup ## ruff, import contracts, our own rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(PY) -m infra.lint

typecheck: setup ## mypy, strict
	$(BIN)/mypy

check: ## what CI runs: lint, typecheck, test
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory typecheck
	@$(MAKE) --no-print-directory test

fmt: setup ## format, and fix what can be fixed safely
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

soak: setup ## the long forms of sampled tests: every kill, hours of the rest
	REWIND_SOAK=1 $(PY) -m pytest -s -m 'soak or e2e' $(if $(filter tests,$(T)),tests/e2e tests/chaos,$(T))

sim: setup ## thousands of simulated histories with everything going wrong (SEED=n shows one of them; COUNT=n)
	$(if $(SEED),$(PY) -m tests.simulation.simulation $(SEED),REWIND_SEED=new REWIND_SIMULATIONS=$(or $(COUNT),8000) $(PY) -m pytest -n 2 -rP tests/simulation)

bench: setup ## measure, beside the budgets
	$(PY) -m tests.bench

db: setup ## write infra/schema.sql from the migrations
	$(PY) -m infra.schema_dump

lock: $(MADE)/uv ## write requirements.lock from both pyproject.toml
	$(UV) pip compile --quiet --generate-hashes --no-header --universal --python-version 3.11 --no-emit-index-url \
	  --no-emit-package rewind-sdk --extra dev pyproject.toml sdk_python/pyproject.toml -o requirements.lock

clean: ## remove what setup made (not the data in .rewind)
	rm -rf .venv node_modules sandbox/epochs/*/built

# Each step leaves a mark, so that only what changed is done again.

$(MADE)/uv:
	@$(PYTHON) -c 'import sys; sys.exit("Rewind needs Python 3.11 or later: make PYTHON=python3.12 setup" if sys.version_info < (3, 11) else 0)'
	test -x $(PY) || $(PYTHON) -m venv .venv
	test -x $(UV) || $(PY) -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@mkdir -p $(MADE) && touch $@

$(MADE)/packages: requirements.lock $(MADE)/uv
	$(UV) pip install --quiet --python $(PY) --require-hashes -r requirements.lock
	@touch $@

$(MADE)/rewind: pyproject.toml sdk_python/pyproject.toml $(MADE)/packages
	$(UV) pip install --quiet --python $(PY) --no-deps --no-build-isolation -e . -e sdk_python
	@touch $@

$(MADE)/chromium: $(MADE)/sandbox
	$(PY) -m infra.chromium
	@touch $@

$(MADE)/npm-tests: tests/npm/package-lock.json $(MADE)/sandbox
	$(PY) -m infra.node tests/npm
	@touch $@

$(MADE)/sandbox: $(MADE)/rewind package-lock.json $(SOURCES)
	$(PY) -m sandbox.epochs.build
	@touch $@
