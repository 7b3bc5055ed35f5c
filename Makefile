# The verbs of the project. Each starts from a bare machine: what is missing is installed first.
# CMake (presets in CMakePresets.json) does the building; this file only strings commands together.

JOBS ?= $(shell nproc)
PYTHON ?= python3.11
VENV := .venv
VENV_TF := .venv-tf
PY := $(VENV)/bin/python
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: help build demo test matrix tensorflow check bench fuzz format wheel packages clean
help:
	@echo 'make build   install what is missing, build, leave the command at .venv/bin/paramedic'
	@echo 'make demo    train three small models under paramedic and show the three reports'
	@echo 'make test    all tests; ends with "N passed, N failed"'
	@echo 'make matrix  every job of tests/cluster/matrix: faults between ranks, and healthy jobs'
	@echo 'make tensorflow  installs what the jobs of tests/tensorflow run in'
	@echo 'make check   format, lint, types, layers'
	@echo 'make bench   the figures of docs/benchmarks.md, as ratios measured in one run'
	@echo 'make fuzz    every fuzzer for FUZZ_SECONDS (60)'
	@echo 'make format  rewrite the sources as the formatters want them'
	@echo 'make wheel   build/dist/paramedic-*.whl, which needs nothing but glibc 2.35'

# Debian packages: only asked for when one is missing, so that a warm run needs no network.
packages:
	@missing=$$(for p in $$(cat packages.txt); do \
	  dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	if [ -n "$$missing" ]; then \
	  echo "installing Debian packages:" $$missing; \
	  $(SUDO) apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends $$missing \
	    > /dev/null; \
	fi

$(VENV)/.installed: requirements.txt | packages
	@echo "installing Python packages into $(VENV) (PyTorch is most of it, a few minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install -q --disable-pip-version-check -r requirements.txt
	@touch $@

# TensorFlow pins packages of its own, so that it has an environment of its own: only the jobs of
# tests/tensorflow run in it. tf-keras would pull the full TensorFlow in the place of this one.
$(VENV_TF)/.installed: requirements-tensorflow.txt | packages
	@echo "installing TensorFlow into $(VENV_TF) (a minute)"
	@$(PYTHON) -m venv $(VENV_TF)
	@$(VENV_TF)/bin/python -m pip install -q --disable-pip-version-check -r requirements-tensorflow.txt
	@$(VENV_TF)/bin/python -m pip install -q --disable-pip-version-check --no-deps tf-keras==2.21.0
	@touch $@

tensorflow: $(VENV_TF)/.installed

build: packages $(VENV)/.installed
	@cmake --preset release -DPARAMEDIC_PYTHON=$(CURDIR)/$(PY) > build-release.log 2>&1 \
	  || { cat build-release.log; exit 1; }
	@rm -f build-release.log
	cmake --build --preset release -j$(JOBS)
	@ln -sf ../../build/release/bin/paramedic $(VENV)/bin/paramedic

demo: build
	@$(PY) examples/demo/demo.py

test: build tensorflow
	cmake --preset dev > /dev/null
	cmake --build --preset dev -j$(JOBS)
	$(PY) tools/run_tests.py

matrix: build
	$(PY) tests/cluster/matrix/matrix.py

check: build
	$(PY) tools/check.py

format: $(VENV)/.installed
	$(PY) tools/check.py --fix

bench: build
	$(PY) bench/run.py

wheel: build
	$(PY) tools/wheel.py

FUZZ_SECONDS ?= 60
fuzz: packages $(VENV)/.installed
	cmake --preset fuzz > /dev/null
	cmake --build --preset fuzz -j$(JOBS) --target fuzzers
	$(PY) tools/run_fuzzers.py --seconds $(FUZZ_SECONDS)

clean:
	rm -rf build
