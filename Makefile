# `make demo` and `make test` need Python 3.11+ and nothing else; each makes the virtual environment.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types check faults faults-long kafka bench clean

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# What runs Loopwarden.
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(PIP) -e '.[broker,rocksdb]'
	touch $@

# What tests it: linters, and the libraries that there are adapters for.
.venv/.developing: .venv/.installed
	$(PIP) -e '.[broker,rocksdb,langchain,openai-agents,mcp]' --group dev
	touch $@

demo: .venv/.installed ## watch looping runs being caught on an embedded broker
	$(BIN)/loopwarden demo

test: .venv/.developing ## every test; the broker that they need is started by the tests
	$(BIN)/python -m pytest -q -n 4 --dist loadgroup

lint: .venv/.developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.developing
	$(BIN)/mypy

check: lint types test

faults: .venv/.developing ## workers that are killed, paused and starved, on both brokers; one table, and build/faults.json
	$(BIN)/python -m tests.faults

faults-long: .venv/.developing ## the same for hours
	$(BIN)/python -m tests.faults --long

kafka: .venv/.developing ## an Apache Kafka on loopback to play with, until Ctrl-C (Java 17 and Maven are needed)
	$(BIN)/python -m tests.brokers.apache_kafka

bench: .venv/.developing ## the worker beside its rivals, on a fresh broker; one table, and build/bench.json
	$(BIN)/python -m tests.bench

clean:
	rm -rf .venv build dist
