# Everything runs in .venv, made by the first target that needs it; running a target again repeats
# only what changed. PYTHON may name another interpreter of version 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
PYTEST_ARGS ?=
# Two workers of one thread each: threads of torch and NumPy beyond the cores wait for each other. A
# worker takes files one after the other, so that it makes their fixtures once, and then half of
# what the other has left.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

.PHONY: help demo test check lint types nightly golden tables bench clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: .venv/.demo  ## the main job: compile the bundled model and generate with the emitted kernels
	$(BIN)/ascendfx demo

# Types and layers keep one core busy for a minute; beside the tests, no core waits for them.
test: lint  ## every check: format, lint, types, layers, tests
	@$(MAKE) --no-print-directory types >.types.log 2>&1 & types=$$!; \
	$(PYTEST) $(PYTEST_ARGS); tests=$$?; \
	wait $$types; types=$$?; \
	cat .types.log; \
	exit $$((tests + types))

check: lint types  ## format, lint, types, layers

lint: .venv/.test
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .

types: .venv/.test
	$(BIN)/basedpyright
	$(BIN)/lint-imports --no-cache

nightly: .venv/.test  ## the long property tests
	$(PYTEST) --nightly

golden: .venv/.test  ## rewrite golden files; review the diff
	$(BIN)/python -m pytest -q --update-golden tests/kernels tests/lowering

tables: .venv/.test  ## rewrite the tables of ir/README.md and passes/README.md
	$(BIN)/python -m pytest -q --update-golden tests/ir/test_readme.py
	$(BIN)/python -m tests.passes.readme_tables

bench: .venv/.test  ## print the figures of tests/benchmarks
	for each in tests/benchmarks/*.py; do $(BIN)/python $$each || exit 1; done

clean:  ## remove what the other targets made
	rm -rf .venv build dist *.egg-info .ruff_cache .pytest_cache .hypothesis .types.log

.venv/bin/pip:
	$(PYTHON) -m venv .venv

# torch first and pinned exactly: a range may bring a CUDA build of several gigabytes.
.venv/.demo: pyproject.toml constraints.txt | .venv/bin/pip
	$(PIP) torch==2.13.0
	$(PIP) -e '.[capture]'
	touch $@

.venv/.test: pyproject.toml constraints.txt | .venv/bin/pip
	$(PIP) torch==2.13.0
	$(PIP) -e '.[dev]'
	touch $@ .venv/.demo
