# Every target sets up what it needs on a fresh clone. The first run takes a minute or two.
#   make demo    the daily security sweep on real reports, headless
#   make lab     JupyterLab on notebooks/
#   make test    every check and every test
#   make bench   the table of docs/performance.md
#   make lint, make docs, make clean
# PYTHON=/path/to/python chooses the interpreter of .venv (3.11 or later).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
STEP := .ci/step

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo lab test bench lint docs clean browser

help:
	@sed -n '2,7s/^# *//p' Makefile

# -- set-up ---------------------------------------------------------------------
# A stamp is newer than pyproject.toml when what it stands for is installed.

$(PY):
	@.ci/venv "$(VENV)" "$(PYTHON)"

$(VENV)/.lab: pyproject.toml | $(PY)
	@echo "installing planbench and JupyterLab into $(VENV)"
	@$(PY) -m pip install -qq --editable '.[lab]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(PY)
	@echo "installing planbench and its development tools into $(VENV)"
	@$(PY) -m pip install -qq --editable '.[lab,dev]'
	@touch $(VENV)/.lab $@

browser:
	@.ci/browser

# -- use ------------------------------------------------------------------------

demo: $(VENV)/.lab
	@$(BIN)/planbench demo

lab: $(VENV)/.lab
	@$(BIN)/jupyter lab --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/notebooks/01_first_plan.ipynb \
	    $$([ "$$(id -u)" != 0 ] || echo --allow-root)

bench: $(VENV)/.dev
	@$(PY) benchmarks/run.py

# -- checks ---------------------------------------------------------------------

lint: $(VENV)/.dev
	@$(STEP) "ruff" $(BIN)/ruff check .
	@$(STEP) "format" $(BIN)/ruff format --check .
	@$(STEP) "mypy" $(BIN)/mypy
	@$(STEP) "layers" $(BIN)/lint-imports

docs: $(VENV)/.dev
	@$(STEP) "docs" $(BIN)/sphinx-build -W -q -E -b html docs docs/_build/html

test: $(VENV)/.dev browser
	@$(MAKE) lint
	@$(STEP) "tests" $(BIN)/pytest -q -n 2 -m "not browser" --cov --cov-report=term
	@$(STEP) "notebooks" $(BIN)/pytest -q --nbmake --nbmake-timeout=120 notebooks
	@$(MAKE) docs
	@$(STEP) "browser" $(BIN)/pytest -q -m browser
	@echo "all is well"

clean:
	@rm -rf build dist demo-output docs/_build .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
	@rm -rf $(VENV)
