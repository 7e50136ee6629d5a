# Two commands do everything on a machine with Python and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.ready-demo
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# One thread a test process: two processes on two cores, and no fighting over them.
TEST_ENV := OMP_NUM_THREADS=1

.PHONY: demo demo-picture readme docs test test-slow test-browser screenshots browser check format benchmark clean

# make demo FILE=chair.obj takes a shape of yours, too.
demo: $(DEMO_READY)
	$(BIN)/python examples/demo $(if $(FILE),"$(FILE)")

# The README's.
demo-picture: demo
	cp build/demo/demo.png docs/images/demo.png

# The figures of the README and of the pages, from results/.
readme: $(READY)
	$(BIN)/python docs/tables.py

# The pages, into site/; nothing in them comes from another host.
docs: $(READY)
	$(BIN)/mkdocs build --strict

test: $(READY) check
	$(TEST_ENV) $(BIN)/pytest -n 2 --dist worksteal -m "not slow and not browser"

test-slow: $(READY)
	$(TEST_ENV) $(BIN)/pytest -n 2 -m slow

# The page of `qec view` in a real Chromium; what it looked like is kept in build/screenshots.
test-browser: browser
	$(TEST_ENV) $(BIN)/pytest tests/viewer -m browser

# Those of docs/view.md and the README.
screenshots: browser
	$(BIN)/python -m tests.viewer.screenshots docs/images

browser: $(READY)
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null \
		|| { apt-get update -q && apt-get install -y -q chromium chromium-driver; }
	$(INSTALL) -e '.[browser]'

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Half an hour or so on an idle machine; each prints its table and writes it to results/.
benchmark: $(READY)
	$(BIN)/python benchmarks/bench_algebra.py
	$(BIN)/python benchmarks/bench_read.py
	$(BIN)/python benchmarks/bench_frames.py
	$(BIN)/python benchmarks/bench_candidates.py
	$(BIN)/python benchmarks/bench_network.py --compiled
	$(BIN)/python benchmarks/bench_network.py --sweep
	$(BIN)/python benchmarks/bench_features.py
	$(BIN)/python benchmarks/bench_cache.py
	$(BIN)/python benchmarks/bench_training.py
	$(BIN)/python benchmarks/bench_product.py
	$(BIN)/python benchmarks/hundred_poses.py

# Made anew only when what is installed has changed; a set-up that was cut short leaves no .ready behind.
$(READY): $(DEMO_READY)
	$(INSTALL) -e '.[dev]'
	@touch $@

$(DEMO_READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "qecnet needs Python 3.10 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[plot]'
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site
