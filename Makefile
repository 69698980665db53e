# What can be done here; the work is in `scripts/`. Settings, with what `make test` takes:
#   FUZZ_SECONDS=30   seconds per fuzz target
#   ROUNDS=20         rounds of kill -9 in the client tests
# `make run` keeps its drives in DATA=./data.

DATA ?= data
RELEASE = $(or $(CARGO_TARGET_DIR),target)/release
BINARY = $(RELEASE)/zoneweave

.PHONY: help run test lint unit fuzz clients kernel rocksdb package soak bench demo clean

help:
	@echo 'make run      build, and serve an array of emulated drives in ./data over NBD'
	@echo 'make demo     show a drive failing under load and being rebuilt; leaves nothing behind'
	@echo 'make rocksdb  build the RocksDB plugin (installs librocksdb-dev and rocksdb-tools)'
	@echo 'make package  build the Debian package'
	@echo 'make test     everything that must pass; installs what it needs (Debian)'
	@echo 'make lint     formatting, clippy, documentation'
	@echo 'make unit     the tests in the crates, and the laws of the repository'
	@echo 'make clients  real NBD clients against the release build'
	@echo 'make kernel   guests with real kernels and zoned NVMe drives (QEMU) against the release build'
	@echo 'make fuzz     every fuzz target for FUZZ_SECONDS (600), with libFuzzer where nightly is'
	@echo 'make soak     the long form of the crash tests (hours)'
	@echo 'make bench    measurements of this machine'
	@echo 'make clean    removes what was built, but not ./data'

run:
	@scripts/install-packages run
	cargo build --release --locked -p zoneweave
	$(BINARY) quickstart $(DATA)

demo:
	@scripts/install-packages run
	cargo build --release --locked -p zoneweave
	$(BINARY) demo

rocksdb:
	@scripts/install-packages rocksdb
	cargo build --release --locked -p zoneweave -p zoneweave-capi
	plugins/rocksdb/build $(RELEASE)/libzoneweave_capi.a $(RELEASE)/libzoneweave_rocksdb.so

package:
	@scripts/install-packages run
	@scripts/package

test:
	@scripts/install-packages test
	@scripts/test

lint:
	@scripts/test format clippy doc

unit:
	@scripts/test unit

clients:
	@scripts/install-packages test
	@scripts/test release clients

kernel:
	@scripts/install-packages test
	@scripts/test release kernel

fuzz:
	@scripts/fuzz

soak:
	@scripts/install-packages test
	@scripts/soak

bench:
	@scripts/bench

clean:
	cargo clean
	rm -rf fuzz/target
