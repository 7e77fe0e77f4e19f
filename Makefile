# `make demo` and `make test` need Python 3.11+ and nothing else; each makes the virtual environment.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-pure lint types check compiled pure faults faults-long kafka bench clean

OF_COMPILED := tests/streams/detection tests/golden tests/streams/processor/test_intake.py tests/streams/processor/test_quick_intake.py \
    tests/streams/transcripts tests/streams/conformance/test_vectors.py \
    tests/streams/audit/test_replayer.py tests/streams/audit/test_orders.py tests/streams/audit/test_inputs.py tests/streams/audit/test_comparison.py

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# What runs Loopwarden; the engine as Python, for a first look in half a minute.
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	LOOPWARDEN_COMPILE=0 $(PIP) -e '.[broker,rocksdb]'
	touch $@

# What tests it: linters, and the libraries that there are adapters for.
.venv/.developing: .venv/.installed
	LOOPWARDEN_COMPILE=0 $(PIP) -e '.[broker,rocksdb,langchain,openai-agents,mcp]' --group dev
	touch $@

# The engine compiled into this folder, where there is a C compiler.
.venv/.compiled: .venv/.developing hatch_build.py $(shell sed -n 's/^    "\(streams.*\.py\)",$$/\1/p' pyproject.toml)
	$(BIN)/python hatch_build.py
	touch $@

demo: .venv/.installed ## watch looping runs being caught on an embedded broker
	$(BIN)/loopwarden demo

compiled: .venv/.compiled ## compile the engine into this folder; tests and benchmarks do

pure: .venv/.developing ## have the engine run as Python again, to change it or to step through it
	$(BIN)/python hatch_build.py --pure
	rm -f .venv/.compiled

test: .venv/.compiled ## every test; the broker that they need is started by the tests
	$(BIN)/python -m pytest -q -n 4 --dist loadgroup

test-pure: pure ## the tests of what is compiled, as Python
	$(BIN)/python -m pytest -q -n 4 --dist loadgroup $(OF_COMPILED)

lint: .venv/.developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.developing
	$(BIN)/mypy

check: lint types test

faults: .venv/.compiled ## workers that are killed, paused and starved, on both brokers; one table, and build/faults.json
	$(BIN)/python -m tests.faults

faults-long: .venv/.compiled ## the same for hours
	$(BIN)/python -m tests.faults --long

kafka: .venv/.developing ## an Apache Kafka on loopback to play with, until Ctrl-C (Java 17 and Maven are needed)
	$(BIN)/python -m tests.brokers.apache_kafka

bench: .venv/.compiled ## the worker beside its rivals, on a fresh broker; one table, and build/bench.json
	$(BIN)/python -m tests.bench

clean:
	rm -rf .venv build dist
	rm -f loopwarden__mypyc.*.so
	find schemas streams -name '*.so' -delete
