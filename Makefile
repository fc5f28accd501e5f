# Every target builds the environment once (.venv) and reuses it until pyproject.toml or constraints.txt change.
VENV  ?= .venv
PYTHON ?= python3
BIN   := $(VENV)/bin
READY := $(VENV)/.ready
FAULTS_MINUTES ?= 60
MUTANTS ?= 300
ELSEWHERE ?= .venv-elsewhere
EXTRAS := dev,fast,triton,mesh,bench,data,dist,compat

.PHONY: help env test test-slow test-faults test-elsewhere mutants coverage lint format demo results bench docs house pictures release-check clean
help:            ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$(EXTRAS)]"
	@touch $@

env: $(READY)    ## build the environment and nothing else

lint: $(READY)   ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint       ## lint, then the test suite on two processes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow" --durations=15

coverage: $(READY)  ## the same tests, and which lines they leave out
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow" --cov --cov-report=term:skip-covered

test-slow: $(READY)  ## the checks that take minutes
	$(BIN)/python -m pytest -m slow

test-faults: $(READY)  ## kills, full disks, flipped bits, bad command lines: FAULTS_MINUTES of them (60), and the figures
	OMP_NUM_THREADS=1 FAULTS_MINUTES=$(FAULTS_MINUTES) $(BIN)/python -m pytest -m faults tests/faults -s -q

# torchvision may be of another build than torch (CUDA beside CPU): the tests import it nevertheless.
$(ELSEWHERE)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(ELSEWHERE)
	$(ELSEWHERE)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch torchvision
	$(ELSEWHERE)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,mesh,elsewhere]"
	@touch $@

test-elsewhere: $(ELSEWHERE)/.ready  ## the page of other libraries, in an environment of its own with all of them
	OMP_NUM_THREADS=1 $(ELSEWHERE)/bin/python -m pytest tests/docs/test_elsewhere.py

mutants: $(READY)  ## single-line changes to the source that the tests miss: MUTANTS of them (300); goes on where it was
	$(BIN)/python -m tests.mutants --count $(MUTANTS)

format: $(READY) ## rewrite the sources in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: $(READY)   ## the main job: train at 33², test up to 257², what each norm does; writes out/demo/report.html
	$(BIN)/quadnorm study run demo --preset desk --out out/demo
	$(BIN)/quadnorm report out/demo --out out/demo/report.html

results: $(READY) ## the pages of results, from the committed records: docs/results.md, README's table, out/report.html
	$(BIN)/quadnorm report $(sort $(wildcard results/*.tar.xz)) --out out/report.html --markdown docs/results.md --readme README.md

bench: $(READY)  ## every benchmark, each against named peers in the same run
	$(BIN)/quadnorm bench all

docs: $(READY)   ## the pages, the gallery and the reference as a site, in out/docs
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -b html -d out/docs/.doctrees docs out/docs
	@echo "out/docs/index.html"

house: $(READY)  ## the size of the package and the length of the common journeys, beside their bars
	$(BIN)/python -m tests.house.measure

pictures: $(READY)  ## the pictures of the front page, the README and CONTRIBUTING; from out/demo if make demo has run
	$(BIN)/python docs/pictures/draw.py $(wildcard out/demo)
	$(BIN)/python docs/pictures/rooms.py

release-check: $(READY)  ## build sdist and wheel, check them, install them with each extra and run its commands
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[release]"
	$(BIN)/python tests/release/check.py

clean:           ## forget the environment and all caches
	rm -rf $(VENV) $(ELSEWHERE) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage dist build
