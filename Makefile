# Two commands do everything on a machine with Python and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.ready-demo
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# One thread per test process: two processes share two cores.
TEST_ENV := OMP_NUM_THREADS=1

.PHONY: demo demo-picture readme docs test test-slow test-browser test-ray test-oldest coverage wheel screenshots \
	browser check format benchmark measure baselines fuzz clean

# make demo FILE=chair.obj adds a shape of your own.
demo: $(DEMO_READY)
	$(BIN)/python examples/demo $(if $(FILE),"$(FILE)")

# The picture in the README, and how many of its predictions are right.
demo-picture: demo
	cp build/demo/demo.png docs/images/demo.png
	cp build/demo/demo.csv results/demo.csv

# Update the figures in the README and in docs/ from results/.
readme: $(READY)
	$(BIN)/python docs/tables.py

# Build the documentation into site/; it loads nothing from other hosts.
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
	$(OLDEST)/bin/python -m pip install --quiet -c oldest.txt torch==$(OLDEST_TORCH) -e '.[modelnet,plot,search,viewer]' \
		hypothesis pypcd4 pytest pytest-xdist small_gicp trimesh
	$(TEST_ENV) $(OLDEST)/bin/pytest -n 2 --dist worksteal -m "not slow and not browser and not ray" \
		tests/algebra tests/geometry tests/formats tests/datasets tests/nn tests/models tests/training tests/test_answers.py

# The share of lines that the fast tests run.
coverage: $(READY)
	$(TEST_ENV) $(BIN)/pytest -n 2 --dist worksteal -m "not slow and not browser and not ray" --cov=qecnet --cov-report=term:skip-covered

# Build the wheel, install it into an empty environment and classify a shape with it.
wheel:
	rm -rf dist build/wheel
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet -c constraints.txt dist/qecnet-*.whl
	cd build/wheel && bin/python -c 'from qecnet.datasets import make_shape; from qecnet.formats import write; \
		write("chair.off", make_shape("chair", 3))' && bin/qec classify chair.off | tee answer.txt && grep -q chair answer.txt

# Test the page of `qec view` in Chromium; screenshots are kept in build/screenshots.
test-browser: browser
	$(TEST_ENV) $(BIN)/pytest tests/viewer -m browser

# Bulk runs on a Ray cluster of two nodes, both on this machine; one of them is killed.
test-ray: $(READY)
	$(INSTALL) -e '.[ray]'
	$(TEST_ENV) $(BIN)/pytest tests/bulk -m ray

# The screenshots in docs/view.md and the README.
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

# Read damaged files of every format, weights and indexes; findings are kept in build/fuzz and listed in results/fuzz.json.
COUNT ?= 100000
SEED ?= 0
fuzz: $(READY)
	$(TEST_ENV) $(BIN)/python -m benchmarks.fuzz --count $(COUNT) --seed $(SEED)

# About half an hour on an idle machine; each prints its table and writes it to results/. With a checkout of another version,
# also what users wait for against that version: make benchmark BEFORE=../before
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
	$(BIN)/python -m benchmarks.bench_cache --formats --shapes 300
	$(BIN)/python -m benchmarks.bench_workers
	$(BIN)/python -m benchmarks.bench_training
	$(BIN)/python -m benchmarks.bench_product
	$(BIN)/python -m benchmarks.bench_views
	$(BIN)/python -m benchmarks.bench_startup
	$(BIN)/python -m benchmarks.hundred_poses
	$(if $(BEFORE),$(BIN)/python -m benchmarks.bench_versions "$(BEFORE)")

# Calibrate and measure modelnet40 (and with it upright) and modelnet10 after new weights were put into results/, and write all
# results, figures and stored answers that depend on them. Takes more than an hour; the measurements of `qec evaluate`, except
# for calibration, continue where they were interrupted. FURNITURE is a folder with the *.sh3f files of Debian's package
# sweethome3d-furniture. Not written: the text on failures in docs/upright.md.
#   make measure MODELNET10=ModelNet10.zip MODELNET40=ModelNet40 SCANNED=scanned_objects FURNITURE=catalogues
EVALUATE := $(BIN)/qec evaluate
BENCHMARK := $(BIN)/python -m benchmarks
ROTATIONS ?= 1
RESAMPLINGS ?= 2
measure: browser
	@test -n "$(MODELNET10)" -a -n "$(MODELNET40)" -a -n "$(SCANNED)" -a -n "$(FURNITURE)" \
		|| { echo "give MODELNET10, MODELNET40, SCANNED and FURNITURE" >&2; exit 1; }
	$(INSTALL) -e '.[baselines]'
	$(EVALUATE) classification results/modelnet40 --data "$(MODELNET40)" --rotations $(ROTATIONS)
	$(EVALUATE) classification results/modelnet10 --data "$(MODELNET10)" --rotations $(ROTATIONS)
	$(EVALUATE) calibration results/modelnet40 --data "$(MODELNET40)" --unlabelled-data "$(SCANNED)" --rotations $(ROTATIONS)
	$(EVALUATE) calibration results/modelnet10 --data "$(MODELNET10)" --rotations $(ROTATIONS)
	for name in modelnet10 modelnet40; do \
		cp results/$$name/weights.safetensors src/qecnet/models/weights/$$name.safetensors; done
	$(EVALUATE) rotation results/modelnet10 --data "$(MODELNET10)" --protocol strict --rotations $(ROTATIONS) \
		--resamplings $(RESAMPLINGS)
	$(EVALUATE) equivariance results/modelnet10 --data "$(MODELNET10)" --rotations $(ROTATIONS)
	$(EVALUATE) robustness results/modelnet10 --data "$(MODELNET10)"
	$(EVALUATE) retrieval results/modelnet40 --data "$(MODELNET40)"
	$(EVALUATE) views results/modelnet10 --data "$(MODELNET10)"
	$(EVALUATE) views results/modelnet40 --data "$(MODELNET40)"
	$(EVALUATE) views results/modelnet40 --dataset scanned_objects --data "$(SCANNED)"
	$(BENCHMARK).upright upright modelnet40 --modelnet40 "$(MODELNET40)" --scanned-objects "$(SCANNED)"
	$(BENCHMARK).reader_weights modelnet40 --data "$(MODELNET40)" --scanned-objects "$(SCANNED)"
	$(BENCHMARK).upright_parts modelnet40 --modelnet40 "$(MODELNET40)"
	$(BENCHMARK).upright_failures --modelnet40 "$(MODELNET40)" --scanned-objects "$(SCANNED)" --shapes 600
	$(BENCHMARK).unknown "$(MODELNET40)"
	$(BENCHMARK).elsewhere "$(FURNITURE)"
	$(BENCHMARK).hundred_poses
	$(BENCHMARK).bench_candidates
	$(BENCHMARK).bench_views
	$(BENCHMARK).bench_product
	$(BENCHMARK).view_effects --data "$(MODELNET10)"
	$(BENCHMARK).pose_baselines.partial --data "$(MODELNET10)"
	$(BENCHMARK).align_scans --data "$(MODELNET10)"
	$(BIN)/python tests/test_answers.py
	for name in modelnet10 modelnet40; do $(BIN)/qec card results/$$name >/dev/null; done
	$(MAKE) demo-picture screenshots readme

# Train the methods of the paper's tables for the same number of processor minutes each, and measure them. An interrupted run
# continues where it stopped: make baselines MINUTES=30 MODELNET10=ModelNet10.zip MODELNET40=ModelNet40
MINUTES ?= 30
baselines: $(READY)
	$(BIN)/python -m benchmarks.baselines.budget --minutes $(MINUTES) \
		$(if $(MODELNET10),--modelnet10 "$(MODELNET10)") $(if $(MODELNET40),--modelnet40 "$(MODELNET40)")

# Set up again only when dependencies have changed; an interrupted set-up leaves no .ready.
$(READY): $(DEMO_READY)
	$(INSTALL) -e '.[dev]'
	@touch $@

$(DEMO_READY): pyproject.toml constraints.txt hatch_build.py $(wildcard src/qecnet/compiled/*.cpp src/qecnet/compiled/*.h)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "qecnet needs Python 3.10 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[plot]'
	@touch $@

clean:
	rm -rf $(VENV) $(OLDEST) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site
