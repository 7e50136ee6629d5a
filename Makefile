# Two commands do everything on a machine with Python and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.ready-demo
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# One thread a test process: two processes on two cores, and no fighting over them.
TEST_ENV := OMP_NUM_THREADS=1

.PHONY: demo demo-picture readme docs test test-slow test-browser test-ray test-oldest coverage wheel screenshots \
	browser check format benchmark baselines fuzz clean

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
	$(TEST_ENV) $(BIN)/pytest -n 2 --dist worksteal -m "not slow and not browser and not ray"

test-slow: $(READY)
	$(TEST_ENV) $(BIN)/pytest -n 2 -m slow

# The fast tests with the oldest versions that pyproject.toml allows (oldest.txt), in an environment of their own.
# Where there is no wheel of the oldest torch, name another one: make test-oldest OLDEST_TORCH=2.13.0.
OLDEST_TORCH ?= 2.4.0
OLDEST := .venv-oldest
test-oldest:
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet -c oldest.txt torch==$(OLDEST_TORCH) -e '.[modelnet,plot,viewer]' \
		hypothesis pypcd4 pytest pytest-xdist small_gicp trimesh
	$(TEST_ENV) $(OLDEST)/bin/pytest -n 2 --dist worksteal -m "not slow and not browser and not ray" \
		tests/algebra tests/geometry tests/formats tests/datasets tests/nn tests/models tests/training tests/test_answers.py

# How much of the package the fast tests run, in lines.
coverage: $(READY)
	$(TEST_ENV) $(BIN)/pytest -n 2 --dist worksteal -m "not slow and not browser and not ray" --cov=qecnet --cov-report=term:skip-covered

# Builds the wheel, installs it into an empty environment and asks it for an answer.
wheel:
	rm -rf dist build/wheel
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet -c constraints.txt dist/qecnet-*.whl
	cd build/wheel && bin/python -c 'from qecnet.datasets import make_shape; from qecnet.formats import write; \
		write("chair.off", make_shape("chair", 3))' && bin/qec classify chair.off | tee answer.txt && grep -q chair answer.txt

# The page of `qec view` in a real Chromium; what it looked like is kept in build/screenshots.
test-browser: browser
	$(TEST_ENV) $(BIN)/pytest tests/viewer -m browser

# Bulk runs on a Ray cluster of two nodes, both on this machine; one of them is killed.
test-ray: $(READY)
	$(INSTALL) -e '.[ray]'
	$(TEST_ENV) $(BIN)/pytest tests/bulk -m ray

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

# Damaged files of every format, weights and indexes: what is found is kept in build/fuzz and listed in results/fuzz.json.
COUNT ?= 100000
SEED ?= 0
fuzz: $(READY)
	$(TEST_ENV) $(BIN)/python -m benchmarks.fuzz --count $(COUNT) --seed $(SEED)

# Half an hour or so on an idle machine; each prints its table and writes it to results/.
benchmark: $(READY)
	$(BIN)/python -m benchmarks.bench_algebra
	$(BIN)/python -m benchmarks.bench_read
	$(BIN)/python -m benchmarks.bench_frames
	$(BIN)/python -m benchmarks.bench_candidates
	$(BIN)/python -m benchmarks.bench_network
	$(BIN)/python -m benchmarks.bench_network --parts
	$(BIN)/python -m benchmarks.bench_network --sweep
	$(BIN)/python -m benchmarks.bench_features
	$(BIN)/python -m benchmarks.bench_cache
	$(BIN)/python -m benchmarks.bench_training
	$(BIN)/python -m benchmarks.bench_product
	$(BIN)/python -m benchmarks.bench_startup
	$(BIN)/python -m benchmarks.hundred_poses

# The methods of the paper's tables, each trained for as many processor minutes and measured, one after the other; stopped, it
# goes on where it was: make baselines MINUTES=30 MODELNET10=ModelNet10.zip MODELNET40=ModelNet40
MINUTES ?= 30
baselines: $(READY)
	$(BIN)/python -m benchmarks.baselines.budget --minutes $(MINUTES) \
		$(if $(MODELNET10),--modelnet10 "$(MODELNET10)") $(if $(MODELNET40),--modelnet40 "$(MODELNET40)")

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
	rm -rf $(VENV) $(OLDEST) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site
