# The commands of this project; each does its own set-up in .venv. `make` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
ENGINES := .venv-engines
TORCH ?= torch==2.13.0

.PHONY: help demo test test-all test-engines test-pythons lint bench fresh clean

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.ready  ## convert a trained detector, serve it, send it a page, check what it finds
	@$(BIN)/python -m demo.run

test: $(VENV)/.ready  ## the tests, without the slow ones; FAMILY=yolo runs one family's own
	@$(PYTEST) -m "not slow" $(if $(FAMILY),$(wildcard postprocessors/$(FAMILY)/tests runtimes/$(FAMILY)/tests),)

test-all: $(VENV)/.ready  ## every test
	@$(PYTEST)

test-engines: $(ENGINES)/.ready  ## every engine's tests, with every engine; TORCH='torch==2.13.0 ...' is what pip installs
	@$(ENGINES)/bin/python -m pytest runtimes tests/engines

test-pythons: $(VENV)/.ready  ## the payload's tests on every Python that the payload supports and that is here
	@$(BIN)/python scripts/test_pythons.py

lint: $(VENV)/.lint  ## ruff and pyright
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/pyright

bench: $(VENV)/.ready  ## measure; writes docs/performance.md's table to stdout
	@$(BIN)/python -m bench

fresh:  ## prove the README in a bare Debian 12 (needs root and debootstrap)
	@scripts/fresh.sh

clean:  ## remove what the commands made
	rm -rf $(VENV) $(ENGINES) .cache dist build
	find model_repository -mindepth 1 ! -name README.md -delete

# pip's own output is shown only when it fails; the stamp is renewed when a requirement changes.
define install
	@$(PYTHON) scripts/check_system.py
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing $(1) into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(1)]'
	@touch $@
endef

$(VENV)/.ready: pyproject.toml scripts/check_system.py
	$(call install,serve$(comma)client$(comma)test)

$(VENV)/.lint: $(VENV)/.ready
	$(call install,lint)

$(ENGINES)/.ready: pyproject.toml scripts/check_system.py scripts/engines_env.py
	@$(PYTHON) scripts/check_system.py
	@echo "installing every engine into $(ENGINES) ..."
	@$(PYTHON) scripts/engines_env.py $(ENGINES) '$(TORCH)'
	@touch $@

comma := ,
