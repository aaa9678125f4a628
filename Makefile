# Every target sets itself up first, once: Python packages, pinned and hash-checked, in .venv.
# `make crawl` installs what the programs need, all other targets also what checks and tests need.
# Set-up runs again only when pyproject.toml or requirements/ change.

PYTHON ?= python3
PY := .venv/bin/python
RUN_SETUP := .venv/.set-up-run
SETUP := .venv/.set-up
PAGES := build/practice_pages/.stamp
COMPILED := build/.tests_compiled
UV := build/uv/bin/uv
LAST_RELEASE = $(shell ls -d tests/kept_releases/*.*.* | xargs -n1 basename | sort -V | tail -n1)

# Tests start hundreds of programs. Each must find its bytecode, whatever the shell's settings are.
export PYTHONDONTWRITEBYTECODE :=

# With NATIVE=1, tests, benches and the programs that they start run the core that `make wheel-native` builds.
# The safe path keeps this folder's own core from being imported instead.
ifdef NATIVE
NATIVE_CORE := native
RUN := PYTHONPATH=$(CURDIR)/build/native PYTHONSAFEPATH=1 TOEHOLD_CORE=compiled $(PY)
else
RUN := $(PY)
endif

.DEFAULT_GOAL := help
.PHONY: help crawl test check examples conformance soak sharded urlfrontier-suite bench bench-quick wheel-native native \
    native-or-not release keep-release picture prometheus chromium doc-pages pywb generate protos lock clean
.DELETE_ON_ERROR:

## make crawl    crawl a practice web of real pages on this machine, live, into ./crawl/
##               SEEDS="https://…" CONTACT=you@example.org crawls the real web instead, into ./crawl-<host>/
# Without SEEDS the practice web is crawled. Somebody who gives URLs under another name does not mean that.
MISTYPED := $(strip $(foreach name,SEED seed seeds URL url URLS urls CONTACT contact,\
    $(if $(filter command,$(origin $(name))),$(name))))
ifdef SEEDS
ifndef CONTACT
$(error SEEDS also needs CONTACT, a URL or an e-mail address. It is sent with every request, so that a site can reach you)
endif
# SEEDS goes through the environment, so that the shell interprets no character of a URL; -f keeps its ? and *.
export SEEDS CONTACT
crawl: $(RUN_SETUP)
	@set -f; exec .venv/bin/toehold crawl --contact "$$CONTACT" -- $$SEEDS
else ifneq ($(MISTYPED),)
crawl:
	$(error make crawl takes no $(firstword $(MISTYPED)) here. To crawl the web: make crawl SEEDS="https://…" CONTACT=you@example.org)
else
crawl: $(RUN_SETUP) $(PAGES)
	@$(PY) tests/practice_web/crawl.py
endif

## make test     run every check and every test except the long ones; NATIVE=1 tests the compiled core
# Runs five files at a time, the longest first (tests/conftest.py). Many tests wait for processes, so two cores
# are enough.
test: check $(PAGES) $(COMPILED) $(NATIVE_CORE) prometheus chromium pywb
	HYPOTHESIS_PROFILE=ci $(RUN) -m pytest -n 5 --dist loadfile --no-loadscope-reorder
	TOEHOLD_TEST_SHARDS=2 HYPOTHESIS_PROFILE=ci $(RUN) -m pytest -q -n 5 --dist loadfile $(SHARDED_TENTH)

# Suites whose frontiers can have several shards. A test that they are not meant to pass is marked `undivided`.
# What is left out of the folders is about packages, about one store, or has shards anyway.
NOT_SHARDED := $(foreach name,api_page backup compiled_core compose_credentials conformance_soak container_image install \
        kubernetes_credentials network upgrade,tests/acceptance/test_$(name).py) \
    $(foreach name,disk_low sets shards shard_away split,tests/faults/test_$(name).py)
SHARDED := $(filter-out $(NOT_SHARDED),$(foreach group,integration/test_service integration/test_server_ \
        integration/test_console_ integration/test_embedded_ integration/urlfrontier/test_ acceptance/test_ faults/test_,\
        $(wildcard tests/$(group)*.py))) $(wildcard tests/integration/test_*_command_line.py) \
    $(foreach name,absence asking_directory checkpoints conformance cookie_walls descriptors disk_reserve gate \
        health_command metrics pings plain_refusals private_files read_only redirected_pages reflection request_ids \
        scrapy_joining shared_cookies strangers tls traces whole_crawl,tests/integration/test_$(name).py) \
    tests/faults/errors/test_nodes.py tests/faults/errors/test_read_only.py
# A tenth of them, of each kind some that are quick: `make test` runs these on two shards.
SHARDED_TENTH := $(foreach name,service service_candidates service_events service_waiting console_live gate scrapy_joining,\
        tests/integration/test_$(name).py) tests/integration/urlfrontier/test_urls.py tests/acceptance/test_live.py \
    $(foreach name,attendance pause_under_load same_name,tests/faults/test_$(name).py)

## make sharded  run suites against frontiers of 1, of 2 and of 5 shards; SHARDS="3" chooses others
sharded: $(SETUP) $(PAGES)
	for each in $(or $(SHARDS),1 2 5); do \
	    TOEHOLD_TEST_SHARDS=$$each HYPOTHESIS_PROFILE=ci $(PY) -m pytest -q -n 4 --dist loadfile $(SHARDED) || exit 1; \
	done

## make check    check style, types, import rules, contract, generated code, diagrams, and that mypyc accepts the core
check: $(SETUP)
	$(PY) -m ruff check --quiet
	$(PY) -m ruff format --check --quiet
	$(PY) -m mypy
	.venv/bin/lint-imports --no-logo
	.venv/bin/buf lint
	.venv/bin/buf breaking --against tests/kept_releases/$(LAST_RELEASE)/contract.binpb
	$(PY) tools/native.py --check
	$(PY) tools/generate.py --check

## make conformance
##               judge our node, and each example that is built, by the contract; writes the table in docs/fetchers.md
conformance: $(SETUP)
	@$(PY) tools/judge.py

## make examples build the fetchers in examples/ that this machine has a toolchain for, and crawl the practice web with
##               each alone and with all together, under kills; prints a table
##               LANGUAGES="go rust" takes only these; KILLS=40 and SEED=… set the kills
examples: $(SETUP) $(PAGES)
	@$(PY) tests/example_fetchers/run.py $(LANGUAGES) $(KILLS:%=--kills %) $(SEED:%=--seed %)

## make soak     cause thousands of faults, for some hours, and print one table of the losses
##               PART=kills runs one part, CYCLES=1000 sets how often, SEED=… repeats a run; ends with `make sharded`
##               PART=upgrade FROM=COMMIT upgrades machines from the program of that commit
soak: $(SETUP) $(PAGES) $(if $(filter-out links,$(PART)),,doc-pages) $(if $(filter-out compiled,$(PART)),,native-or-not)
	PART='$(PART)' CYCLES='$(CYCLES)' SEED='$(SEED)' FROM='$(FROM)' HYPOTHESIS_PROFILE=soak $(PY) -m pytest -m soak -n 2 --dist load --maxschedchunk 1
	$(if $(PART),,$(MAKE) sharded)

## make urlfrontier-suite URLFRONTIER_HOME=DIR
##               run URLFrontier's own tests and its client's commands on toehold-urlfrontier; needs Maven and Java
urlfrontier-suite: $(SETUP)
	@PYTHONPATH=tests $(PY) tests/integration/urlfrontier/peer_suite.py '$(URLFRONTIER_HOME)'

## make bench    measure what an item costs on this machine
##               PART=restart runs one part; put several in quotes
##               PART=shards compares several shards with one frontier, PART=log a store with a log with one without,
##               PART=doors shows what door and front of a cluster take, PART=connections how many TLS handshakes
##               a site sees
##               PART=growth SIZE=URIS:QUEUES and PART=idle QUEUES=N set the size
##               PART=durability SIZE=URIS:QUEUES compares with answers that do not wait for the disk
##               PART=mixed MINUTES=N does all kinds of work at once, for half an hour by default
##               PART=urlfrontier URLFRONTIER_HOME=DIR also measures URLFrontier, whose built source tree is there
##               NATIVE=1 measures the compiled core
bench: $(SETUP) $(PAGES) $(NATIVE_CORE)
	@$(RUN) tests/benchmarks/bench.py $(PART) $(SIZE:%=--size %) $(QUEUES:%=--queues %) $(MINUTES:%=--minutes %)

## make bench-quick
##               measure for two minutes at one size; fails if an item costs more than 1.5 times its budget
bench-quick: $(SETUP) $(PAGES) $(NATIVE_CORE)
	@$(RUN) tests/benchmarks/bench.py --quick

WHEEL_NATIVE := HATCH_BUILD_HOOK_ENABLE_CUSTOM=true $(PY) -m pip wheel --quiet \
    --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir

## make wheel-native
##               build a wheel whose core is compiled, for this Python and this machine, in dist/; needs a C compiler
wheel-native: $(SETUP)
	$(WHEEL_NATIVE) dist .

## make release  build sdist, wheels and SBOM of the last commit, reproducibly, in dist/; publishes nothing
##               the core is compiled for each Python of this machine; PYTHONS="python3.12 python3.14" chooses
release: $(SETUP)
	@$(PY) tools/release.py $(PYTHONS)

## make keep-release
##               keep the contract and a store of this version in tests/kept_releases, which later versions must honour
keep-release: $(SETUP)
	@$(PY) tests/kept_releases/keep.py

## make picture  draw docs/watch.svg, report.svg, help.svg and console*.png: what commands and the console show, from
##               crawls of the practice web
picture: $(SETUP) $(PAGES) chromium
	@$(PY) tools/picture.py

## make prometheus
##               unpack Debian's Prometheus in build/, for the tests that need one; without apt-get they are skipped
# Nothing is installed, and root is not needed. A machine without a network says so soon, and goes on.
PROMETHEUS := build/prometheus
APT := apt-get download -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=5 -o Acquire::https::Timeout=5
prometheus:
	@if test -x $(PROMETHEUS)/usr/bin/promtool; then exit 0; fi; \
	if command -v prometheus >/dev/null && command -v promtool >/dev/null; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then echo "No Prometheus and no apt-get: some tests are skipped"; exit 0; fi; \
	echo "Setting up: Prometheus, for tests"; mkdir -p $(PROMETHEUS); cd $(PROMETHEUS); \
	{ timeout 120 $(APT) prometheus 2>apt.log && dpkg -x prometheus_*.deb .; } \
	    || echo "Prometheus cannot be downloaded: some tests are skipped"; rm -f *.deb

## make chromium unpack Debian's Chromium in build/, for the tests of the console; without apt-get they are skipped
# With all packages that it needs and this machine lacks. Nothing is installed, and root is not needed.
CHROMIUM := build/chromium
chromium:
	@if test -x $(CHROMIUM)/usr/lib/chromium/chromium || command -v chromium >/dev/null; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then echo "No Chromium and no apt-get: some tests are skipped"; exit 0; fi; \
	echo "Setting up: Chromium, for tests"; rm -rf $(CHROMIUM); mkdir -p $(CHROMIUM); cd $(CHROMIUM); \
	{ timeout 300 $(APT) $$(apt-get install --print-uris -qq --no-install-recommends chromium fonts-dejavu-core \
	        2>apt.log | cut -d ' ' -f 2 | cut -d _ -f 1) 2>>apt.log \
	    && for each in *.deb; do dpkg -x "$$each" . || exit 1; done; } \
	    || { echo "Chromium cannot be downloaded: some tests are skipped"; rm -rf usr; }; rm -f *.deb

## make doc-pages
##               unpack documentation of Debian's packages in build/, thousands of pages for `make soak PART=links`
DOC_PAGES := build/doc_pages
DOC_PACKAGES := apache2-doc cmake-doc doxygen-doc git-doc libgtk-3-doc python-django-doc sqlite3-doc
doc-pages:
	@if test -d $(DOC_PAGES)/usr; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then echo "No apt-get: pages of documentation cannot be had"; exit 0; fi; \
	echo "Setting up: pages of documentation, for soaks"; rm -rf $(DOC_PAGES); mkdir -p $(DOC_PAGES); \
	cd $(DOC_PAGES); \
	{ timeout 300 $(APT) $(DOC_PACKAGES) 2>apt.log \
	    && for each in *.deb; do dpkg -x "$$each" . || exit 1; done; } \
	    || { echo "Pages of documentation cannot be downloaded: see $(DOC_PAGES)/apt.log"; rm -rf usr; }; rm -f *.deb

## make pywb     install pywb in build/, for the tests that replay archives; without a network they are skipped
# It has an environment of its own: it is a program that tests run, and no part of this project (its licence is GPL).
PYWB := build/pywb
pywb:
	@if test -x $(PYWB)/bin/wayback || command -v wayback >/dev/null; then exit 0; fi; \
	echo "Setting up: pywb, for tests"; mkdir -p build; rm -rf $(PYWB); \
	{ $(PYTHON) -m venv $(PYWB) && $(PYWB)/bin/python -m pip install --quiet --disable-pip-version-check \
	        --prefer-binary --require-hashes -r requirements/pywb.txt 2>build/pywb.log; } \
	    || { echo "pywb cannot be installed (see build/pywb.log): some tests are skipped"; rm -rf $(PYWB); }

## make generate
##               write all that is generated: settings, the contract's Python, the blocking client, tables of commands
##               and metrics, diagrams
generate: $(SETUP)
	@$(PY) tools/generate.py

## make protos   write only the contract's Python, beside the .proto files
protos: $(SETUP)
	@$(PY) tools/generate.py protos

## make lock     rewrite requirements/ from pyproject.toml; UPGRADE=1 also takes newer versions
LOCK := pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
    --no-annotate
lock: $(UV)
	$(UV) $(LOCK) $(if $(UPGRADE),--upgrade) --all-extras --group dev --output-file requirements/dev.txt pyproject.toml
	$(UV) $(LOCK) --extra all --constraint requirements/dev.txt --output-file requirements/all.txt pyproject.toml
	$(UV) $(LOCK) --extra cli --extra console --extra frontier --extra node --group crawl --constraint requirements/dev.txt \
	    --output-file requirements/run.txt pyproject.toml
	$(UV) $(LOCK) --extra frontier --group compile --constraint requirements/dev.txt \
	    --output-file requirements/compile.txt pyproject.toml
	$(UV) $(LOCK) $(if $(UPGRADE),--upgrade) --output-file requirements/pywb.txt requirements/pywb.in

## make clean    remove everything that set-up, checks and tests have made; crawls stay
clean:
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

help:
	@sed -n 's/^## //p' Makefile

$(RUN_SETUP): pyproject.toml requirements/run.txt
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found. Install Python 3.11 or newer, or name yours: make PYTHON=…"; exit 1; }
	@$(PY) -m pip --version >/dev/null 2>&1 || { echo "Setting up: .venv"; $(PYTHON) tools/make_venv.py; }
	@printf 'Setting up: packages to crawl with, by hash (some minutes, once) '
	@$(PY) tools/install.py requirements/run.txt
	@echo "Setting up: this project"
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(SETUP): requirements/dev.txt $(RUN_SETUP)
	@printf 'Setting up: packages for checks and tests, by hash (some minutes, once) '
	@$(PY) tools/install.py requirements/dev.txt
	@touch $@

# Pages are rendered once; a new set-up alone does not render them again.
$(PAGES): tests/practice_web/render.py tests/practice_web/web.py | $(RUN_SETUP)
	@echo "Setting up: practice pages"
	@$(PY) tests/practice_web/render.py --out $(@D)
	@touch $@

# Tests are compiled once here; otherwise each process of `make test` would compile all of them at the same time.
# The test run itself reports any error.
$(COMPILED): | $(SETUP)
	@echo "Setting up: tests"
	@mkdir -p $(@D); $(PY) -m pytest --collect-only -q > /dev/null 2>&1; touch $@

# The wheel is rebuilt if the core has changed; everything else in build/native is copied from this folder.
PURE := crawler_node toehold_base toehold_cli toehold_client toehold_conformance toehold_console toehold_scrapy \
    urlfrontier_gateway protos/toehold protos/urlfrontier
native: build/native/.stamp
	@cd build/native && rm -rf $(notdir $(PURE))
	@cp -r $(PURE) frontier_server build/native/

build/native/.stamp: tools/native.py $(wildcard frontier_server/core/*.py frontier_server/core/*/*.py \
    frontier_server/coordinator/*.py) | $(SETUP)
	@echo "Setting up: the core, compiled (some minutes)"
	@rm -rf $(@D) build/native-wheel
	@$(WHEEL_NATIVE) build/native-wheel .
	@$(PY) -m zipfile -e build/native-wheel/*.whl $(@D); touch $@

# Soaks go on without a compiler, and tests that need one are skipped.
native-or-not: $(SETUP)
	@if why=$$($(PY) tools/can_compile.py 2>&1); then $(MAKE) --no-print-directory native; \
	else echo "The compiled core is not tested: $$why"; fi

# uv has its own environment, so that a broken lock does not prevent making a new one.
$(UV):
	@$(PYTHON) -m venv build/uv
	@build/uv/bin/pip install --quiet --disable-pip-version-check uv==0.13.8
