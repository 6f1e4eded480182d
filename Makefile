# Every target builds the virtual environment first, from the pinned lock, where it is missing or older than the lock.

PYTHON3 ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.lock-installed
PIP := $(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps
JOBS ?= 2
# Most of a GPU test is compiling and proving on the host: about a minute with eight processes on sixteen cores.
GPU_JOBS ?= 8
BENCH ?= gemm

# Tests start many processes, which share what was compiled of the sources, even where the shell asks for nothing to be
# kept. (Python takes an empty value for none.)
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := test
.PHONY: demo test lint lint-style lint-types lint-site docs docs-serve format test-full test-gpu bench lock

# The lock names all there is: nothing is to be resolved, and processes install parts of it side by side. The project
# itself is installed editable, so that `tilewright` is on the venv's path.
$(STAMP): requirements.lock
	test -x $(PYTHON) || $(PYTHON3) -m venv $(VENV)
	sed '/^ *#/d' requirements.lock | xargs -n 30 -P $(JOBS) $(PIP)
	$(PIP) --no-build-isolation --editable .
	touch $@

.venv: $(STAMP)

demo: $(STAMP)
	$(PYTHON) -m tilewright demo

test: $(STAMP)
	$(PYTHON) -m pytest -n $(JOBS) --dist worksteal -q -m "not gpu and not full"

test-full: $(STAMP)
	HYPOTHESIS_PROFILE=random $(PYTHON) -m pytest -n $(JOBS) --dist worksteal -q -m "not gpu"

test-gpu: $(STAMP)
	$(PYTHON) -m pytest -n $(GPU_JOBS) --dist worksteal -q -m gpu

# Side by side: types take one core for most of the time.
lint: $(STAMP)
	$(MAKE) --no-print-directory --jobs=$(JOBS) lint-types lint-style lint-site

lint-style: $(STAMP)
	$(VENV)/bin/ruff check src tests bench docs_site
	$(VENV)/bin/lint-imports

lint-types: $(STAMP)
	$(VENV)/bin/pyright

lint-site: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet

# The site of docs/, in out/site.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

docs-serve: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs serve

format: $(STAMP)
	$(VENV)/bin/ruff check --fix src tests bench docs_site
	$(VENV)/bin/ruff format src tests bench docs_site

# BENCH=compile measures without a GPU.
bench: $(STAMP)
	$(PYTHON) -m bench $(BENCH)

lock:
	$(PYTHON) -m pip install --quiet --disable-pip-version-check pip-tools
	$(VENV)/bin/pip-compile --quiet --upgrade --extra dev --allow-unsafe --strip-extras --no-emit-index-url \
		--no-emit-find-links --no-emit-trusted-host --output-file requirements.lock pyproject.toml
