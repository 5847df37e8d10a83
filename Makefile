# Every target sets up .venv by itself and does nothing twice. `make PYTHON=python3.12 ...` names
# another Python for it.
PYTHON ?= python3
BIN := .venv/bin
PAGES := _build/html/index.html

# Notebooks run in chapters/: a relative folder would be looked for there.
ifneq ($(D2LMINI_DATA),)
export D2LMINI_DATA := $(abspath $(D2LMINI_DATA))
endif

# Reproducible: simulated GPUs, whose times and outputs are the same on every machine.
SIMULATED := D2LMINI_GPUS=sim OMP_NUM_THREADS=1

.PHONY: help setup book test test-gpu lint outputs lab bench bench-check clean

help:
	@echo "make book      build the book:            $(PAGES)"
	@echo "make test      lint, unit tests, doctests, every notebook, the book"
	@echo "make test-gpu  every notebook on this machine's real GPUs"
	@echo "make lab       JupyterLab on the chapters"
	@echo "make lint      ruff and the notebooks' format"
	@echo "make outputs   run the notebooks again and store their outputs"
	@echo "make bench     measure, against what a reader would use instead"
	@echo "make bench-check  compare with the last record of the same hardware"
	@echo "make clean     remove what was built; .venv stays"

setup:
	@$(PYTHON) tools/setup_env.py

book: setup
	@$(BIN)/python tools/build_book.py

test: lint
	@$(SIMULATED) $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder \
	    --nbval --nbval-sanitize-with tests/sanitise.cfg --nbval-cell-timeout 600 \
	    --doctest-modules chapters d2lmini tests
	@$(BIN)/python tools/build_book.py

test-gpu: setup
	@D2LMINI_GPUS=cuda $(BIN)/python -m pytest --nbval \
	    --nbval-sanitize-with tests/sanitise-gpu.cfg --nbval-cell-timeout 600 chapters

lint: setup
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/python tools/notebooks.py --check

outputs: setup
	@$(SIMULATED) $(BIN)/python tools/notebooks.py --run

lab: setup
	@$(BIN)/jupyter lab chapters

bench: setup
	@$(BIN)/python -m benchmarks $(ARGS)

bench-check: setup
	@$(BIN)/python -m benchmarks --check

clean:
	@rm -rf _build .pytest_cache .ruff_cache .hypothesis
