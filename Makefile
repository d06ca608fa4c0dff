# Every command of the project. Each may be run again at any time: what is done already is not done twice.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
DONE := .venv/.done
TESTED := $(DONE)/dev $(DONE)/languages frontend/dist/.built
export PYTHON

CATALOGUES := $(shell find portal/locale -name '*.po')
FRONTEND := $(shell find frontend -type f -not -path '*/node_modules/*' -not -path '*/dist/*' -not -path '*/templates/*' 2>/dev/null)

.PHONY: help setup demo run engine test gpu-check lint bench mutants pictures examples soak compose-test chaos endurance audit lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(DONE)/runtime $(DONE)/languages frontend/dist/.built ## install everything into .venv and build the front end

demo: setup ## start the whole stack on this machine and run a sample job
	@exec $(BIN)/python -m portal.embedded

run: setup ## start the whole stack on this machine, without the sample job
	@exec $(BIN)/python -m portal.embedded --no-job

engine: $(DONE)/dev ## compile the scheduling engine: about twice as fast
	@scripts/engine-build

test: $(TESTED) ## install what the tests need and run them all
	@scripts/test

gpu-check: $(DONE)/runtime ## measure what parking does on this server's GPU (GPU=, OUT=, TORCH_PYTHON=): ten minutes, as root
	@$(BIN)/python -m tests.gpu_check $(if $(GPU),--gpu $(GPU)) $(if $(OUT),--out $(OUT)) $(if $(TORCH_PYTHON),--torch-python $(TORCH_PYTHON))

lint: $(DONE)/dev frontend/dist/.built ## style, types, the floors, Django's own checks
	@scripts/lint

bench: engine $(TESTED) ## print the figures of tests/benchmarks
	@scripts/test-parts
	@for file in tests/benchmarks/bench_*.py; do echo "== $$file"; PYTHONPATH=client $(BIN)/python -m tests.benchmarks.$$(basename $$file .py); done

mutants: $(TESTED) ## make small mistakes in the code and see whether tests notice (AREA="rights logs")
	@BERTH_TEST_SKIP=browser,docker,pooler,prometheus,redis_tls scripts/test-parts
	@$(BIN)/python -m tests.mutants.run $(AREA)

pictures: $(TESTED) ## take the pictures of docs/pictures anew
	@BERTH_TEST_SKIP=docker,pooler,postgres,prometheus,redis_tls scripts/test-parts
	@PYTHONPATH=client $(BIN)/python -m tests.e2e.browser.pictures

examples: $(TESTED) ## ask the REST API anew for the examples of its document
	@BERTH_TEST_RECORD=1 BERTH_TEST_DATABASE=sqlite $(BIN)/python -m pytest -q tests/integration/common/test_examples.py

soak: engine $(TESTED) ## the tests that take hours
	@scripts/test-parts soak
	@BERTH_TEST_DATABASE=sqlite $(BIN)/python -m pytest -m "database and once and not fuzz and not soak"
	@BERTH_TEST_EXAMPLES=200 $(BIN)/python -m pytest -m fuzz
	@BERTH_TEST_EXAMPLES=2000 $(BIN)/python -m pytest tests/unit/scheduling/test_properties.py
	@$(BIN)/python -m pytest -m soak
	@for release in bookworm trixie; do for who in root user; do scripts/fresh-try $$release $$who demo; done; done

compose-test: $(TESTED) ## build the compose stack and try all of it on an Engine of its own: minutes, as root
	@scripts/test-parts soak
	@$(BIN)/python -m pytest -m soak tests/e2e/compose

chaos: engine $(TESTED) ## kill, cut, fill and jump whatever runs, FAULTS times (1000), drawn by SEED; about 80 minutes
	@scripts/chaos-parts
	@PYTHONPATH=.:client $(BIN)/python -m tests.reliability.chaos --faults $(or $(FAULTS),1000) $(if $(SEED),--seed $(SEED))

endurance: engine $(TESTED) ## two hours of load (MINUTES=120): whether memory and handles of each process stay flat
	@scripts/chaos-parts
	@PYTHONPATH=.:client $(BIN)/python -m tests.reliability.chaos.soak --minutes $(or $(MINUTES),120) $(if $(SEED),--seed $(SEED))

audit: $(DONE)/dev ## ask the advisories of PyPI and npm about our packages: it informs, and fails nothing
	@scripts/audit

lock: venv ## write the locked requirements anew from the *.in files
	@scripts/lock

clean: ## remove what setup made (the data in data/ stays)
	@rm -rf .venv build frontend/node_modules frontend/dist

# The virtual environment is checked each time: it breaks when its Python goes away.
.PHONY: venv
venv:
	@scripts/python-setup venv

$(DONE)/runtime: requirements.txt | venv
	@scripts/python-setup packages $<
	@mkdir -p $(DONE) && touch $@

$(DONE)/dev: requirements-dev.txt | venv
	@scripts/python-setup packages $<
	@mkdir -p $(DONE) && touch $@ $(DONE)/runtime

$(DONE)/languages: $(CATALOGUES) | $(DONE)/runtime
	@$(BIN)/python -m scripts.languages compile
	@touch $@

frontend/dist/.built: $(FRONTEND) | venv
	@scripts/frontend-build
	@touch $@
