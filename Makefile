# make demo    train and compare three models on built-in pictures (installs what it needs first)
# make test    install everything and run every check
# make quick   the checks that take under a minute
# make setup   only install
PYTHON ?= python3
BIN := .venv/bin
CORES := $(shell $(PYTHON) -c "import os; print(min(8, os.cpu_count()))")
# Several processes of one thread each are faster than one of several threads; one more than cores, as some wait.
WORKERS := $(shell expr $(CORES) + 1)
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses
PIP := $(BIN)/pip install --quiet --disable-pip-version-check

.PHONY: demo test quick setup clean
.DEFAULT_GOAL := setup

demo: .venv/.train-is-ready
	$(BIN)/vsepp demo

test: .venv/.everything-is-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) $(WORKERS)

quick: .venv/.everything-is-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(PYTEST) $(CORES) -m "not slow"

setup: .venv/.everything-is-ready

# Empty files that remember what has been installed: a second call installs nothing.
.venv/.train-is-ready: pyproject.toml | .venv/.exists
	$(PIP) --editable ".[train]"
	@touch $@

.venv/.everything-is-ready: pyproject.toml | .venv/.exists
	$(PIP) --editable ".[train,usearch,milvus,ray,remote,dev]"
	@touch $@ .venv/.train-is-ready

.venv/.exists:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "vsepp needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

clean:
	rm -rf .venv .venv-lowest .venv-milvus build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache runs
