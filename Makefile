# Every target makes the environment it needs; `make` alone lists them.
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
FAST := not integration and not system and not chaos and not full and not bench
QUICK := not full and not bench
UNITS := tests/unit tests/model tests/fuzz
WORKER := tests/unit/connect_runtime
# They wait more than they compute, the latter for promtool.
CONNECTORS := tests/unit/mm2/connectors
DEPLOY := tests/unit/deploy
# Side by side, and each to its end although another fails.
AT_ONCE = $(MAKE) --no-print-directory --keep-going --jobs=6
PYTEST_ARGS ?=
# Who picks tests, as with PYTEST_ARGS="-k word", may find none in one of several runs.
OR_NONE = $(if $(strip $(PYTEST_ARGS)),|| [ $$? -eq 5 ])
BENCH_ARGS ?=
FUZZ_ARGS ?=
SECONDS ?= 60
ROWS ?=
# Compiled code is kept, whatever the shell says: without it every run and every child pays anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-full check docs bench fuzz sbom audit clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with everything in requirements.lock (implied by every target)

demo: $(READY) ## two Kafka clusters on this machine, real traffic, mirrored and proven equal
	@$(BIN)/mm2 demo

# Three processes for tests with brokers, whole files at a time, and one beside them for those without:
# more than there may be processors, since they mostly wait. What the one says comes in one piece. A
# process that dies ends the run: xdist's second one for its file never comes to an end.
test: $(READY) ## every test that fits into a coffee break (properties: some examples)
	@$(AT_ONCE) test-brokers test-units

.PHONY: test-brokers test-units
test-brokers: $(READY)
	@$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart=0 -m "$(QUICK)" \
	  tests $(addprefix --ignore=,$(UNITS)) $(PYTEST_ARGS) $(OR_NONE)
test-units: export MM2_EXAMPLES := some
test-units: $(READY)
	@said=$$($(BIN)/pytest -q -m "$(QUICK)" $(UNITS) $(PYTEST_ARGS) 2>&1 $(OR_NONE)); failed=$$?; \
	  echo "$$said"; exit $$failed

test-full: $(READY) ## every test, the long ones too
	@$(BIN)/pytest -m "not bench" $(PYTEST_ARGS)

check: $(READY) ## format, lint, types, import contracts, unit and model tests (few examples): no brokers
	@$(AT_ONCE) --output-sync=target check-mm2 check-connectors check-deploy check-worker check-types check-style

# Without xdist, whose workers each collect all; it also takes 2 ms to hand on what became of a test.
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
docs: $(READY) ## the documentation as a site, in site/ (broken links are errors)
	@$(BIN)/mkdocs build

bench: $(READY) ## this and Java MirrorMaker 2 side by side (long; one row: make bench ROWS=tiny)
	@$(BIN)/python -m tests.bench.run $(addprefix --row ,$(ROWS)) $(BENCH_ARGS)

fuzz: $(READY) ## foreign bytes to every decoder, so many seconds each (make fuzz SECONDS=600 FUZZ_ARGS="--seed 7")
	@$(BIN)/python -m tests.fuzz.runner --seconds $(SECONDS) $(FUZZ_ARGS)

sbom: $(READY) ## sbom.json: all that an installed mm2 consists of, from its locks (CycloneDX)
	@$(BIN)/python -m deploy.locks.sbom > sbom.json && echo "sbom.json: written"

audit: $(READY) ## known vulnerabilities of all that is locked (asks api.osv.dev)
	@$(BIN)/python -m deploy.locks.audit

clean: ## remove .venv, caches and build output (downloads stay in the user's cache)
	@rm -rf $(VENV) build dist site sbom.json *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
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

# What builds packages has hashes, too: without build isolation, in which pip would fetch the newest.
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
