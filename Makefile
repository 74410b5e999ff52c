# What people type. Every target makes what it needs first; nothing here needs root.
#   make up ARGS="--port 8081 --data ./data"

SHELL := /bin/sh
BIN := .venv/bin
MEMBERS := $(wildcard libs/*/pyproject.toml services/*/pyproject.toml clients/python/pyproject.toml)
LOCKED := uv.lock pyproject.toml $(MEMBERS) tools/setup.sh
CODE := libs services clients tests bench tools $(wildcard examples)
# Twice the cores of a small machine: many tests wait for processes that they started.
WORKERS ?= 4
# Modules run in order, each by the next free worker: the long ones of tests/e2e come early, and the
# servers that the tests of a module share start once.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
ARGS ?=
EXAMPLES ?= 200

# Tests start hundreds of Python processes. Each would compile all of its modules if none stored them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: up setup wheels check checks test nightly fuzz kernels needs kubernetes airflow lint types layers client bench clean help
.DELETE_ON_ERROR:

# `--kubeconfig` needs a client for Kubernetes, which is installed only then.
up: $(if $(findstring --kubeconfig,$(ARGS)),.venv/.ready-kubernetes,.venv/.ready-run)  ## start Fairlead on this machine; Ctrl-C ends it
	@exec $(BIN)/fairlead up $(ARGS)

setup: .venv/.ready-dev  ## make .venv with every member and all tools

wheels:  ## a wheel of every member in dist/: pip install dist/fairlead-*.whl is the client alone
	@rm -rf dist
	@tools/setup.sh wheels
	@ls dist/*.whl

check: checks  ## format, lint, types, layers, unit and contract tests
	$(PYTEST) tests/contract tests/architecture tests/unit -m "not kafka and not kubernetes and not nightly" $(ARGS)

test: checks needs  ## everything of check, and all other tests with what they need
	$(PYTEST) tests $(ARGS)

nightly: .venv/.ready-dev kernels needs  ## the long tests: 1,000 simulation seeds, 5,000 storms and long chaos
	FAIRLEAD_SEEDS=1000 $(PYTEST) tests/simulation
	FAIRLEAD_SEEDS=5000 $(PYTEST) tests/properties/engine/test_storms.py
	@seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); \
	set -- tests/properties tests/unit -m hypothesis --hypothesis-seed=$$seed; \
	echo "Properties with fresh random examples; again: FAIRLEAD_EXAMPLES=$(EXAMPLES) pytest $$*"; \
	FAIRLEAD_EXAMPLES=$(EXAMPLES) $(PYTEST) "$$@"
	$(PYTEST) tests -m nightly

fuzz: .venv/.ready-dev kernels  ## 100,000 spoilt requests to a Fairlead of its own: no 500, no hang
	$(BIN)/python -m tests.fuzz $(ARGS)

# The engine's kernels: half a minute after each change to them, and nothing when they are there.
kernels: .venv/.ready-dev
	@$(BIN)/python -m fairlead_scheduler.kernels

# What only some tests need: fetched once and said aloud. What cannot be had is named here, and again
# in pytest's summary by each test that is skipped for it.
needs: .venv/.ready-dev
	@$(BIN)/python tools/chromium.py --prefer || true
	@test -n "$$FAIRLEAD_TEST_KAFKA" || $(BIN)/python -m tests.kafka_broker fetch || true
	@$(BIN)/python -m tests.go_programs check || true
	@$(BIN)/python -m tests.airflow_environment check || true

# A real Kubernetes control plane, kubectl and Helm for tests: about 1,000 CPU-seconds of Go, once per go.sum
# and Go.
kubernetes: .venv/.ready-dev  ## build etcd, kube-apiserver, kube-scheduler, KWOK, kubectl and Helm for tests
	@$(BIN)/python -m tests.go_programs build

airflow: .venv/.ready-dev  ## install Airflow, in an environment of its own, for tests of clients/airflow
	@$(BIN)/python -m tests.airflow_environment build

client: .venv/.ready-dev  ## generate the blocking Python client from the asynchronous one
	$(BIN)/python -m tools.generate_client

# The types take as long as all others together.
checks: .venv/.ready-dev
	@$(MAKE) --no-print-directory -j2 types lint layers kernels

lint: .venv/.ready-dev
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/python tools/check_language.py

types: .venv/.ready-dev
	$(BIN)/mypy $(CODE)

layers: .venv/.ready-dev
	PYTHONPATH=clients/airflow $(BIN)/lint-imports

BENCHES := "log.py --log postgres" "log.py --log kafka" "submit.py" "engine.py --case fill-32k" \
	"engine.py --case mix" "e2e.py --burst --jobs 20000" "e2e.py --paced --rate 1667 --seconds 60" \
	"e2e.py --burst --jobs 20000 --kafka" "start.py" "start.py --fresh" "start.py --commands" "idle.py" "simulate.py" \
	"lookout.py" "bulk.py" "webhooks.py" "webhooks.py --dead 1"

bench: .venv/.ready-dev  ## the figures of this system, each bench ending in one JSON line
	@set -e; for bench in $(BENCHES); do echo "== bench/$$bench"; $(BIN)/python bench/$$bench; done

clean:  ## remove what the targets made here; no data of a running Fairlead
	rm -rf .venv .tools .cache dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*  ## /\1\t/p' Makefile

.venv/.ready-run: $(LOCKED)
	@tools/setup.sh run

.venv/.ready-kubernetes: $(LOCKED)
	@tools/setup.sh kubernetes

.venv/.ready-dev: $(LOCKED)
	@tools/setup.sh dev
