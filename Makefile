# A thin veneer: every word is a command of dev.py, and without make one types `python3 dev.py test`.
PYTHON ?= python3

.PHONY: help setup demo test lint types sweep interop trials native same bench wheel bundle release ci

help setup demo test lint types sweep interop trials native same bench wheel bundle release ci:
	@$(PYTHON) dev.py $@
