# SPDX-License-Identifier: Apache-2.0
# make demo: install into .venv and run the demo.  make test: every test.  make help: the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help install demo test test-fast lint table clean

help:
	@echo "make demo       install into $(VENV) and run the demo on the emulated device"
	@echo "make test       every test (about five minutes on two cores)"
	@echo "make test-fast  the tests that take seconds"
	@echo "make lint       ruff and mypy"
	@echo "make table      measure the networks of the paper again (needs ../shared)"
	@echo "make install    the environment alone"

install: $(VENV)/.installed

# The environment counts as made only once everything is in it.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: install
	rm -rf build/demo
	$(BIN)/trainlet demo -o build/demo

test: install
	$(BIN)/python -m pytest -n 2 -q

test-fast: install
	$(BIN)/python -m pytest -n 2 -q -m 'not slow'

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

table: install
	$(BIN)/python benchmarks/paper_networks.py

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis
