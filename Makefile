# Every target creates the environment that it needs. `make` without a target lists the targets.
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
FAST := not integration and not system and not chaos and not full and not bench
QUICK := not full and not bench
UNITS := tests/unit tests/model tests/fuzz
WORKER := tests/unit/connect_runtime
# These tests wait more than they compute; DEPLOY waits for promtool.
CONNECTORS := tests/unit/mm2/connectors
DEPLOY := tests/unit/deploy
# Run targets in parallel, each to its end even if another one fails.
AT_ONCE = $(MAKE) --no-print-directory --keep-going --jobs=6
PYTEST_ARGS ?=
# With PYTEST_ARGS="-k word", one of several pytest runs may select no test (exit code 5).
OR_NONE = $(if $(strip $(PYTEST_ARGS)),|| [ $$? -eq 5 ])
BENCH_ARGS ?=
FUZZ_ARGS ?=
SECONDS ?= 60
ROWS ?=
# Always write compiled bytecode: without it, every run and every child process compiles again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-full check docs bench fuzz sbom audit clean

help: ## list all targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv with the dependencies in requirements.lock (every target does this first)

demo: $(READY) ## replicate between two Kafka clusters on this machine, compare every record, fail over
	@$(BIN)/mm2 demo

# Three processes for tests with brokers (each test file runs in one process), and one process for tests
# without brokers. This may be more than there are cores, because the tests mostly wait. The output of
# test-units is printed at once. If a process dies, the run ends: a replacement process of xdist would
# hang.
test: $(READY) ## all tests except the slow ones (20 minutes; fewer examples per property test)
	@$(AT_ONCE) test-brokers test-units

.PHONY: test-brokers test-units
test-brokers: $(READY)
	@$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart=0 -m "$(QUICK)" \
	  tests $(addprefix --ignore=,$(UNITS)) $(PYTEST_ARGS) $(OR_NONE)
test-units: export MM2_EXAMPLES := some
test-units: $(READY)
	@said=$$($(BIN)/pytest -q -m "$(QUICK)" $(UNITS) $(PYTEST_ARGS) 2>&1 $(OR_NONE)); failed=$$?; \
	  echo "$$said"; exit $$failed

test-full: $(READY) ## all tests, including the slow ones
	@$(BIN)/pytest -m "not bench" $(PYTEST_ARGS)

check: $(READY) ## format, lint, types, import contracts, unit and model tests, without brokers
	@$(AT_ONCE) --output-sync=target check-mm2 check-connectors check-deploy check-worker check-types check-style

# Without xdist: each of its workers collects all tests, and reporting a result takes 2 ms per test.
.PHONY: check-mm2 check-connectors check-deploy check-worker check-types check-style
check-mm2 check-connectors check-deploy check-worker: export MM2_EXAMPLES := few
check-mm2: $(READY)
	@$(BIN)/pytest -q -m "$(FAST) and not judges" tests/unit $(addprefix --ignore=,$(WORKER) $(CONNECTORS) $(DEPLOY)) \
	  $(PYTEST_ARGS) $(OR_NONE)
check-connectors: $(READY)
	@$(BIN)/pytest -q -m "$(FAST) and not judges" $(CONNECTORS) $(PYTEST_ARGS) $(OR_NONE)
check-deploy: $(READY)
	@$(BIN)/pytest -q -m "$(FAST) and not judges" $(DEPLOY) $(PYTEST_ARGS) $(OR_NONE)
check-worker: $(READY)
	@$(BIN)/pytest -q -m "$(FAST) and not judges" $(WORKER) tests/model tests/fuzz $(PYTEST_ARGS) $(OR_NONE)
check-types: $(READY)
	@$(BIN)/mypy
check-style: $(READY)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports --no-logo

docs: export NO_MKDOCS_2_WARNING := 1
docs: $(READY) ## build the documentation site in site/ (broken links are errors)
	@$(BIN)/mkdocs build

bench: $(READY) ## benchmark mm2 against Java MirrorMaker 2 (slow; a single row: make bench ROWS=tiny)
	@$(BIN)/python -m tests.bench.run $(addprefix --row ,$(ROWS)) $(BENCH_ARGS)

fuzz: $(READY) ## fuzz every decoder for SECONDS (default 60) each (FUZZ_ARGS="--seed 7")
	@$(BIN)/python -m tests.fuzz.runner --seconds $(SECONDS) $(FUZZ_ARGS)

sbom: $(READY) ## write sbom.json, a CycloneDX SBOM of an installed mm2, from the locks
	@$(BIN)/python -m deploy.locks.sbom > sbom.json && echo "sbom.json: written"

audit: $(READY) ## check the locked packages for known vulnerabilities (queries api.osv.dev)
	@$(BIN)/python -m deploy.locks.audit

clean: ## remove .venv, caches and build output (downloads stay in the user's cache)
	@rm -rf $(VENV) build dist site sbom.json *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache spark-warehouse metastore_db artifacts
	@find connect_runtime mm2 tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Evaluated only when the environment is created, so that `make help` needs neither Python nor Java.
find_python = $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
  $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
  && echo $$p && break; done)
java_major = $(shell "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 \
  | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)
java_is_new = $(shell [ "0$(java_major)" -ge 17 ] && echo yes)
get_python = Python 3.11 or newer with its venv module is missing: apt install python3-venv, brew install python, or see python.org
get_java = Java 17 or newer is missing (found: $(or $(java_major),none)): apt install default-jre-headless, brew install openjdk@21, or set JAVA_HOME

# Build tools are pinned by hash, too. Without --no-build-isolation, pip would download their newest versions.
BUILD_LOCK := deploy/locks/build.lock
$(READY): pyproject.toml requirements.lock $(BUILD_LOCK)
	$(if $(find_python),,$(error $(get_python)))
	$(if $(java_is_new),,$(error $(get_java)))
	@echo "setup: installing into $(VENV) (a minute or two, once)"
	@$(BIN)/python -c '' 2>/dev/null || $(find_python) -m venv --clear $(VENV)
	@$(PIP) --require-hashes -r $(BUILD_LOCK)
	@$(PIP) --no-build-isolation --require-hashes -r requirements.lock
	@$(PIP) --no-build-isolation --no-deps -e .
	@touch $@
