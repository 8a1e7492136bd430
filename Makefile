# Every target makes the environment it needs; `make` alone lists them.
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FAST := not integration and not system and not chaos and not full and not bench
PYTEST_ARGS ?=
BENCH_ARGS ?=
ROWS ?=
# Compiled code is kept, whatever the shell says: without it every run and every child pays anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-full check bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with everything in requirements.lock (implied by every target)

demo: $(READY) ## two Kafka clusters on this machine, real traffic, mirrored and proven equal
	@$(BIN)/mm2 demo

# Tests with brokers wait more than they work: three at a time keep two cores busy.
test: $(READY) ## every test that fits into a coffee break
	@$(BIN)/pytest -n 2 --dist loadfile -m "not full and not bench" $(PYTEST_ARGS)

test-full: $(READY) ## every test, the long ones too
	@$(BIN)/pytest -m "not bench" $(PYTEST_ARGS)

check: $(READY) ## format, lint, types, import contracts, unit and model tests (few examples): no brokers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@MM2_EXAMPLES=few $(BIN)/pytest -q -n 2 --dist worksteal -m "$(FAST) and not judges" $(wildcard tests/unit tests/model) $(PYTEST_ARGS)

bench: $(READY) ## this and Java MirrorMaker 2 side by side (long; one row: make bench ROWS=tiny)
	@$(BIN)/python -m tests.bench.run $(addprefix --row ,$(ROWS)) $(BENCH_ARGS)

clean: ## remove .venv, caches and build output (downloads stay in the user's cache)
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache spark-warehouse metastore_db artifacts
	@find connect_runtime mm2 tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Looked up only while the environment is being made, so that `make help` needs nothing.
find_python = $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
  $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
  && echo $$p && break; done)
java_major = $(shell "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 \
  | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)
java_is_new = $(shell [ "0$(java_major)" -ge 17 ] && echo yes)
get_python = Python 3.11 or newer with its venv module is missing: apt install python3-venv, brew install python, or see python.org
get_java = Java 17 or newer is missing (found: $(or $(java_major),none)): apt install default-jre-headless, brew install openjdk@21, or set JAVA_HOME

$(READY): pyproject.toml requirements.lock
	$(if $(find_python),,$(error $(get_python)))
	$(if $(java_is_new),,$(error $(get_java)))
	@echo "setup: installing into $(VENV) (a minute or two, once)"
	@$(BIN)/python -c '' 2>/dev/null || $(find_python) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@
