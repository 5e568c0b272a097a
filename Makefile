# `make test` is the whole check, `make demo` the whole product on one machine. Both install what is
# missing. Needs make, git and Python 3.11 or later; PYTHON names another one.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PACKAGES := gpu_actuary exporters generator grafana predictor ledger simulator demo

.DEFAULT_GOAL := help
.PHONY: help venv tools testtools lint test demo golden clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1 /p' $(MAKEFILE_LIST) | while read -r name text; do \
		printf '  make %-9s %s\n' "$$name" "$$text"; done

venv: $(STAMP) ## install the package and its development tools into .venv

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "make: $(PYTHON) is older than Python 3.11; name another one with PYTHON=" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
		echo "make: $(PYTHON) cannot make a virtual environment; on Debian install python3-venv" >&2; \
		exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

tools: ## install Prometheus and Alertmanager where they are missing (Debian, Ubuntu)
	@sh deploy/tools.sh

testtools: ## as tools, with what only the tests run: a C compiler and VictoriaMetrics
	@sh deploy/tools.sh test

lint: venv ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@set -e; for package in $(PACKAGES); do \
		echo "mypy $$package"; $(BIN)/mypy "$$package"; done

test: testtools lint ## run the whole check: lint, types, unit, property, rule and end-to-end tests
	$(BIN)/pytest

demo: tools venv ## run everything on this machine until Ctrl-C (DEMO_SECONDS=180 ends by itself)
	@$(BIN)/python -m demo

golden: venv ## write the committed rendered files again
	$(BIN)/actuary dashboards -o grafana
	$(BIN)/python -m tests.golden
	$(BIN)/python -m tests.documentation

clean: ## remove what the other targets made, but not .venv
	rm -rf .demo .mypy_cache .pytest_cache .ruff_cache .hypothesis
