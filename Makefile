# The one task file: `.ci/run` runs its recipes and nothing else. `make` alone lists them.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo python wheel test bench lint golden fuzz chaos sanitize miri shuttle

CARGO ?= cargo
PYTHON ?= python3
STAY ?=
AREA ?= spine
PROFILE ?= dev
BUILT := $(or $(CARGO_TARGET_DIR),target)
TARGET ?= frame
SECONDS ?= 60
TRIPLE ?= $(shell $(CARGO) -vV | sed -n 's/^host: //p')
FUZZ ?= target/fuzz

# The examples' Python environment, with numpy and ONNX Runtime; examples/movielens/fetch.py makes it.
VENV := .demo/venv/bin/python
# The tests' Python environment, with what tests/interop takes from others and packages of models. The files name all that is needed.
TESTS_VENV := $(BUILT)/tests-venv
IN_TESTS_VENV := $(TESTS_VENV)/bin/python .ci/skips.py
SKIPS := $(PYTHON) .ci/skips.py
# What the tests' build has and the released one has not. `make test` builds everything by one command with these features: a
# command for one package takes that package's features alone, and compiles what both need a second time.
ENCRYPTED := --features millpond-cli/fpnn-encryption,millpond-fuzz/fpnn-encryption

# What cargo-fuzz passes without a sanitizer, on stable Rust: counters, a table of places, and the operands of comparisons.
FUZZ_FLAGS := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
	-Cllvm-args=-sanitizer-coverage-trace-compares

help: ## list the recipes
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: ## train, build the table, serve and rank real users (STAY=1 leaves the server up)
	@.ci/beat "building millpond" $(CARGO) build --locked -p millpond-cli
	@STAY=$(STAY) $(PYTHON) -u examples/movielens/demo.py --millpond $(BUILT)/debug/millpond

python: ## build the Python client into client/python (PROFILE=release for the fast one)
	$(CARGO) build --locked --profile $(PROFILE) -p millpond-client-python
	@install $(BUILT)/$(PROFILE:dev=debug)/libmillpond_native.so client/python/millpond/_native.abi3.so

wheel: ## build the release wheel of the Python package into target/wheels; pip fetches maturin
	$(PYTHON) -m pip --disable-pip-version-check wheel --no-deps --wheel-dir $(BUILT)/wheels --config-settings=build-args=--locked ./client/python

$(TESTS_VENV)/installed: tests/interop/requirements.txt tests/tables/requirements.txt backends/onnxruntime/tests/packages.txt
	$(PYTHON) -m venv --clear --without-pip $(TESTS_VENV)
	$(PYTHON) -m pip --python $(TESTS_VENV)/bin/python --disable-pip-version-check install --quiet --no-deps $(^:%=--requirement %)
	@touch $@

# What the tests' models run on, unless it is set: the ONNX Runtime of the demo's environment.
test: export ORT_DYLIB_PATH ?= $(abspath .demo/venv)
bench: export ORT_DYLIB_PATH ?= $(abspath .demo/venv)

# Most tests wait on processes, sockets or timers, so run two for each processor.
test: export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))

test: $(TESTS_VENV)/installed ## every test, Rust and Python; lists what was skipped, and fails for it where CI=true (.ci/skips.toml)
	$(PYTHON) examples/movielens/fetch.py --environment
	$(CARGO) build --workspace --locked $(ENCRYPTED) --lib --tests --bin millpond --bin millpond-chaos
	@install $(BUILT)/debug/libmillpond_native.so client/python/millpond/_native.abi3.so
	$(SKIPS) $(CARGO) test --workspace --locked $(ENCRYPTED)
	$(SKIPS) $(BUILT)/debug/millpond-chaos --millpond $(BUILT)/debug/millpond --keep $(BUILT)/chaos --seed 7052 --rounds 24 --generosity 5
	$(SKIPS) $(BUILT)/debug/millpond-chaos --millpond $(BUILT)/debug/millpond --keep $(BUILT)/chaos --seed 7052 --followers 3 --acknowledge --generosity 5
	$(IN_TESTS_VENV) unittest tests/interop
	$(SKIPS) unittest tests/browser
	$(SKIPS) unittest .ci
	$(VENV) .ci/skips.py unittest examples/movielens
	$(VENV) .ci/skips.py unittest examples/r1
	$(VENV) .ci/skips.py unittest examples/r4
	$(VENV) .ci/skips.py unittest examples/ocr
	$(IN_TESTS_VENV) unittest client/python/tests
	$(VENV) .ci/skips.py unittest client/python/tests/local
	$(SKIPS) unittest client/python/tests/packaging

bench: ## measure the bars (AREA=spine, press, rpc, features, ordered, "hardening --beside FILE", "structure --beside FILE" or "infer --beside FILE", which need valgrind), in the release build
	@.ci/beat "building millpond, release" $(CARGO) build --release --locked -p millpond-cli -p millpond-benches -p millpond-client-python
	@$(BUILT)/release/millpond-benches $(AREA)

fuzz: ## fuzz TARGET=frame for SECONDS=60 (fuzz/corpus lists the targets); needs a C++ compiler
	@RUSTFLAGS='$(FUZZ_FLAGS)' .ci/beat "building the fuzzer of $(TARGET)" $(CARGO) build --locked --profile fuzz -p millpond-fuzz \
		--features libfuzzer,fpnn-encryption --bin fuzz-$(TARGET) --target $(TRIPLE) --target-dir $(FUZZ)
	@mkdir -p $(FUZZ)/work/$(TARGET) $(FUZZ)/tmp
	TMPDIR=$(FUZZ)/tmp $(FUZZ)/$(TRIPLE)/fuzz/fuzz-$(TARGET) -timeout=60 -rss_limit_mb=2048 -max_total_time=$(SECONDS) \
		-dict=fuzz/words.dict -artifact_prefix=$(FUZZ)/work/$(TARGET)- -print_final_stats=1 \
		$(FUZZ)/work/$(TARGET) fuzz/corpus/$(TARGET)

chaos: ## hurt a real server for SECONDS=60 or KILLS=1000 kills, or two that keep the same stores for FOLLOWERS=100 promotions (ACKNOWLEDGE=1: writes wait for a follower), planned from SEED; prints what broke
	@.ci/beat "building millpond and the campaign" $(CARGO) build --locked --profile $(PROFILE) -p millpond-cli -p millpond-tests-chaos
	@$(BUILT)/$(PROFILE:dev=debug)/millpond-chaos --millpond $(BUILT)/$(PROFILE:dev=debug)/millpond --keep $(BUILT)/chaos \
		$(if $(FOLLOWERS),--followers $(FOLLOWERS),$(if $(KILLS),--kills $(KILLS),--seconds $(SECONDS))) \
		$(if $(ACKNOWLEDGE),--acknowledge) $(if $(SEED),--seed $(SEED))

lint: ## format, clippy, allowed edges, tidy, licences
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) run --quiet --locked -p millpond-xtask -- edges tidy licences

golden: ## make the stored references of model outputs again, in the demo's environment; read the diff
	@test -x $(VENV) || { echo "make golden: run make demo first, it makes the environment"; exit 1; }
	$(VENV) backends/onnxruntime/tests/data/make_references.py
	git --no-pager diff --stat -- backends/onnxruntime/tests/data

sanitize: ## the tests of the ordered store under AddressSanitizer; needs rustup's nightly toolchain
	@RUSTFLAGS=-Zsanitizer=address .ci/beat "building the tests" $(CARGO) +nightly test --no-run --locked --target $(TRIPLE) \
		--target-dir $(BUILT)/sanitize -p millpond-engines-ordered
	RUSTFLAGS=-Zsanitizer=address $(CARGO) +nightly test --locked --target $(TRIPLE) --target-dir $(BUILT)/sanitize -p millpond-engines-ordered

miri: ## the memory of the ordered tree, and a small tree with two threads, under Miri; needs rustup's nightly toolchain with miri and rust-src
	MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +nightly miri test --locked --target-dir $(BUILT)/miri -p millpond-engines-ordered --lib -- tree::tests::bytes
	@# Without the borrow checks, which look at each word of a page whenever it is referred to: races and memory that is not there are still seen.
	MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-disable-stacked-borrows" $(CARGO) +nightly miri test --locked --target-dir $(BUILT)/miri \
		-p millpond-engines-ordered --lib -- tree::tests::a_few_keys

shuttle: ## run the ordered tree's tests under shuttle's random schedules
	RUSTFLAGS='--cfg shuttle' $(CARGO) test --locked --profile fuzz --target-dir $(BUILT)/shuttle -p millpond-engines-ordered --lib schedules
