# qmlir's commands. `make demo` and `make test` need Python >= 3.11 and a package index, nothing else:
# they make their own environment in .venv and bring it up to date when pyproject.toml changes.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.installed
JOBS   ?= 2

export PYTHONHASHSEED := 0

.DEFAULT_GOAL := help
.PHONY: help demo test check lint models bench clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## the digits network: profile, quantize, compile, run, compare with float
	$(BIN)/python examples/digits/demo.py

test: $(READY) ## every test: Python on all cores, then the IR tests through lit
	$(BIN)/python -m pytest -n $(JOBS)
	$(BIN)/lit -j$(JOBS) filecheck_tests

check: lint ## what has to hold before each commit: format, style, types, layers, the fast tests
	$(BIN)/python -m pytest -q -m "not slow and not models"
	$(BIN)/lit -q -j$(JOBS) filecheck_tests

lint: $(READY) ## format, style, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache

models: $(READY) ## accuracy of real trained models (QMLIR_SHARED, default ../shared), with the figures
	$(BIN)/python -m pytest tests/models -q -s

bench: $(READY) ## speed: latency of the models and of the compiler itself
	$(BIN)/python -m pytest tests/benchmarks -q -s

clean: ## remove the environment and everything generated
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'error: qmlir needs Python >= 3.11; choose one with make PYTHON=/path/to/python3.11 …' >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
