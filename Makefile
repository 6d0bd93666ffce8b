# Everything runs in .venv, which is made on demand and renewed only when pyproject.toml or constraints.txt change.
# Another interpreter: `make test PYTHON=python3.12`. More arguments for pytest: `make test ARGS="-k schema"`.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

PY := $(VENV)/bin/python
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test test-data lint format numbers count docs build clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.installed ## run the demonstration: a table, pictures and a page in gspn-demo/
	$(VENV)/bin/gspn demo

test: lint ## check style and types, then run all tests that need no data sets
	OMP_NUM_THREADS=1 $(PY) -m pytest -m "not data" -n 2 --cov --cov-report=term $(ARGS)

test-data: $(VENV)/.installed-dev ## run the tests on real data (GSPN_DATA_ROOT, or ../shared/data)
	$(PY) -m pytest -m data $(ARGS)

lint: $(VENV)/.installed-dev ## check style and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(VENV)/.installed-dev ## mend the style
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

numbers: $(VENV)/.installed-dev ## put what the records say into README.md and docs/measured.md
	$(PY) docs/dev/measured.py

count: ## lines of code by room; beside those of another checkout: make count ARGS=../other
	@$(PYTHON) docs/dev/count.py $(ARGS)

docs: $(VENV)/.installed-dev ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

build: $(VENV)/.installed-dev ## put wheel and sdist into dist/
	rm -rf dist
	$(PY) -m build --no-isolation

clean: ## remove what was built or cached; .venv stays
	rm -rf dist build gspn-demo htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +
	rm -rf site

$(VENV)/.created:
	@command -v $(PYTHON) > /dev/null 2>&1 || { \
	  echo 'error: there is no "$(PYTHON)" here; name a Python >= 3.11: make PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'error: gspn needs Python >= 3.11, but "$(PYTHON)" is' "$$($(PYTHON) --version 2>&1);" \
	       'name a newer one: make PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) || { \
	  echo 'error: cannot make $(VENV); on Debian and Ubuntu the package python3-venv may be missing' >&2; exit 1; }
	@touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml constraints.txt
	@echo 'installing gspn into $(VENV); the first time this takes some minutes'
	@$(PIP_INSTALL) --editable '.[chem,plots,spatial,tables,web]'
	@touch $@

# The development environment has all that the plain one has.
$(VENV)/.installed-dev: $(VENV)/.created pyproject.toml constraints.txt
	@echo 'installing gspn and its development tools into $(VENV); the first time this takes some minutes'
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $(VENV)/.installed $@
