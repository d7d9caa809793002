# Floodmark. `make help` lists the targets; they need Python 3.11 or newer and make, nothing else.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PIP := $(PY) -m pip --disable-pip-version-check install --quiet -c constraints.txt
BASE := $(VENV)/.installed-base
TEST := $(VENV)/.installed-test
FUZZ := $(VENV)/.installed-fuzz
PINS := pyproject.toml constraints.txt

FUZZ_SECONDS ?= 60
TIMES := build/test-times.json
# Our own options need the `=`: pytest looks for conftest.py before it knows them, and would take a
# value that stands alone for the path of a test.
PYTEST := $(PY) -m pytest --times-file=$(TIMES)
# More for every run of pytest, e.g. make test PYTEST_ARGS="-k cli"
PYTEST_ARGS ?=

.PHONY: help up test lint bench fuzz soak clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  %-8s %s\n", $$1, $$2}' Makefile

up: $(BASE) ## install the base and run a local cluster
	@$(BIN)/floodmark up

test: lint ## all checks and all tests, with a table of times at the end
	@mkdir -p build && rm -f $(TIMES)
	@status=0; \
	echo "== tests, two at a time"; \
	$(PYTEST) --phase=parallel -n 2 --dist loadgroup -m "not live and not soak" $(PYTEST_ARGS) \
	  || status=$$?; \
	echo "== live tests, one at a time"; \
	$(PYTEST) --phase=live -n 0 -m "live and not soak" $(PYTEST_ARGS) || status=$$?; \
	$(PY) -m tests.support.times_report $(TIMES); \
	exit $$status

lint: $(TEST) ## style, types and the direction of imports
	@echo "== ruff"; $(BIN)/ruff check --quiet . && $(BIN)/ruff format --quiet --check .
	@echo "== mypy --strict"; $(PY) -m mypy --strict
	@echo "== import rules"; $(BIN)/lint-imports --no-logo

bench: $(TEST) ## all benchmarks, and the tables in docs/benchmarks.md
	@$(PY) -m bench

fuzz: $(FUZZ) ## fuzz each target for FUZZ_SECONDS (default 60)
	@shopt -s nullglob; targets=(tests/fuzz/fuzz_*.py); \
	if (( $${#targets[@]} == 0 )); then echo "there is no fuzz target yet"; exit 0; fi; \
	for target in "$${targets[@]}"; do \
	  name=$$(basename "$$target" .py); corpus=build/fuzz/$$name; mkdir -p "$$corpus"; \
	  echo "== $$name, $(FUZZ_SECONDS) s"; \
	  $(PY) "$$target" -max_total_time=$(FUZZ_SECONDS) -artifact_prefix="$$corpus-" \
	    -print_final_stats=1 "$$corpus"; \
	done

soak: $(TEST) ## the tests that run for minutes or hours
	@mkdir -p build && rm -f $(TIMES)
	@$(PYTEST) --phase=soak -n 0 -m soak --timeout 0 $(PYTEST_ARGS)

clean: ## remove what builds and tests left, but not .venv
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -not -path './$(VENV)/*' -type d -prune -exec rm -rf {} +

# The first Python on the PATH that is new enough; PYTHON=... chooses another.
$(PY):
	@for python in $${PYTHON:-python3 python3.13 python3.12 python3.11}; do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "== virtual environment in $(VENV), $$("$$python" --version)"; \
	    "$$python" -m venv $(VENV) && exit 0; \
	    echo "cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; \
	    exit 3; \
	  fi; \
	done; \
	echo "Python 3.11 or newer is needed; install it or run make PYTHON=/path/to/python" >&2; exit 3

$(BASE): $(PINS) | $(PY)
	@echo "== installing floodmark"
	@$(PIP) -e .
	@touch $@

$(TEST): $(PINS) | $(PY)
	@echo "== installing floodmark[test]"
	@$(PIP) -e '.[test]'
	@touch $@ $(BASE)

$(FUZZ): $(PINS) | $(PY)
	@echo "== installing floodmark[fuzz]"
	@$(PIP) -e '.[fuzz]'
	@touch $@ $(BASE)
