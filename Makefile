# The one way in, for people and for CI. Needs Rust, Python 3.11+, a C++ compiler; the tests also Go (for one of their stores).
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

# s3s states rustc 1.96 and builds on 1.95; the flag goes nowhere else.
RUSTC_IS_OLD := $(shell rustc --version | awk '{ split($$2, v, "."); print (v[1] == 1 && v[2] < 96) ? "yes" : "no" }')
CARGO_FLAGS := --release --locked $(if $(filter yes,$(RUSTC_IS_OLD)),--ignore-rust-version)
export CARGO_FLAGS

VENV := .cache/venv/bin

.PHONY: help run test test-rust test-e2e test-engines bench lint setup setup-lint build build-all

help:
	@echo 'make run           build and start a gateway on 127.0.0.1:9800, blocks in ./blockgate-data'
	@echo 'make test          everything: unit, conformance and end-to-end tests, on fs, radosgw and SeaweedFS'
	@echo 'make test-engines  LMCache, NIXL and vLLM's hashing against ours (installs torch)'
	@echo 'make bench         the benchmarks of BENCHMARKS.md'
	@echo 'make lint          formatting, clippy, dependency licences, ruff, mypy'

build:
	cargo build $(CARGO_FLAGS) --package blockgate

# With everything that the tests need, so that nothing compiles twice.
build-all:
	cargo build $(CARGO_FLAGS) --workspace --all-targets

run: build
	target/release/blockgate serve

test: setup build-all
	tests/run all

# The halves of `make test`, and a way to choose: make test-e2e PYTEST_ARGS="s3 -k multipart"
test-rust: setup build-all
	tests/run rust

test-e2e: setup build-all
	tests/run e2e $(PYTEST_ARGS)

test-engines: setup build-all
	tests/engines/run

bench: build-all
	target/release/loadtest bench $(BENCH_ARGS)

lint: setup-lint
	cargo fmt --all --check
	cargo clippy $(CARGO_FLAGS) --workspace --all-targets -- -D warnings
	$(VENV)/python tests/lib/dependencies.py
	$(VENV)/ruff check --config tests/pyproject.toml tests
	$(VENV)/ruff format --config tests/pyproject.toml --check tests
	cd tests && ../$(VENV)/mypy .

setup:
	tests/setup python tools upstreams

setup-lint:
	tests/setup python rust
