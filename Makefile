# Fencepost's commands. `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup test containers test-oldest test-newest lint vet-os fuzz simulate rounds failures partitions fairness acknowledged experiment proof torture bench

FUZZTIME ?= 60s
ROUNDS ?= 1000
RUNS ?= 1
FAILURES ?= 100
PARTITIONS ?= 100
FAIRNESS ?= 60s
ACKNOWLEDGED ?= 100000
TORTURE ?= 100000
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## get what the tests need: modules, servers, a C compiler for -race
	@scripts/setup

test: ## test every module that needs no Docker, with -race; installs nothing
	@scripts/test -race

containers: ## the container path: its own module's tests, then all others on servers in containers
	go test -C simulations/containers -count=1 ./...
	go run -C simulations/containers . -- scripts/test

test-oldest: ## test each module with the versions of its own go.mod, the oldest that work
	@GOWORK=off scripts/test -race

test-newest: ## test the root module with the newest drivers; changes nothing in the tree
	@scripts/test-newest

lint: ## run golangci-lint over every module, and shellcheck
	@set -e; for module in $$(scripts/modules); do \
		echo "lint $$module"; (cd $$module && go run $(GOLANGCI) run ./...); \
	done
	@if command -v shellcheck >/dev/null; then shellcheck .ci/run scripts/* internal/testenv/*.sh; \
	else echo 'lint: shellcheck is not installed: the scripts were not checked'; fi

vet-os: ## go vet every module for macOS and Windows
	@set -e; for module in $$(scripts/modules); do for os in darwin windows; do \
		echo "vet $$module for $$os"; GOOS=$$os go vet -C $$module ./...; \
	done; done

fuzz: ## run each fuzz test for FUZZTIME (60s)
	@scripts/fuzz $(FUZZTIME)

simulate: ## watch a paused writer being refused; ARGS="--rounds 3" passes flags
	go run ./cmd/fencepost simulate $(ARGS)

rounds: ## stop real writers ROUNDS (1000) times, each way and on each resource: a table
	@set -o pipefail; FENCEPOST_ROUNDS=$(ROUNDS) go test ./simulations/process \
		-run '^TestRounds$$' -parallel 8 -count=1 -timeout 60m -v | grep -v '^ *==='
	@set -o pipefail; FENCEPOST_ROUNDS=$(ROUNDS) go test ./internal/replicas \
		-count=1 -timeout 60m -v | grep -v '^ *==='

failures: ## kill, cut off and promote the issuers' servers FAILURES (100) times each: what it came to
	@set -o pipefail; FENCEPOST_FAILURES=$(FAILURES) go test ./internal/failures \
		-count=1 -timeout 90m -v | grep -v -e '^ *===' -e '^ *--- PASS'

partitions: ## part holders from their issuers PARTITIONS (100) times each: who hears of it in time
	@set -o pipefail; FENCEPOST_PARTITIONS=$(PARTITIONS) go test ./internal/partition \
		-count=1 -timeout 60m -v | grep -v -e '^ *===' -e '^ *--- PASS'
	@set -o pipefail; FENCEPOST_PARTITIONS=$(PARTITIONS) go test -C examples/adopt \
		-run Partition -count=1 -timeout 60m -v . | grep -v -e '^ *===' -e '^ *--- PASS'

fairness: ## let 64 waiters take turns for FAIRNESS (60s), with and without killing some, one issuer at a time
	@set -o pipefail; FENCEPOST_FAIRNESS=$(FAIRNESS) go test ./internal/fairness \
		-parallel 1 -count=1 -timeout 60m -v | grep -v -e '^ *===' -e '^ *--- PASS'

acknowledged: ## have ACKNOWLEDGED (100000) read-modify-writes acknowledged under pauses and lost locks: how many are lost
	@set -o pipefail; FENCEPOST_ACKNOWLEDGED=$(ACKNOWLEDGED) go test ./internal/acknowledged \
		-run '^TestNoAcknowledgedWriteIsLost$$' -count=1 -timeout 60m -v | grep -v -e '^ *===' -e '^ *--- PASS'

experiment: ## etcd's lost additions, with and without a fence: RUNS (1) times two minutes
	@FENCEPOST_EXPERIMENT_RUNS=$(RUNS) go test ./internal/lockset \
		-run '^TestExperiment$$' -count=1 -timeout 2h -v

torture: ## make TORTURE (100000) writes by sixteen writers at once, in every way into SQL, and judge what they were told
	@set -o pipefail; FENCEPOST_TORTURE=$(TORTURE) go test ./sqlguard ./simulations \
		-run '^(TestTorture|TestHistories.*)$$' -count=1 -timeout 60m -v | grep -v -e '^ *===' -e '^ *--- PASS'

proof: ## search the model with SPIN within larger bounds, for minutes: how many states, and how each broken variant fails
	@set -o pipefail; FENCEPOST_PROOF=1 go test ./proof -count=1 -timeout 60m -v | grep -v -e '^ *===' -e '^ *--- PASS'

bench: ## what guarded writes cost beside plain ones, as ratios; ARGS="-quick -only write"
	go run -C bench . $(ARGS)
