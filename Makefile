# One command per task. Needs Python 3.11 or newer with venv, make, bash and coreutils; everything else is installed
# into .venv the first time and again only when pyproject.toml or requirements.lock change.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
MERGE ?=
SLOW ?=
EXHAUSTIVE ?=
# Processes that share the tests; one of them runs all that come to Spark (tests/conftest.py).
WORKERS ?= 2
# More arguments: make test ARGS="-k order", make bench ARGS="--quick"
ARGS ?=
# Versions of Spark besides the one of requirements.lock.
VERSIONS ?= 4.1.4 4.2.1

# Compiled sources are kept: without them each process of the tests, each worker of Spark and each command that a test
# starts compiles all of its modules anew, and half of a short run is that.
unexport PYTHONDONTWRITEBYTECODE

# Errors only: the warnings are about pip itself. PIP_QUIET= shows everything.
PIP_QUIET ?= -qq
PIP := $(BIN)/python -m pip install --disable-pip-version-check $(PIP_QUIET) -c requirements.lock

.PHONY: help demo cluster-demo test test-all test-quick test-versions explore check format warm bench docs docs-examples clean

help:
	@echo "make demo        see it run"
	@echo "make cluster-demo a Spark cluster on this machine, and tuples that stay where they are"
	@echo "make test        run the tests (MERGE=1: also those that run at each merge; SLOW=1: also slow ones; WORKERS=2)"
	@echo "make test-all    run all tests, which takes hours"
	@echo "make test-versions the demo and Spark's tests on other versions of Spark (VERSIONS=\"4.1.4 4.2.1\", MERGE=1: all)"
	@echo "make explore     repeat the explorations of interleavings, after a change of what they run"
	@echo "make test-quick  run the unit tests that need no patience"
	@echo "make check       lint, format, types, layers"
	@echo "make warm        compile the worker loop, once a machine"
	@echo "make format      put the code into its format"
	@echo "make bench       compare with other systems (ARGS=\"--quick\")"
	@echo "make docs        the documentation as a site, in site/, with all links checked"
	@echo "make docs-examples run the examples of the documentation"
	@echo "make clean       remove everything that was built or installed here"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(f"Python 3.11 or newer is needed, $(PYTHON) is {sys.version.split()[0]}; try: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)

# Editable, so that a change of the source needs no new installation.
$(VENV)/.installed: pyproject.toml requirements.lock | $(VENV)/bin/python
	@echo "Installing Thalweg into $(VENV) (the first time this fetches about 600 MB, 1.1 GB on disk: some minutes) ..."
	@$(PIP) -e '.[spark]'
	@touch $@

$(VENV)/.dev-installed: $(VENV)/.installed lab/pyproject.toml
	@echo "Installing the tools for tests and checks into $(VENV) ..."
	@$(PIP) -e '.[dev]' -e lab
	@touch $@

$(VENV)/.docs-installed: $(VENV)/.dev-installed
	@echo "Installing what makes the site into $(VENV) ..."
	@$(PIP) -e '.[docs]'
	@touch $@

$(VENV)/.bench-installed: $(VENV)/.installed lab/pyproject.toml
	@echo "Installing the programs to compare with into $(VENV) ..."
	@$(PIP) -e '.[bench]' -e lab
	@touch $@

demo: $(VENV)/.installed
	@$(BIN)/thalweg demo $(ARGS)

cluster-demo: $(VENV)/.installed
	@$(BIN)/thalweg locality demo $(ARGS)

test: $(VENV)/.dev-installed
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup $(if $(filter-out 0,$(MERGE)),--merge) $(if $(filter-out 0,$(SLOW)),--slow) $(if $(filter-out 0,$(EXHAUSTIVE)),--exhaustive) $(ARGS)

test-all: $(VENV)/.dev-installed
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup --exhaustive $(ARGS)

test-quick: $(VENV)/.dev-installed
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup tests/unit --quick $(ARGS)

# Everything but Spark comes from the environment of the other tests.
test-versions: $(VENV)/.dev-installed
	@for version in $(VERSIONS); do \
	  made=$(VENV)-spark-$$version; \
	  test -x $$made/bin/python || $(PYTHON) -m venv $$made; \
	  $$made/bin/python -m pip install --disable-pip-version-check $(PIP_QUIET) --no-deps pyspark==$$version py4j; \
	  $(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $$(ls -d $$made/lib/python*/site-packages)/others.pth; \
	  echo "Spark $$version:"; \
	  PYTHONPATH=src:lab $$made/bin/python -m thalweg.cli demo | tail -n 3; \
	  PYTHONPATH=src:lab $$made/bin/python -m pytest -q -n 0 tests/spark $(if $(filter-out 0,$(MERGE)),--merge,-m short) $(ARGS); \
	done

explore: $(VENV)/.dev-installed
	@$(BIN)/python -m pytest -q -n $(WORKERS) tests/interleavings --explore $(ARGS)
	@$(BIN)/python -m tests.interleavings.explored

check: $(VENV)/.dev-installed
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# The machine code that most tests need. They would compile it before the first of them; here one processor does so while
# another checks: make -j2 check warm.
warm: $(VENV)/.dev-installed
	@$(BIN)/python -m thalweg.embedded.compile_loop

format: $(VENV)/.dev-installed
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: $(VENV)/.bench-installed
	@$(BIN)/python lab/peers/run.py $(ARGS)

# The page on the command line is made anew; whoever changes a command commits it, too.
docs: $(VENV)/.docs-installed
	@$(BIN)/python -m thalweg_lab.site.cli_page docs/reference/cli.md
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@$(BIN)/python -m pytest -q -n 0 tests/docs/test_site.py $(ARGS)
	@echo "site/index.html"

docs-examples: $(VENV)/.dev-installed
	@$(BIN)/python -m pytest -q tests/docs $(ARGS)

clean:
	@rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
