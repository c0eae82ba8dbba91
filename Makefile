# Every target makes its own environment in .venv when it is missing or out of date.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
FRAMEWORKS := .venv-frameworks
JOBS   ?= 2
# Seconds after which a test or a cell is taken to hang and fails: a slow machine with
# other work takes 25 for the longest cell.
LIMIT      ?= 600
CELL_LIMIT ?= 120
TESTS      ?= tests softtopk book

# How the tests run.  Each suite leaves the seconds of its tests for `make times`.
PYTEST = -m pytest --timeout=$(LIMIT) -n $(JOBS) --junitxml=_build/times/$(1).xml
NBVAL  = --nbval --nbval-kernel-name=warm --nbval-cell-timeout=$(CELL_LIMIT)

# The frameworks and the packages that they are measured against have environments of
# their own.  Where the index's torch brings CUDA, set TORCH_INDEX to the option of pip
# that PyTorch's page on installing gives for the CPU.  DATA is installed without what
# it depends on: only the tables that it holds are read.  COMPILED is built against the
# torch that is there, for the CPU alone (its build stops at an nvcc without a GPU), and
# left out where that fails.
PEERS       := .venv-peers
DIST        := .venv-dist
LAB         := .venv-lab
PEERS_PYTHON ?= $(or $(shell PYENV_VERSION=3.12 python3.12 -c 'import sys; print(sys.executable)' \
  2>/dev/null),$(PYTHON))
TORCH_INDEX ?=
EXTRAS      ?= symbolic figures torch jax dask
DATA        := islp==0.6.0
COMPILED    := torchsort==0.1.10

# The tests compile hundreds of programs and run each a few times: what XLA takes to make
# them quick is most of their time.  The weekly workflow leaves all of it in (XLA=).
XLA := --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true \
  --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1

# Programs that were compiled before are found again, as long as the code, the release
# and the flags that they come from are the same.
PROGRAMS := $(CURDIR)/$(FRAMEWORKS)/programs
export JAX_COMPILATION_CACHE_DIR := $(PROGRAMS)/jax
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS := 0
export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES := -1
export TORCHINDUCTOR_CACHE_DIR := $(PROGRAMS)/torch

# Python keeps the modules that it has compiled, even where the machine's own settings
# forbid it: every notebook's kernel would compile SymPy again, which takes four seconds.
export PYTHONDONTWRITEBYTECODE :=

# One BLAS thread: the book's notebooks and the benchmark both count on it.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export PYDEVD_DISABLE_FILE_VALIDATION := 1

.DEFAULT_GOAL := help
.PHONY: help env environments newest book live pdf site test quick times frameworks
.PHONY: proofs lint browser bench lab autoencoder
.PHONY: bench-frameworks accelerator bench-scale language peers refresh dist serve clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

env: $(STAMP) ## make the environment in .venv

environments: $(STAMP) $(FRAMEWORKS)/.installed ## that of the frameworks, too

# --no-compile: Python compiles a module when it first imports it, and most it never does.
$(STAMP): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "softtopk's book needs Python 3.11 or newer; set PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
	  -r requirements.txt
	@touch $@

newest: ## instead of env: the newest releases that pyproject.toml allows, for once
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[book,test]'
	$(BIN)/python -m pip freeze --exclude-editable > $(VENV)/newest.txt
	@touch $(STAMP)

book: $(STAMP) ## build the book into _build/html (a warning is an error)
	$(BIN)/python tools/draw.py
	$(BIN)/jupyter-book build . -W --keep-going -n
	@echo "The book: _build/html/index.html"

live: $(STAMP) ## prepare what runs cells in the pages: `make book` then takes it along
	$(BIN)/python tools/live.py

pdf: $(STAMP) ## print the book into _build/latex/softtopk.pdf (needs XeLaTeX)
	tools/pdf.sh

site: pdf ## the book as it is published: with the PDF beside the pages
	PUBLISH_PDF=_build/latex/softtopk.pdf $(MAKE) book

test: $(STAMP) lint ## everything that needs no browser: unit, property, oracle, doctests, notebooks, guards
	$(BIN)/python $(call PYTEST,test) --dist loadfile --no-loadscope-reorder $(NBVAL) \
	  --ignore=book/training --ignore=book/recipes $(TESTS)

quick: $(STAMP) ## style, types and the tests of what you changed, in a minute
	XLA_FLAGS="$(XLA)" PYTHONPATH=$(CURDIR) $(BIN)/python tools/quick.py

times: $(STAMP) ## where the time of the last checks went: steps, and the slowest tests
	$(BIN)/python tools/times.py

lint: $(STAMP) ## ruff (code and notebooks) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

browser: live book ## the built pages in a headless Chromium and Firefox, offline
	$(BIN)/python $(call PYTEST,browser) -q tests/browser

$(FRAMEWORKS)/.installed: requirements-frameworks.txt
	@test -x $(FRAMEWORKS)/bin/python || $(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --no-compile $(TORCH_INDEX) -r requirements-frameworks.txt
	$(FRAMEWORKS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps $(DATA)
	@touch $@

frameworks: $(FRAMEWORKS)/.installed ## the operators on PyTorch, JAX and Dask, and the Parts that train
	XLA_FLAGS="$(XLA)" PYTHONPATH=$(CURDIR) $(FRAMEWORKS)/bin/python \
	  $(call PYTEST,frameworks) -q --dist worksteal tests/frameworks \
	  tests/book/test_pages_code.py softtopk/torch.py softtopk/jax.py softtopk/dask.py \
	  softtopk/_torch_modules.py
	TRITON_INTERPRET=1 PYTHONPATH=$(CURDIR) $(FRAMEWORKS)/bin/python \
	  $(call PYTEST,kernels) -q --dist worksteal tests/frameworks/test_kernels.py
	PYTHONPATH=$(CURDIR) $(FRAMEWORKS)/bin/python \
	  $(call PYTEST,training) -q --dist loadfile --no-loadscope-reorder $(NBVAL) book/training book/recipes

proofs: $(STAMP) ## the theorems that Rocq checks, their axioms and their names (needs Rocq, says what is missing)
	$(BIN)/python tools/proofs.py

$(PEERS)/.installed: requirements-frameworks.txt benchmarks/requirements-peers.txt
	@test -x $(PEERS)/bin/python || $(PEERS_PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  $(TORCH_INDEX) -r requirements-frameworks.txt -r benchmarks/requirements-peers.txt
	-PATH=/usr/bin:/bin $(CURDIR)/$(PEERS)/bin/python -m pip install --quiet \
	  --disable-pip-version-check --no-build-isolation $(COMPILED)
	@touch $@

peers: $(PEERS)/.installed ## every operator that does the same job on one grid, into benchmarks/peers.json
	PYTHONPATH=$(CURDIR) $(PEERS)/bin/python benchmarks/peers.py

bench-frameworks: $(PEERS)/.installed ## the same on PyTorch and JAX, beside the peers, into benchmarks/frameworks.md
	PYTHONPATH=$(CURDIR) $(PEERS)/bin/python benchmarks/bench_frameworks.py \
	  --markdown benchmarks/frameworks.md

# With DRY=1 it is tried on the CPU, by the environment of the frameworks; otherwise by the
# python whose torch drives the accelerator.  STAGES leaves out all others.
accelerator: $(if $(DRY),$(FRAMEWORKS)/.installed) ## correctness and times on the accelerator of this machine, into benchmarks/accelerator.json
	DRY=$(DRY) $(if $(DRY),$(FRAMEWORKS)/bin/python,$(PYTHON)) tools/accelerator $(STAGES)

bench-scale: $(FRAMEWORKS)/.installed ## workers and files of up to a thousand million scores, into benchmarks/scale.json
	PYTHONPATH=$(CURDIR) $(FRAMEWORKS)/bin/python benchmarks/bench_scale.py

language: $(FRAMEWORKS)/.installed ## the runs of the language models that are still missing, into benchmarks/language.json
	PYTHONPATH=$(CURDIR) $(FRAMEWORKS)/bin/python benchmarks/language.py

autoencoder: $(FRAMEWORKS)/.installed ## the sparse autoencoders of a language model that are still missing, into benchmarks/autoencoder.json
	PYTHONPATH=$(CURDIR) $(FRAMEWORKS)/bin/python benchmarks/autoencoder.py

bench: $(STAMP) ## ratios to NumPy's sort and a plain softmax
	$(BIN)/python benchmarks/bench.py

refresh: $(STAMP) $(FRAMEWORKS)/.installed ## run every notebook again and store its outputs (a fixed point)
	$(BIN)/python tools/picture.py
	$(BIN)/python tools/refresh.py
	$(BIN)/python tools/draw.py --training

$(LAB)/.installed: .binder/requirements.txt pyproject.toml
	@test -x $(LAB)/bin/python || $(PYTHON) -m venv $(LAB)
	$(LAB)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

lab: $(LAB)/.installed ## open the chapters in JupyterLab, where their text is set as on the pages
	$(LAB)/bin/jupyter lab --ServerApp.root_dir=. \
	  --LabApp.default_url=/lab/tree/book/selection/problem.ipynb

$(DIST)/.installed: requirements-dist.txt
	@test -x $(DIST)/bin/python || $(PYTHON) -m venv $(DIST)
	$(DIST)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# The wheel and the sdist each get a new environment with every extra of the package.
# The sdist's wheel is the wheel, to the byte: the tests run against one of them.
dist: $(DIST)/.installed ## build the sdist and the wheel into dist/, install and try each
	$(DIST)/bin/python tools/dist.py build dist
	TORCH_INDEX="$(TORCH_INDEX)" $(DIST)/bin/python tools/dist.py try dist/*.tar.gz $(EXTRAS)
	TORCH_INDEX="$(TORCH_INDEX)" JOBS=$(JOBS) $(DIST)/bin/python tools/dist.py try --tests \
	  dist/*.whl $(EXTRAS)

serve: book ## read the book at http://localhost:8000
	$(BIN)/python -m http.server --directory _build/html 8000

clean: ## remove what was built (the environment stays)
	rm -rf _build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis softtopk.egg-info
