# Fencepost's commands. `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup test check shell test-busy verify containers test-oldest test-newest lint tidy vet-os fuzz simulate seeds rounds breaks failures acknowledged cuts proof torture bench

FUZZTIME ?= 60s
BUSY ?= 5
ROUNDS ?= 1000
BREAKS ?= 1000
FAILURES ?= 100
ACKNOWLEDGED ?= 100000
CUTS ?= 1
TORTURE ?= 100000
SEEDS ?= 100000
ON_CONTAINERS := ./token/... ./lock ./guard/... ./sqlguard/... ./redisguard ./migrations ./simulations/pgxpoint ./simulations/sqlpoint ./simulations/redispoint ./internal/...
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what the tests need: modules, servers, a C compiler for -race
	@scripts/setup

test: ## test each behaviour on real servers (minutes); installs nothing
	@scripts/test

check: ## check what needs no server: gofmt, vet, each module by itself, the race detector over locks and decisions (minutes)
	@scripts/check

shell: ## start a shell with the servers and flags of the tests: for go test -run Once ./sqlguard/stdsql
	@. scripts/build-flags; exec go run ./internal/test/testservers "$${SHELL:-bash}"

test-busy: ## run the tests BUSY (5) times beside three busy loops for each core
	@scripts/test-busy $(BUSY)

verify: ## run all checks: linters, all tests with -race, seeds in fake time, the lab, fuzz tests, containers, oldest and newest drivers (up to an hour)
	@scripts/verify

containers: ## test the containers module, then the packages that use drivers, on servers in containers
	go test -C lab/containers -count=1 ./...
	go run -C lab/containers . -- go test -vet=off -skip '^TestStress' -timeout 30m $(ON_CONTAINERS)

test-oldest: ## test the guards, the issuers and contrib with the Go and driver versions of each go.mod
	@scripts/test-drivers oldest

test-newest: ## test the guards, the issuers and contrib with the newest drivers; changes no file
	@scripts/test-drivers newest

lint: ## run golangci-lint over every module, and shellcheck
	@tools=$$(mktemp -d); trap 'rm -rf "$$tools"' EXIT; GOBIN=$$tools go install $(GOLANGCI) && . scripts/build-flags && \
	$$tools/golangci-lint run $$(scripts/modules | sed 's|$$|/...|')
	@if command -v shellcheck >/dev/null; then shellcheck .ci/run scripts/* internal/test/*/*.sh; \
	else echo 'lint: shellcheck is not installed: the scripts were not checked'; fi

tidy: ## compare each go.mod and go.sum with what go mod tidy makes
	@set -e; for module in $$(scripts/modules); do echo "tidy $$module"; scripts/alone $$module mod tidy -diff; done

vet-os: ## go vet every module for macOS and Windows
	@set -e; for module in $$(scripts/modules | grep -v /internal/server$$); do for os in darwin windows; do \
		echo "vet $$module for $$os"; GOOS=$$os go vet -C $$module ./...; \
	done; done

fuzz: ## run each fuzz test for FUZZTIME (60s)
	@scripts/fuzz $(FUZZTIME)

simulate: ## show how a paused writer is refused; ARGS="--rounds 3" passes flags
	go run ./cmd/fencepost simulate $(ARGS)

seeds: ## play SEEDS (100000) seeds of the simulation in fake time, guarded and unguarded, and judge each run
	@set -o pipefail; FENCEPOST_SEEDS=$(SEEDS) go test ./simulations \
		-run '^TestStressSeeds$$' -count=1 -timeout 60m -v | grep -v -e '^ *===' -e '^ *--- PASS'

rounds: ## stop real writers ROUNDS (1000) times on each resource, and print a table
	@set -o pipefail; FENCEPOST_ROUNDS=$(ROUNDS) go test ./simulations/process \
		-run '^TestRounds$$' -parallel 8 -count=1 -timeout 60m -v | grep -v '^ *==='

breaks: ## stop holders of locks BREAKS (1000) times, break their locks, and print how many late writes were accepted
	@set -o pipefail; FENCEPOST_BREAKS=$(BREAKS) scripts/test ./cmd/fencepost \
		-run '^TestBreakOfStoppedHolders$$' -count=1 -timeout 60m -v | grep -v -e '^ *===' -e '^ *--- PASS'

failures: ## kill, cut off and promote the issuers' servers FAILURES (100) times each, and print a table of the outcomes
	@set -o pipefail; FENCEPOST_FAILURES=$(FAILURES) go test ./lab/failures \
		-count=1 -timeout 90m -v | grep -v -e '^ *===' -e '^ *--- PASS'

acknowledged: ## make ACKNOWLEDGED (100000) read-modify-writes under pauses and lost locks, and count the lost ones
	@set -o pipefail; FENCEPOST_ACKNOWLEDGED=$(ACKNOWLEDGED) go test ./lab/durability \
		-run '^TestNoAcknowledgedWriteIsLost$$' -count=1 -timeout 60m -v | grep -v -e '^ *===' -e '^ *--- PASS'

cuts: ## cut the connections of the SQL and Redis guards at every CUTS-th (1) byte, and print the errors (hours)
	@set -o pipefail; FENCEPOST_CUTS=$(CUTS) go test ./lab/cut \
		-count=1 -timeout 24h -v | grep -v -e '^ *===' -e '^ *--- PASS'

torture: ## make TORTURE (100000) writes by sixteen concurrent writers through every entry point of the SQL guards, and judge the outcomes
	@set -o pipefail; FENCEPOST_TORTURE=$(TORTURE) go test ./sqlguard ./simulations \
		-run '^TestStress(Torture|Histories.*)$$' -count=1 -timeout 60m -v | grep -v -e '^ *===' -e '^ *--- PASS'

proof: ## search the model with SPIN within larger bounds, and print the states and how each broken variant fails (minutes)
	@set -o pipefail; FENCEPOST_PROOF=1 go test ./lab/proof -count=1 -timeout 60m -v | grep -v -e '^ *===' -e '^ *--- PASS'

bench: ## measure guards and locks against raw commands and peers, over a link and under load; ARGS="-quick -only write"
	go run -C lab/bench . $(ARGS)
