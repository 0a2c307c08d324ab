# Every target makes its own virtual environment when it is missing; only python3 (3.11 or newer) and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One BLAS thread per process: agents and parallel trials are processes already, more threads only fight for cores.
export OPENBLAS_NUM_THREADS := 1
# Where nothing may keep bytecode, each of a thousand processes of the tests compiles all of agentd anew, and every worker
# rewrites the assertions of all tests: a good part of the processor time. What is kept lies in __pycache__, which git ignores.
unexport PYTHONDONTWRITEBYTECODE
# Many tests wait for processes, containers and timeouts, so there are more workers than cores.
WORKERS ?= $(shell echo $$((2 + $$(nproc))))
# What needs no process, no container and no socket.
PURE := $(addprefix tests/,core wire topology properties scenarios simulate experiment plot run test_architecture.py test_architecture_page.py test_settings.py) \
	$(addprefix tests/environment/test_,shared_bandit.py)

.PHONY: dashboard screenshots demo quick test test-long lint format bench clean help

help:  ## show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/ -/'

# Two stamps, so that a visitor who only wants the demo does not wait for the developers' tools.
$(VENV)/.ready-run: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "agentd needs Python 3.11 or newer; set PYTHON=..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing agentd into $(VENV) (once)"
	@! ls $(VENV)/lib/python*/site-packages/agentd-*.dist-info > /dev/null 2>&1 || \
		$(BIN)/python -m pip uninstall --quiet --yes agentd # what it was called before; both would own bin/agentd
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[ui,analysis]'
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready-run
	@echo "installing the developers' tools into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)/.ready-docs: $(VENV)/.ready-run
	@echo "installing what builds the documentation into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs,metrics]'
	@touch $@

demo: $(VENV)/.ready-run  ## run the main job once, on this machine, with no other service
	@$(BIN)/agentd demo

quick: lint  ## lint, types and the tests of the pure packages, in less than a minute; before every commit
	@$(BIN)/python -m pytest -q -n $(shell nproc) --dist worksteal -m 'not slow and not system and not long' --examples 25 $(PURE) $(ARGS)

test: $(VENV)/.ready-dev  ## run all tests but the long ones; the coverage floor of core/ and topology/ is part of it
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not long' --cov --cov-fail-under=98 --durations=15 $(ARGS)

test-long: $(VENV)/.ready-dev  ## run what takes longer than anybody waits: big statistics, every combination, the page in a browser
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m long --durations=15 $(ARGS)

lint: $(VENV)/.ready-dev  ## formatting, lint and types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(VENV)/.ready-dev  ## rewrite the sources as ruff wants them
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

dashboard: $(VENV)/.ready-run  ## a live page of 16 agents on this machine; Ctrl-C ends it
	@$(BIN)/agentd up --agents 16 --edge-probability 0.3 --rounds 20000 --dashboard --allow-chaos

screenshots: $(VENV)/.ready-dev  ## take the pictures in docs/screenshots anew; needs Chromium
	@$(BIN)/python tests/dashboard/take_screenshots.py

bench: $(VENV)/.ready-run  ## measure this machine
	@$(BIN)/agentd bench

.PHONY: docs
docs: $(VENV)/.ready-docs  ## build the documentation site into build/docs/html, and fail on any warning
	@PYTHONPATH=docs $(BIN)/python -m generate build/docs

clean:  ## remove what the targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .coverage build runs *.egg-info
