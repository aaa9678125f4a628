# Every target sets itself up first, once: Python packages, pinned and hash-checked, in .venv.
# Set-up runs again only when pyproject.toml or requirements/ change.

PYTHON ?= python3
PY := .venv/bin/python
SETUP := .venv/.set-up
PAGES := build/practice_pages/.stamp
COMPILED := build/.tests_compiled
UV := build/uv/bin/uv

# Tests start programs by the hundred: each is to find its bytecode, whatever the shell's settings are.
export PYTHONDONTWRITEBYTECODE :=

# With NATIVE=1 tests and benches run what `make wheel-native` makes, and so do the programs that they start:
# the safe path keeps this folder's own core out of their way.
ifdef NATIVE
NATIVE_CORE := native
RUN := PYTHONPATH=$(CURDIR)/build/native PYTHONSAFEPATH=1 TOEHOLD_CORE=compiled $(PY)
else
RUN := $(PY)
endif

.DEFAULT_GOAL := help
.PHONY: help crawl test check soak bench bench-quick wheel-native native diagrams picture protos lock clean
.DELETE_ON_ERROR:

## make crawl    crawl a practice web of real pages on this machine, live, into ./crawl/
##               SEEDS="https://…" CONTACT=you@example.org crawls the real web instead, into ./crawl-<host>/
ifdef SEEDS
ifndef CONTACT
$(error SEEDS also needs CONTACT, a URL or an e-mail address: it is sent with every request, so that a site can reach you)
endif
# Through the environment, so that no character of a URL means anything to the shell; -f leaves its ? and * alone.
export SEEDS CONTACT
crawl: $(SETUP)
	@set -f; exec .venv/bin/toehold crawl --contact "$$CONTACT" -- $$SEEDS
else
crawl: $(SETUP) $(PAGES)
	@$(PY) tests/practice_web/crawl.py
endif

## make test     every check and every test but the long ones; NATIVE=1 tries the compiled core
# Four files at a time, which two cores bear, as most tests wait for processes; the longest first (tests/conftest.py).
test: check $(PAGES) $(COMPILED) $(NATIVE_CORE)
	HYPOTHESIS_PROFILE=ci $(RUN) -m pytest -n 4 --dist loadfile --no-loadscope-reorder

## make check    style, types, import rules, contract, generated code, diagrams
check: $(SETUP)
	$(PY) -m ruff check --quiet
	$(PY) -m ruff format --check --quiet
	$(PY) -m mypy
	.venv/bin/lint-imports --no-logo
	.venv/bin/buf lint
	$(PY) tools/protos.py --check
	$(PY) tools/diagrams.py --check

## make soak     faults by the thousand, for some hours; prints one table of what was lost
##               PART=kills runs one part, CYCLES=1000 sets how often, SEED=… plays a run again
soak: $(SETUP) $(PAGES)
	PART='$(PART)' CYCLES='$(CYCLES)' SEED='$(SEED)' HYPOTHESIS_PROFILE=soak $(PY) -m pytest -m soak -n 2 --dist load --maxschedchunk 1

## make bench    what an item costs on this machine
##               PART=restart runs one part; several go in quotes. PART=growth SIZE=URIS:QUEUES, PART=idle QUEUES=N,
##               PART=durability SIZE=URIS:QUEUES: the same where answers do not wait for the disk,
##               PART=mixed MINUTES=N: all kinds of work at once, for half an hour unless said otherwise;
##               NATIVE=1 measures the compiled core
bench: $(SETUP) $(PAGES) $(NATIVE_CORE)
	@$(RUN) tests/benchmarks/bench.py $(PART) $(SIZE:%=--size %) $(QUEUES:%=--queues %) $(MINUTES:%=--minutes %)

## make bench-quick
##               the same in two minutes, at one size; an item may cost half as much again as its budget
bench-quick: $(SETUP) $(PAGES) $(NATIVE_CORE)
	@$(RUN) tests/benchmarks/bench.py --quick

## make wheel-native
##               build a wheel whose core is compiled, for this Python and this machine, in dist/; needs a C compiler
wheel-native: $(SETUP)
	@rm -f dist/*.whl
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=true $(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps \
	    --no-build-isolation --wheel-dir dist .

## make picture  draw docs/watch.svg, what `toehold watch` shows, from a crawl of the practice web
picture: $(SETUP) $(PAGES)
	@$(PY) tools/picture.py

## make protos   generate the contract's Python, beside the .proto files
protos: $(SETUP)
	@$(PY) tools/protos.py

## make diagrams draw the state diagrams of docs/states.md from the tables of the core
diagrams: $(SETUP)
	@$(PY) tools/diagrams.py

## make lock     write requirements/dev.txt anew from pyproject.toml; UPGRADE=1 takes newer versions too
lock: $(UV)
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
	    --no-annotate $(if $(UPGRADE),--upgrade) --group dev --output-file requirements/dev.txt pyproject.toml

## make clean    remove all that set-up, checks and tests have made; crawls stay
clean:
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

help:
	@sed -n 's/^## //p' Makefile

$(SETUP): pyproject.toml $(wildcard requirements/*.txt)
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON): not found. Install Python 3.11 or newer, or name yours: make PYTHON=…"; exit 1; }
	@$(PY) -m pip --version >/dev/null 2>&1 || { echo "Setting up: .venv"; $(PYTHON) tools/make_venv.py; }
	@echo "Setting up: pinned packages, by hash (a minute or two, once)"
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@echo "Setting up: this project"
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Rendered once; new set-up alone is no reason to render again.
$(PAGES): tests/practice_web/render.py tests/practice_web/web.py | $(SETUP)
	@echo "Setting up: practice pages"
	@$(PY) tests/practice_web/render.py --out $(@D)
	@touch $@

# Once, or each of the processes that `make test` starts would compile all of them at the same time. An error
# in one of them is told when the tests run.
$(COMPILED): | $(SETUP)
	@echo "Setting up: tests"
	@mkdir -p $(@D); $(PY) -m pytest --collect-only -q > /dev/null 2>&1; touch $@

# The wheel is built again where the core has changed; everything else in it is what this folder has now.
native: build/native/.stamp
	@rm -rf build/native/crawler_node build/native/toehold build/native/toehold_client
	@cp -r crawler_node client/toehold_client protos/toehold frontier_server build/native/

build/native/.stamp: tools/native.py $(wildcard frontier_server/core/*.py frontier_server/core/*/*.py) | $(SETUP)
	@echo "Setting up: the core, compiled (some minutes)"
	@rm -rf $(@D); $(MAKE) --no-print-directory wheel-native
	@$(PY) -m zipfile -e dist/*.whl $(@D); touch $@

# In an environment of its own: a broken lock must not keep anybody from making a new one.
$(UV):
	@$(PYTHON) -m venv build/uv
	@build/uv/bin/pip install --quiet --disable-pip-version-check uv==0.13.8
