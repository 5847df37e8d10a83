# Every target first sets up .venv, once (tools/setup_env.py).
# `make PYTHON=python3.12 ...` makes it with another Python; ARGS=... goes to the program started.
PYTHON ?= python3
RUN = .venv/bin/python

# `make book LANG=ko` makes the Korean book, LANG=all all of them. The variable of the shell that has
# the same name says something else.
ifeq ($(origin LANG),command line)
EDITION := $(filter-out en,$(LANG))
override LANG := C.UTF-8
endif
IN = $(if $(EDITION),-m tools.editions run $(EDITION))

ifneq ($(filter-out /%,$(firstword $(D2LMINI_DATA))),)  # notebooks would look in chapters/
override D2LMINI_DATA := $(CURDIR)/$(D2LMINI_DATA)
export D2LMINI_DATA
endif

.PHONY: help setup book pdf lab live notebooks student edit outputs screenshots lint check test \
  test-all test-frameworks test-gpu bench wheels clean

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-18s%s\n", $$1, $$2}' Makefile

setup:
	@$(PYTHON) tools/setup_env.py

# For readers

book: setup  ## build the book: _build/html/index.html (in Korean: make book LANG=ko; tr, zh, all)
	$(RUN) $(IN) tools/build_book.py

pdf: book  ## the book as one file: _build/pdf/book.pdf
	$(RUN) $(IN) -m tools.chromium.pdf $(ARGS)

# JupyterLab does not ask whether it may fetch news, and starts for root, as in containers: loopback and
# a token are what protects it.
lab edit: export JUPYTER_CONFIG_PATH := $(CURDIR)/tools/readers/lab$(if $(JUPYTER_CONFIG_PATH),:$(JUPYTER_CONFIG_PATH))

lab: setup  ## JupyterLab on the notebooks for readers; what you change is kept
	$(RUN) $(IN) -m tools.readers --trust
	$(RUN) $(IN) -m jupyterlab _build/notebooks/00-intro.ipynb $(ARGS)

live: setup  ## the book with cells that run in the page
	$(RUN) $(IN) -m tools.live $(ARGS)

notebooks: setup  ## write the notebooks for readers: _build/notebooks
	$(RUN) $(IN) -m tools.readers $(ARGS)

student: setup  ## the notebooks for readers without solutions: _build/student
	$(RUN) $(IN) -m tools.classroom student $(ARGS)

wheels: setup  ## fetch all packages for a machine without network: wheels
	$(RUN) -m pip download -q -r requirements.txt -d wheels $(ARGS)

# For authors

edit: setup  ## JupyterLab on the sources of the chapters
	$(RUN) -m jupyterlab chapters $(ARGS)

outputs: setup  ## run the notebooks again and store their outputs
	$(RUN) -m tools.notebooks --run $(ARGS)

screenshots: book  ## pictures of every page: _build/screenshots
	$(RUN) -m tools.chromium.screenshots $(ARGS)

lint: setup  ## ruff and the notebooks' format
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m tools.notebooks --check

bench: setup  ## measure, beside what a reader would use instead (ARGS="--json FILE" keeps it)
	$(RUN) -m benchmarks $(ARGS)

clean:  ## remove what was built; .venv and the notebooks that you changed stay
	@$(PYTHON) -m tools.clean

# Tests. The markers that make the tiers are told in pyproject.toml. On simulated GPUs times are the
# same on every machine, and so are outputs but for rounding (tests/sanitise.cfg).

check test test-all test-frameworks outputs: export D2LMINI_GPUS = sim
check test test-all test-frameworks outputs: export SIMGPU_FORCE = 1
check test test-all test-frameworks outputs: export OMP_NUM_THREADS = 1
# Hundreds of processes import the same modules: without their bytecode each compiles them anew.
check test test-all test-frameworks outputs: export PYTHONDONTWRITEBYTECODE =
test-gpu: export D2LMINI_GPUS = auto

PYTEST = $(RUN) -m pytest
NOTEBOOKS = --nbval --nbval-cell-timeout 300
TWO = -n 2 --dist loadfile --no-loadscope-reorder
SCRIPTS = --ignore-glob "*/check/reports/*.py" --ignore-glob "*_plain.py" --ignore-glob "*/scripts/ddp_*.py" \
  --ignore-glob "*/scripts/pipeline.py" --ignore-glob "*/scripts/tensor_parallel.py" \
  --ignore-glob "*/scripts/mesh.py" --ignore-glob "*/stand_ins/*"

check: lint  ## less than a minute, for every save: lint and unit tests
	$(PYTEST) $(TWO) -p no:nbval -m "not (process or slow or long or browser or exhaustive)" tests $(ARGS)

# Notebooks that passed, and whose outputs depend on nothing that has changed since, are skipped
# (tests/support/suite/proved.py); `make test FULL=1` runs them, too, and what is marked `long`.
SHORT = $(if $(FULL),,or long)
test: lint  ## for every commit: unit tests, jobs, doctests, notebooks that changed, the book
	$(PYTEST) $(TWO) -m "not (browser or exhaustive $(SHORT))" --doctest-modules $(SCRIPTS) \
	  $(NOTEBOOKS) --nbval-sanitize-with tests/sanitise.cfg $(if $(FULL),,--skip-proved) \
	  chapters d2lmini simgpu tests $(ARGS)

# `make test-all PARTS="tests/simgpu/races tests/book"` runs a part of it.
PARTS ?= tests

test-all: setup  ## hours: what `make test` leaves out, such as browsers and emulated CUDA devices
	$(PYTEST) $(TWO) -m "browser or exhaustive" $(PARTS) $(ARGS)

FRAMEWORKS = _build/frameworks

$(FRAMEWORKS)/installed-from: requirements-frameworks.txt
	$(PYTHON) -m venv --clear $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip install -q torch==2.13.0 setuptools wheel ninja packaging
	DS_BUILD_OPS=0 $(FRAMEWORKS)/bin/python -m pip install -q --no-build-isolation -r $<
	cp $< $@

test-frameworks: $(FRAMEWORKS)/installed-from  ## other people's trainers on simulated GPUs
	$(FRAMEWORKS)/bin/python -m pytest tests/frameworks $(ARGS)

test-gpu: setup  ## every notebook on this machine's real GPUs
	$(PYTEST) $(NOTEBOOKS) --timeout 400 --nbval-sanitize-with tests/sanitise-gpu.cfg chapters $(ARGS)
