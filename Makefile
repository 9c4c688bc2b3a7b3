# Everything a person or a machine does with this repository. `make help` lists it.
.DEFAULT_GOAL := help
SHELL := /bin/bash

GO    ?= go
TOOLS := $(GO) -C tools
BIN   := bin

# Seconds that each fuzz target runs in `make fuzz`.
FUZZTIME ?= 30s

.PHONY: help
help: ## list what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.PHONY: build
build: ## build bin/lingua
	$(GO) build -o $(BIN)/lingua ./cmd/lingua

.PHONY: run
run: build ## run the scheduler on 127.0.0.1:5010 with the embedded store; ARGS='--help' for more
	$(BIN)/lingua serve $(ARGS)

.PHONY: demo
demo: build ## the same, with a simulated fleet and conversations, and a live summary
	$(BIN)/lingua demo $(ARGS)

.PHONY: test
test: lint redis race allocs ## everything that must hold before a change lands

.PHONY: redis
redis: ## install redis-server, which the tests start for themselves, if it is missing
	@command -v redis-server >/dev/null || { \
	  command -v apt-get >/dev/null || { echo "The tests need redis-server 7 or newer: install it and put it on the PATH." >&2; exit 1; }; \
	  sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  $$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends redis-server; \
	}

.PHONY: race
race: ## every test under the race detector
	$(GO) test -race -timeout 12m ./...

# The race detector makes allocations of its own, so these are counted without it.
.PHONY: allocs
allocs: ## that the hot path allocates nothing
	$(GO) test -run Alloc ./internal/pick

.PHONY: lint
lint: $(BIN)/golangci-lint ## formatting, vet and the linters of .golangci.yml
	$(BIN)/golangci-lint run ./...

# Built from source, at the version tools/go.mod pins; it takes some minutes once.
$(BIN)/golangci-lint: tools/go.mod tools/go.sum
	$(TOOLS) build -o ../$(BIN)/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: stress
stress: ## 200,000 dispatches over HTTP against a fleet with faults
	$(GO) test -count=1 -timeout 30m -run TestFleetUnderFaults -v ./internal/scheduler -dispatches 200000

.PHONY: bench
bench: ## the benchmarks whose results are in docs/benchmarks.md
	$(GO) test -run '^$$' -bench 'Decision$$' -cpu 1 ./bench
	$(GO) test -run '^$$' -bench 'DecisionGrowth' -benchtime 1x -cpu 1 ./bench
	$(GO) test -run '^$$' -bench 'DispatchHTTP|BesideHeartbeats' -benchtime 1x -timeout 20m ./bench
	$(GO) test -run '^$$' -bench 'Lifecycle' ./bench

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (30s) each
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "== $$pkg $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; \
	done

.PHONY: vuln
vuln: ## look the dependencies up in the vulnerability database (needs network)
	$(TOOLS) run golang.org/x/vuln/cmd/govulncheck -C .. ./...

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN)
