# Every command of the project. Each target may be run again at any time: what is done already is not done twice.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: lock
lock: ## Write the locked requirements anew from the *.in files
	@scripts/lock
