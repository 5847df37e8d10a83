# Every target sets up .venv by itself and does nothing twice. What they do is in tools/make.py.
# `make PYTHON=python3.12 ...` names another Python for .venv; ARGS=... is handed on.
PYTHON ?= python3

COMMANDS = setup book pdf screenshots test test-gpu test-double test-another-day torture lint outputs notebooks lab live edit student wheels bench bench-check clean
.PHONY: help $(COMMANDS)

help:
	@echo "make book      build the book:            _build/html/index.html"
	@echo "make pdf       the book as one file:      _build/pdf/book.pdf"
	@echo "make screenshots  pictures of every page: _build/screenshots"
	@echo "make test      lint, unit tests, doctests, every notebook, the book"
	@echo "make test-gpu  every notebook on this machine's real GPUs"
	@echo "make test-double  every notebook on 1 to 8 GPUs that are not there"
	@echo "make test-another-day  every notebook with other seeds and one thread more"
	@echo "make torture   random programs, operations and signals, for many minutes"
	@echo "make lab       JupyterLab on the notebooks for readers; what you change is kept"
	@echo "make live      the book with cells that run in the page"
	@echo "make notebooks  write these notebooks: _build/notebooks"
	@echo "make edit      JupyterLab on the sources of the chapters, for authors"
	@echo "make student   the readers' notebooks without solutions: _build/student"
	@echo "make wheels    fetch all packages for a machine without network: wheels"
	@echo "make lint      ruff and the notebooks' format"
	@echo "make outputs   run the notebooks again and store their outputs"
	@echo "make bench     measure, against what a reader would use instead"
	@echo "make bench-check  compare with the last record of the same hardware"
	@echo "make clean     remove what was built; .venv and your notebooks stay"

$(COMMANDS):
	@test "$$($(PYTHON) -c 'print(6 * 7)')" = 42 || { echo "PYTHON=$(PYTHON) is no Python; name one of 3.10 to 3.13" >&2; exit 1; }
	@$(PYTHON) -m tools.make $@ $(ARGS)
