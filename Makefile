# Everything a person or a machine does with this repository. `make help` lists it.
.DEFAULT_GOAL := help
SHELL := /bin/bash

GO    ?= go
TOOLS := $(GO) -C tools
BIN   := bin

# Seconds that each fuzz target runs in `make fuzz`.
FUZZTIME ?= 30s

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

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
test: lint modules race allocs ## everything that must hold before a change lands

# The tests start servers of their own. Debian's packages would start daemons beside them: tools/apt-install.sh prevents it.
APT := tools/apt-install.sh

.PHONY: redis
redis: ## install redis-server, which the tests start for themselves, where it is missing
	@set -e; \
	command -v redis-server >/dev/null || $(APT) redis-server redis-server || \
	  { echo 'Install Redis 7.0 or newer and put redis-server on PATH; it need not run: the tests start their own.' >&2; exit 1; }; \
	redis-server --version | grep -qE 'v=([7-9]|[1-9][0-9]+)\.' || \
	  { echo "the tests need Redis 7.0 or newer; this is: $$(redis-server --version)" >&2; exit 1; }

.PHONY: promtool
promtool: ## install promtool, with which the tests check the alerts, where it is missing
	@command -v promtool >/dev/null || $(APT) prometheus prometheus || \
	  { echo 'Install promtool, which is part of Prometheus, and put it on PATH.' >&2; exit 1; }

.PHONY: opus-tools
opus-tools: ## install opus-tools, with which the tests check our Ogg Opus streams, where they are missing
	@set -e; \
	{ command -v opusinfo && command -v opusdec && command -v opusenc; } >/dev/null || $(APT) opus-tools || \
	  { echo 'Install opusinfo, opusdec and opusenc and put them on PATH.' >&2; exit 1; }

# Sessions and nodes in JavaScript, for the tests of internal/interop. What they depend on is pinned by package-lock.json.
JS := internal/interop/js

.PHONY: interop
interop: $(JS)/node_modules/.package-lock.json ## install what the JavaScript sessions and nodes of the tests depend on (needs Node.js 20)

$(JS)/node_modules/.package-lock.json: $(JS)/package.json $(JS)/package-lock.json
	@command -v node >/dev/null && command -v npm >/dev/null && node -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)' || \
	  { echo 'the tests need Node.js 20 or newer with npm; put node and npm on PATH' >&2; exit 1; }
	npm --prefix $(JS) ci --no-audit --no-fund --loglevel error
	@touch $@

# Modules of their own, so that the scheduler does not depend on what only they need. `./...` does not include them.
NESTED := $(shell find . -mindepth 2 -name go.mod -not -path './bin/*' -not -path '*/node_modules/*' -printf '%h ')

.PHONY: modules
modules: ## build and vet every nested module, with nothing but what its go.sum names
	@set -e; for dir in $(NESTED); do \
	  packages=$$($(GO) -C $$dir list -e ./... 2>/dev/null); tools=$$($(GO) -C $$dir list -e tool 2>/dev/null); \
	  echo "$(GO) -C $$dir build && vet"; \
	  $(GO) -C $$dir build -mod=readonly -o /dev/null $$packages $$tools; \
	  if [ -n "$$packages" ]; then $(GO) -C $$dir vet -mod=readonly $$packages; fi; \
	done

# The drills use the whole machine, and other tests, above all those with JavaScript, depend on real time: they run one after
# another.
.PHONY: race
race: redis promtool opus-tools interop ## every test under the race detector
	$(GO) test -race -timeout 12m $$($(GO) list ./... | grep -vE '/internal/(drill|interop)$$')
	$(GO) test -race -timeout 12m ./internal/interop
	$(GO) test -race -timeout 12m ./internal/drill

# The race detector makes allocations of its own, so these are counted without it.
.PHONY: allocs
allocs: ## that the hot path allocates nothing, and what a connection costs
	$(GO) test -run 'Alloc|Costs' ./internal/pick ./internal/socket

.PHONY: lint
lint: $(BIN)/golangci-lint ## formatting, vet and the linters of .golangci.yml
	$(BIN)/golangci-lint run ./...

# Built from source, at the version tools/go.mod pins; it takes some minutes once.
$(BIN)/golangci-lint: tools/go.mod tools/go.sum
	$(TOOLS) build -o ../$(BIN)/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: stress
stress: ## 200,000 dispatches over HTTP against a fleet with faults
	$(GO) test -count=1 -timeout 30m -run TestFleetUnderFaults -v ./internal/scheduler -dispatches 200000

# What runs in `make test` in a shorter form. The last of them holds the times that answers take against what is
# promised, so leave the machine alone meanwhile.
PROVE := $(GO) test -count=1 -timeout 60m -v

.PHONY: prove
prove: redis ## the full forms of the tests: crowds, lost replies, failovers, outages, conversations (40 minutes)
	$(PROVE) -run 'TestCrowd$$' ./internal/store/redisstore -crowd-operations 1000000 -crowd-kills 500
	$(PROVE) -run TestLostReplies ./internal/store/redisstore -lost-replies 10000
	$(PROVE) -run TestLedgerIsLinearizable ./internal/store/redisstore -operations 50000
	$(PROVE) -run TestBrokenLedgersAreCaught ./internal/store/redisstore
	$(PROVE) -run TestFailover ./internal/scheduler -failovers 10
	$(PROVE) -run TestRedisStopped ./internal/scheduler -stop-for 7s
	$(PROVE) -run TestNoRefusalWhileASlotIsFree ./internal/scheduler -shared-jobs 50000
	$(PROVE) -run 'TestTwoInstancesShareAFleet|TestANewLife' ./internal/scheduler
	$(PROVE) -run 'TestReadyMeansEveryNodeIsKnown|TestLosingMostNodesAtOnce' ./internal/scheduler -many-nodes 10000
	$(PROVE) -run TestCommandsPerJob ./bench
	$(PROVE) -run TestCutConnections ./internal/scheduler -cut-for 60s
	$(PROVE) -run TestManyConversations ./bench/conversations -sessions 5000 -nodes 200 -during 2m
	$(PROVE) -run TestIncarnations ./internal/drill -incarnation-steps 20000 -incarnation-names 200
	$(PROVE) -run TestOneTokenIsBounded ./internal/drill -abuse-for 10m
	$(PROVE) -run TestKilled ./internal/drill -drill-sessions 1000 -drill-every 5s
	$(PROVE) -run TestWithoutTheStore ./internal/scheduler -callers 5000 -prompt

# Clusters of processes and what is done to them: internal/drill.
DRILL := $(GO) test -count=1 -v ./internal/drill

.PHONY: acceptance
acceptance: redis ## the drills once on each topology: standalone, Sentinel and a cluster of 3+3 (10 minutes)
	$(DRILL) -timeout 20m -drill-topology standalone
	$(DRILL) -timeout 20m -drill-topology sentinel
	$(DRILL) -timeout 20m -drill-topology cluster

# How long make chaos goes on. What everybody saw and logged is kept in bin/_artifacts.
CHAOS ?= 1h

.PHONY: chaos
chaos: redis ## an hour of faults at random, watching that nothing grows; CHAOS=10m for less, SEED= for the same again
	@mkdir -p $(BIN)
	$(DRILL) -timeout 4h -run TestSoak -drill-for $(CHAOS) $(if $(SEED),-drill-seed $(SEED)) -artifacts -outputdir $(abspath $(BIN))

.PHONY: bench-peers
bench-peers: redis ## a job's life over Redis against a task queue's, on the same Redis in the same run
	cd bench/peers && $(GO) test -run '^$$' -bench Lifecycle -benchtime 1x -timeout 5m .

.PHONY: bench-cluster
bench-cluster: redis ## what a hop between instances costs, what Redis does for each operation, and how keys spread
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 15m ./bench/cluster

.PHONY: bench
bench: ## the benchmarks whose results are in docs/benchmarks.md
	$(GO) test -run '^$$' -bench 'Decision$$' -cpu 1 ./bench
	$(GO) test -run '^$$' -bench 'DecisionGrowth' -benchtime 1x -cpu 1 ./bench
	$(GO) test -run '^$$' -bench 'DispatchHTTP|BesideHeartbeats' -benchtime 1x -timeout 20m ./bench
	$(GO) test -run '^$$' -bench 'Lifecycle' ./bench
	$(GO) test -run '^$$' -bench 'Relay|SlowReaders' -benchtime 1x -timeout 10m ./bench/conversations

# Which packages, and how often each must pass. What has passed is kept in bin/flake, by test binary.
PKG ?= ./...
N   ?= 20

.PHONY: flake
flake: redis promtool opus-tools interop ## repeat PKG=./internal/foo N=20 times, racing, shuffled, beside a busy process; goes on where it stopped
	@GO=$(GO) ROUNDS=$(N) tools/flake.sh $(PKG)

.PHONY: bench-pauses
bench-pauses: ## what telling a pause from a stall costs at 5,000 sessions
	$(GO) test -run '^$$' -bench PauseProbes -benchtime 1x -timeout 15m ./bench/conversations -sessions 5000 -nodes 50 -during 20s

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
