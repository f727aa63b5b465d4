# Every target sets itself up: a machine with Python 3.11 (or later) and make needs nothing else.
#
#   make demo                         a working English-German translator in minutes
#   make test                         all tests
#   make demo PYTHON=python3.12       with another Python
#   make test PYTHON=python3.13 VENV=.venv-3.13      in an environment of its own; TORCH= leaves PyTorch out
#   make demo PIP_OPTIONS="--extra-index-url https://download.pytorch.org/whl/cpu"     PyTorch without CUDA: a smaller download

PYTHON ?= $(shell command -v python3.11 >/dev/null 2>&1 && echo python3.11 || echo python3)
PIP_OPTIONS ?=
export PIP_OPTIONS
# Tests start Python hundreds of times. What it compiles is kept, also where the environment forbids it.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.transduce-ready
REPORT := build/tests.xml
DOCS_READY := $(VENV)/.docs-ready
# Python compiles a module where it is first imported: most of 14,000 never are, and pip would do them one by one.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile $(PIP_OPTIONS)
TORCH := $(shell grep '^torch==' constraints.txt)
comma := ,
EXTRAS := $(if $(TORCH),train$(comma))demo,figures,hub,huggingface,onnx,serve,postgres,dev

.DEFAULT_GOAL := help
.PHONY: help setup demo serve test skipped test-quick test-isa test-bugs check docs reference format bench gpu gpu-pack clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

setup: $(READY) ## make .venv with everything in it; the other targets do it by themselves

# torch goes first, alone and pinned: nothing that comes later can then resolve to another build of it.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is older than Python 3.11: make PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || { echo "set-up 1/3: making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "set-up 2/3: installing PyTorch ($(or $(TORCH),left out)); minutes, the first time"
	@$(if $(TORCH),$(PIP) '$(TORCH)')
	@echo "set-up 3/3: installing the rest"
	@$(PIP) -c constraints.txt -e '.[$(EXTRAS)]' $(if $(TORCH),,pyarrow tensorboard)
	@touch $@

demo: $(READY) ## train a small English-German translator on the spot, and try it
	@$(BIN)/transduce demo --overwrite

serve: $(READY) ## serve the demo's model at http://127.0.0.1:5000; the first time, it is trained before
	@test -e runs/demo/model/config.json || $(BIN)/transduce demo --overwrite
	@exec $(BIN)/transduce serve runs/demo/model

test: $(READY) ## run all tests, on all cores
	@$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder --junitxml $(REPORT)

skipped: $(READY) ## list what the last `make test` skipped, and what each test needs
	@$(BIN)/python tests/skipped.py $(REPORT)

test-quick: $(READY) ## run the unit tests, on all cores: minutes
	@$(BIN)/python -m pytest tests/unit --numprocesses auto --dist loadfile

test-isa: $(READY) ## run what computes as six other processors would; ISA=2,5 runs some of them
	@$(BIN)/python tests/isa.py $(if $(ISA),--only $(ISA))

test-bugs: $(READY) ## plant the bugs of tests/planted_bugs.toml, one at a time: the tests must catch nine in ten
	@$(BIN)/python tests/plant_bugs.py --jobs 2

check: $(READY) ## formatting, lint, types, and who may import whom
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tests/house.py

# What builds the site is installed by this target only: the others do without it.
$(DOCS_READY): $(READY)
	@echo "set-up: installing what builds the site"
	@$(PIP) -c constraints.txt -e '.[$(EXTRAS),docs]'
	@touch $@

docs: $(DOCS_READY) ## build the site into build/site; a broken link, reference or notebook cell is an error
	@rm -rf build/site
	@$(BIN)/python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going --conf-dir docs --doctree-dir build/site-cache . build/site
	@echo "open build/site/index.html"

reference: $(READY) ## write docs/reference and the tables of docs/guides/configuration.md from the code
	@$(BIN)/python docs/_ext/references.py

format: $(READY) ## put the source into the project's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY) ## quick benchmarks of this machine; each script has more to offer, see --help
	@echo "decoding (benchmarks/decode.py), JSON lines; cases are beam size x batch size:"
	@$(BIN)/python benchmarks/decode.py --cases 1x1,4x1 --repeats 1
	@echo "training (benchmarks/train.py), one JSON line a system:"
	@$(BIN)/python benchmarks/train.py --system ours --config tiny --passes 1 --fused --keep-memory
	@$(BIN)/python benchmarks/train.py --system torch --config tiny --passes 1
	@echo "preparing a corpus (benchmarks/prepare_corpus.py), the demo's, 20 000 pairs:"
	@$(BIN)/python -c 'from pathlib import Path; from transduce.data.demo_corpus import make_demo_corpus; \
	  make_demo_corpus(Path("build/bench"), num_train=20_000)'
	@$(BIN)/python benchmarks/prepare_corpus.py --corpus demo --vocab-size 2000 --budget 4096 \
	  --train build/bench/train.en build/bench/train.de --validation build/bench/validation.en build/bench/validation.de

# No set-up here: the machine with the GPU may have no network. See docs/guides/gpu.md.
GPU_PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,python3)
GPU_OUT ?= build/gpu
GPU_PACK ?= build/gpu-pack
PIECE ?=
GPU_OPTIONS ?=

gpu: ## measure on a GPU, nine minutes at a time: docs/guides/gpu.md
	@PYTHONPATH=src $(GPU_PYTHON) benchmarks/gpu/kit.py --out $(GPU_OUT) --pack $(GPU_PACK) $(addprefix --piece ,$(PIECE)) $(GPU_OPTIONS)

DATA ?= data

gpu-pack: $(READY) ## prepare and pack the corpus that `make gpu` trains on, on a CPU
	@$(BIN)/transduce prepare benchmarks/gpu/europarl-en-fr.toml --set data.folder=$(DATA) --output build/gpu-prepared
	@$(BIN)/python benchmarks/gpu/pack.py make build/gpu-prepared $(GPU_PACK) \
	  --test $(DATA)/wmt-news/en-fr/newstest2014.en $(DATA)/wmt-news/en-fr/newstest2014.fr

clean: ## remove .venv and what tools left behind; runs and models stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist src/*.egg-info
