# Two commands do everything on a fresh machine: `make demo` and `make test`. `make` alone lists all.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help demo test test-long wheel lint attack docs bench clean

help:
	@echo "make demo    a deep network that fails, why, and what helps: one minute, no download"
	@echo "make test    the tests: five minutes on two cores"
	@echo "make test-long  the longest ones: processes, searches, compiled code, all pages of the documentation"
	@echo "make wheel   builds the wheel and runs it in a fresh environment: demo, a training, a plugin"
	@echo "make lint    ruff and mypy"
	@echo "make attack  attacks on the command line"
	@echo "make docs    the documentation, into site/; site/index.html opens in a browser"
	@echo "make bench   times of training steps against PyTorch Geometric"
	@echo "make clean   remove the environment and what was built"

# Four networks on a generated citation graph: no download.
demo: $(INSTALLED)
	@$(BIN)/gnn-depth demo

test: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not long" $(PYTEST_ARGS)

test-long: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "long and not slow" $(PYTEST_ARGS)

wheel: $(INSTALLED)
	$(BIN)/python -m pytest -m slow -k wheel tests/test_plugin_package.py

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

attack: $(INSTALLED)
	$(BIN)/python -m tools.attack

# Any warning is an error: a broken link, an argument that no docstring explains.
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# Times against PyTorch Geometric, on an idle machine. GNN_DEPTH_DATA names the data sets; what is not there is downloaded.
bench: $(INSTALLED)
	$(BIN)/python -m tools.bench $(BENCH_ARGS)

$(INSTALLED): pyproject.toml constraints.txt gnn_depth/_version.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "gnn_depth needs Python 3.10 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache
