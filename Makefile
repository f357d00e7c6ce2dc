# Two commands do everything: `make repro` and `make test`. `make help` lists the others.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip install --disable-pip-version-check --require-hashes
REQUIREMENTS := requirements.txt requirements-common.txt requirements-cpu.txt
READY := $(VENV)/.ready-$(shell cat $(REQUIREMENTS) | cksum | cut -d ' ' -f 1)
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export OMP_NUM_THREADS ?= 1

.PHONY: help repro test compare bench chaos clean
help:                      ## list these targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

repro: $(READY)            ## bring every result up to date, then prove a golden run per benchmark
	dvc repro --allow-missing
	dvc repro download@mnist
	python -m pipeline check

test: $(READY)             ## all tests and checks; what CI runs
	ruff check
	ruff format --check
	mypy
	dvc repro download@mnist
	python -m pytest tests -n 2 --dist worksteal
	python -m pipeline check
	python -m pipeline verify --sample 2 --seconds 20

compare: $(READY)          ## what an experiment changed: parameters and metrics; the workspace, or EXP=name
	dvc params diff --no-path HEAD $(EXP)
	dvc metrics diff HEAD$(EXP:%= %) | sed -E 's#^Path {16}#Path#; s#^reports/metrics/##'

bench: $(VENV)/bench/.ready   ## speed as ratios, also to JAX and Avalanche, which it installs; takes about 10 minutes
	dvc repro download@mnist
	PYTHONPATH="$(CURDIR)/$(VENV)/bench" python -m pipeline bench

chaos: $(READY)            ## at least 50 kills, and other faults, on a small suite; at most 10 minutes
	dvc repro download@mnist
	timeout 600 python -m tests.chaos

clean:                     ## remove what can be made again, but keep finished runs (.runs) and results
	rm -rf $(VENV) data .dvc/cache .dvc/tmp .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): $(REQUIREMENTS)
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "Python 3.11, 3.12 or 3.13 is needed, this is " + sys.version.split()[0] + ": set PYTHON=…")'
	@test ! -L $(VENV) || { echo "$(VENV) is a link, and what it leads to is not changed from here: remove the link." >&2; exit 1; }
	rm -f $(VENV)/.ready-*
	@echo "Packages are installed into $(VENV), which takes some minutes."
	$(PYTHON) -m venv $(VENV)
	@echo "First torch, in its CPU build, if pip finds one."
	@if $(PIP) --retries 1 --no-deps -r requirements-cpu.txt 2> /dev/null; then $(PIP) -r requirements-common.txt; \
	else echo "pip finds no CPU build: torch is installed with CUDA, which takes 5 GB."; $(PIP) -r requirements.txt; fi
	touch $@

# JAX and Avalanche are installed for the benchmark only, beside what the environment has.
$(VENV)/bench/.ready: $(READY) requirements-bench.txt
	rm -rf $(VENV)/bench
	$(PIP) --no-deps --target $(VENV)/bench -r requirements-bench.txt
	touch $@
