# The commands of this repository. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash

GO    ?= go
TOOLS := $(GO) -C tools
BIN   := bin

# Seconds that each fuzz target runs in `make fuzz`.
FUZZTIME ?= 30s

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

.PHONY: build
build: ## build bin/lingua
	$(GO) build -o $(BIN)/lingua ./cmd/lingua

.PHONY: run
run: build ## run the scheduler on 127.0.0.1:5010 with the embedded store; ARGS='--help' for more
	$(BIN)/lingua serve $(ARGS)

.PHONY: demo
demo: build ## the same, with a simulated fleet and conversations, and a live summary
	$(BIN)/lingua demo $(ARGS)

# Programs in JavaScript: sessions and nodes of the tests of test/interop, the examples, and the check of the dashboards against the
# types of Grafana. package-lock.json pins their dependencies.
JS := test/interop/js examples/javascript deploy/grafana/check
DASHBOARD := web/dashboard

# Three commands for tests, each with more than the one before it: CONTRIBUTING.md has their times.
#
# test/testrun compiles, runs go test, and prints its progress and a summary; SLOWEST=50 lists more tests. Most tests wait for something, so
# eight of a package and three packages run beside each other.
TESTRUN  := $(GO) run ./test/testrun -slowest=$(or $(SLOWEST),10) $(if $(REPEAT),-repeat)
TOGETHER := -p=3 -parallel=8
ONCE     := -count=1 -shuffle=on $(TOGETHER) $(ARGS)

# Packages that need more than Go and Redis: clusters of processes, browsers, other languages, deployments. The drills measure times and use the whole
# machine, so they run alone.
LONG := ^$(shell $(GO) list -m)/(bench|deploy|test/(dashtest|drill|interop))(/|$$)
# Packages that `make test` runs under the race detector; `make test-all` runs the others under it.
RACE := ./internal/dispatch ./internal/fleet ./internal/store/memstore ./internal/socket ./internal/session
# All packages but those, the ones that take longest first.
SLOW   := ./internal/scheduler ./internal/store/redisstore ./internal/server ./cmd/lingua
OTHERS  = $(SLOW) $$($(GO) list ./... | grep -vE '$(LONG)|/(dispatch|fleet|memstore|socket|session)$$')

.PHONY: unit
unit: ## the tests that need no program but Go; ARGS=-count=1 also those that passed before
	$(TESTRUN) -short $(TOGETHER) $(ARGS) $(SLOW) $$($(GO) list ./... | grep -vE '$(LONG)|/test/repo$$') + -short -count=1 ./test/repo

.PHONY: test
test: redis checks ## what must hold before a commit: checks, units of the dashboard, and all tests that need only Go and Redis
	npm --prefix $(DASHBOARD) run test --loglevel error
	$(TESTRUN) $(ONCE) $(OTHERS) + -race $(ONCE) $(RACE)

.PHONY: checks
checks: $(DASHBOARD)/node_modules/.package-lock.json size ## formatting, go vet, and the limits of test/size
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "run gofmt -w on: $$unformatted" >&2; exit 1; }
	$(GO) vet ./...

.PHONY: test-all
test-all: tools lint modules dashboard-check ## the rest, which must hold before a change lands: linters, race detector, browsers, other languages, deployments, drills
	$(TESTRUN) -race $(ONCE) $(OTHERS) + $(ONCE) ./internal/socket + $(ONCE) ./test/drill \
	  + $(ONCE) -p=2 ./test/dashtest ./test/interop + $(ONCE) ./deploy/... ./bench/...

# The tests start servers of their own. Debian's packages would start daemons beside them: tools/install.sh prevents it.
.PHONY: redis
redis: ## install redis-server and opus-tools, which the tests start, where they are missing
	@tools/install.sh redis-server opus-tools

.PHONY: tools
tools: redis $(JS:%=%/node_modules/.package-lock.json) $(DASHBOARD)/node_modules/.package-lock.json ## install the programs that test-all needs, where they are missing (needs Node.js 20)
	@tools/install.sh chromium haproxy iproute2 prometheus python3 python3-websockets

%/node_modules/.package-lock.json: %/package.json %/package-lock.json
	@command -v node >/dev/null && command -v npm >/dev/null && node -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)' || \
	  { echo 'the tests need Node.js 20 or newer with npm; put node and npm on PATH' >&2; exit 1; }
	npm --prefix $* ci --no-audit --no-fund --loglevel error
	@touch $@

.PHONY: dashboards
dashboards: ## write deploy/grafana/*.json from the descriptions in deploy/grafana/gen
	$(GO) run ./deploy/grafana/gen

.PHONY: dashboard
dashboard: $(DASHBOARD)/node_modules/.package-lock.json ## build the dashboard into web/dashboard/dist, which is committed
	$(GO) test ./$(DASHBOARD) -run TestTypes -update
	npm --prefix $(DASHBOARD) run build --loglevel error

.PHONY: dashboard-check
dashboard-check: $(DASHBOARD)/node_modules/.package-lock.json ## types and linters of the dashboard
	npm --prefix $(DASHBOARD) run check --loglevel error
	npm --prefix $(DASHBOARD) run lint --loglevel error

# Modules of their own, so that the scheduler does not depend on what only they need. `./...` does not include them.
NESTED := $(shell find . -mindepth 2 -name go.mod -not -path './bin/*' -not -path '*/node_modules/*' -printf '%h ')

.PHONY: modules
modules: ## build and vet the packages of every nested module, with its go.sum as it is
	@set -e; for dir in $(NESTED); do \
	  echo "$(GO) -C $$dir vet"; \
	  $(GO) -C $$dir list -mod=readonly -deps tool >/dev/null; \
	  if [ -n "$$($(GO) -C $$dir list -e ./... 2>/dev/null)" ]; then $(GO) -C $$dir build -mod=readonly -o /dev/null ./... && $(GO) -C $$dir vet -mod=readonly ./...; fi; \
	done

# The version that tools/go.mod pins. Go builds it from source, which takes three minutes, and keeps it in its cache outside the repository.
.PHONY: lint
lint: ## the linters of .golangci.yml
	@echo 'golangci-lint: the first run builds it from source (3 minutes); Go keeps it in its build cache'
	$(GO) tool -modfile=tools/go.mod golangci-lint run ./...

.PHONY: size
size: ## lines of the program, long lines, folders, methods of the store and the types with the most methods
	@$(GO) run ./test/size

.PHONY: stress
stress: ## 200,000 dispatches over HTTP against a fleet with faults
	$(GO) test -count=1 -timeout 30m -run TestFleetUnderFaults -v ./internal/scheduler -dispatches 200000

# Tests that `make test` runs in a shorter form. The last compares latencies with their limits: keep the machine idle.
PROVE := $(GO) test -count=1 -timeout 60m -v

.PHONY: prove
prove: redis ## the long forms of the tests: contention, lost replies, failovers, outages, conversations (75 minutes)
	$(PROVE) -run TestStressWithKilledSchedulers ./internal/store/redisstore -stress-operations 1000000 -stress-kills 500
	$(PROVE) -run TestLostReplies ./internal/store/redisstore -lost-replies 10000
	$(PROVE) -run TestLedgerIsLinearizable ./internal/store/redisstore -operations 50000
	$(PROVE) -run TestBrokenLedgersAreCaught ./internal/store/redisstore
	$(PROVE) -run TestFailover ./internal/scheduler -failovers 10
	$(PROVE) -run TestRedisStopped ./internal/scheduler -stop-for 7s
	$(PROVE) -run TestNoRefusalWhileASlotIsFree ./internal/scheduler -shared-jobs 50000
	$(PROVE) -run 'TestTwoInstancesShareAFleet|TestNewStoreIncarnation' ./internal/scheduler
	$(PROVE) -run 'TestReadyMeansEveryNodeIsKnown|TestLosingMostNodesAtOnce' ./internal/scheduler -many-nodes 10000
	$(PROVE) -run TestRandomFaults ./internal/dispatch -chaos-seeds 40
	$(PROVE) -run TestCommandsPerJob ./bench
	$(PROVE) -run 'TestForgedReports|TestHostileLabels' ./internal/server -forgeries 10000 -hostile 20000
	$(PROVE) -run TestCutConnections ./internal/scheduler -cut-for 60s
	$(PROVE) -run TestManyConversations ./bench/conversations -sessions 5000 -nodes 200 -during 2m
	$(PROVE) -run TestSessionIncarnationsStaySeparate ./test/drill -incarnation-steps 20000 -incarnation-names 200
	$(PROVE) -run TestOneSessionTokenHasBoundedCost ./test/drill -abuse-for 10m
	$(PROVE) -run TestInstanceKilled ./test/drill -drill-sessions 1000 -drill-every 5s
	$(PROVE) -run TestWaitingMutantsAreDetected ./test/drill -drill-waiting-mutants
	$(PROVE) -run TestInstanceHangs ./test/drill -drill-hung-sessions 100 -drill-hung-rounds 3
	$(PROVE) -run TestNodeIsKilled ./test/drill -drill-killed-nodes 400
	$(PROVE) -run TestConnectionsFlap ./test/drill -drill-flaps 20
	$(PROVE) -run 'TestNodeFreezes|TestPacketsAreDropped' ./test/drill -drill-frozen-nodes 60
	$(PROVE) -run TestNodesBlock ./test/drill -drill-block 30m
	$(PROVE) -run TestSparseHeartbeats ./test/drill -drill-sparse-nodes 100 -drill-sparse-for 10m
	$(PROVE) -race -parallel 1 ./test/drill
	$(PROVE) -run TestWithoutTheStore ./internal/scheduler -callers 5000 -prompt

# Faults in clusters of processes: test/drill.
DRILL := $(GO) test -count=1 -v ./test/drill

.PHONY: acceptance
acceptance: redis ## the drills on each topology: standalone, Sentinel and a cluster of 3+3 (20 minutes)
	$(DRILL) -timeout 30m -drill-topology standalone -drill-waiting-for 2m
	$(DRILL) -timeout 30m -drill-topology sentinel -drill-waiting-for 2m
	$(DRILL) -timeout 30m -drill-topology cluster -drill-waiting-for 2m

# The duration of make chaos. Observations and logs are kept in bin/_artifacts.
CHAOS ?= 1h

.PHONY: chaos
chaos: redis ## an hour of random faults, with checks that nothing leaks; CHAOS=10m for less, SEED= to repeat a run
	@mkdir -p $(BIN)
	$(DRILL) -timeout 4h -run TestSoak -drill-for $(CHAOS) $(if $(SEED),-drill-seed $(SEED)) -artifacts -outputdir $(abspath $(BIN))

.PHONY: bench-peers
bench-peers: redis ## the lifecycle of a job over Redis compared with task queues, on the same Redis in the same run
	cd bench/peers && $(GO) test -run '^$$' -bench Lifecycle -benchtime 1x -timeout 5m .

.PHONY: bench-cluster
bench-cluster: redis ## the cost of a hop between instances, of each operation in Redis, and the distribution of keys
	$(GO) test -run '^$$' -bench . -skip Traffic -benchtime 1x -timeout 15m ./bench/cluster

.PHONY: bench-fleet
bench-fleet: ## a fleet of 100,000 nodes, 200 directions and 50 pools: registrations, memory, first use, decisions (1 minute); keep the machine idle
	$(GO) test -run '^$$' -bench 'LargeFleet' -benchtime 1x -timeout 10m ./bench

.PHONY: bench-waiting
bench-waiting: redis ## requests that wait for a slot over three instances: shares of tenants, refusals, cost (8 minutes); keep the machine idle
	$(GO) test -count=1 -v -timeout 30m ./bench/waiting -waiting-for 30s

.PHONY: bench-scale
bench-scale: redis ## a model of a day with 100,000 nodes and 1,000,000 sessions, and what waiting costs Redis (30 minutes)
	$(GO) test -count=1 -timeout 120m -v -run TestDay ./bench/scale -scale-nodes 100000 -scale-sessions 1000000 -scale-hour 60s -scale-max-waiting 10000 -scale-window 2000 -scale-survey-every 500 -scale-plot $(CURDIR)/docs/images/scale.svg
	$(GO) test -run '^$$' -bench WaitingCost -benchtime 1x ./bench/scale

.PHONY: bench-traffic
bench-traffic: redis ## commands and bytes between three instances and Redis with 20,000 nodes, and the takeover of an instance (7 minutes); keep the machine idle
	$(GO) test -run '^$$' -bench 'Traffic$$' -benchtime 1x -timeout 20m ./bench/cluster

.PHONY: bench-agreement
bench-agreement: redis ## compare the latencies of `lingua bench` with the metrics of the scheduler over Redis (5 to 13 minutes); keep the machine idle
	$(GO) test -count=1 -timeout 20m -v -run TestMetricsAgree ./bench/agreement -rate 50 -during 2m -within 0.05

.PHONY: bench-guards
bench-guards: redis ## whether work that is not dispatch delays dispatch: ModelHub faults, statistics, storms of reports, heartbeats, failing nodes; and the tree of a retried utterance (25 minutes); keep the machine idle
	$(GO) test -count=1 -timeout 30m -v ./bench/guards -judge -rounds 10 -window 4s -rate 1000 -silent-for 1m -redis
	$(GO) test -count=1 -timeout 10m -v -run TestFailingNode ./internal/scheduler -ejection-for 1m
	$(GO) test -count=1 -timeout 10m -v -run TestStatsLeaderKilled ./test/drill -leader-rounds 5
	$(GO) test -count=1 -timeout 20m -v -run TestHostileLabels ./internal/server -hostile 1000000
	$(GO) test -count=1 -timeout 10m -v -run TestTraceOfARetriedUtterance ./internal/scheduler

.PHONY: bench-dashboard
bench-dashboard: tools ## the dashboard: first paint, longest frame with 10,000 nodes and 100,000 jobs, cost of 50 open ones (15 minutes); keep the machine idle
	$(GO) test -run '^$$' -bench 'FirstPaint|Frames|Server' -benchtime 1x -timeout 30m ./test/dashtest
	$(GO) test -count=1 -timeout 20m -v -run TestBesideDashboards ./bench/guards -judge -rounds 10 -window 4s -rate 1000

.PHONY: screenshots
screenshots: tools ## make the pictures of the README
	$(GO) test -run '^$$' -bench Screenshots -benchtime 1x -timeout 10m ./test/dashtest -pictures $(CURDIR)/docs/images

.PHONY: bench
bench: ## the benchmarks whose results are in docs/benchmarks.md
	$(GO) test -run '^$$' -bench 'Decision$$' -cpu 1 ./bench
	$(GO) test -run '^$$' -bench 'DecisionGrowth' -benchtime 1x -cpu 1 ./bench
	$(GO) test -run '^$$' -bench 'DispatchHTTP|BesideHeartbeats' -benchtime 1x -timeout 20m ./bench
	$(GO) test -run '^$$' -bench 'Lifecycle' ./bench
	$(GO) test -run '^$$' -bench 'Tracing' -benchtime 1x ./bench
	$(GO) test -run '^$$' -bench 'Relay|SlowReaders' -benchtime 1x -timeout 10m ./bench/conversations

# What the benchmarks are compared with: a commit, or a directory with another copy of the repository.
BASE ?= HEAD~1
PAIRS ?= 10

.PHONY: bench-authentication
bench-authentication: ## which part of the CPU time of a dispatch is its authentication, by profile
	$(GO) test -run '^$$' -bench AuthenticationShare -benchtime 6x ./bench
	$(GO) test -run '^$$' -bench Authenticate ./internal/auth

.PHONY: bench-compare
bench-compare: ## make bench on BASE=commit and on this tree, PAIRS=10 times in turn, compared by benchstat
	@GO=$(GO) PAIRS=$(PAIRS) tools/bench-compare.sh $(BASE)

# What is repeated, how often it must pass on one state of the code, and beside how many busy processes.
WHAT ?= test
N    ?= 20
BUSY ?= 0

.PHONY: flake
flake: ## repeat WHAT=test N=20 times beside BUSY=0 busy processes; resumes where it stopped
	@ROUNDS=$(N) BUSY=$(BUSY) tools/flake.sh make --no-print-directory $(WHAT)

.PHONY: bench-pauses
bench-pauses: ## the cost of distinguishing a pause from a stalled connection at 5,000 sessions
	$(GO) test -run '^$$' -bench PauseProbes -benchtime 1x -timeout 15m ./bench/conversations -sessions 5000 -nodes 50 -during 20s

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (30s) each
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "== $$pkg $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; \
	done

# Not part of `make test`: it needs the vulnerability database of Go on the network, and its verdict changes without a change here.
.PHONY: vuln
vuln: ## check the dependencies against the vulnerability database of Go (needs network)
	@tools/vuln.sh

.PHONY: sbom
sbom: build ## list what bin/lingua is made of, with licenses, in bin/lingua.cdx.json (CycloneDX)
	$(TOOLS) run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod bin -json -licenses -std -version "v$$($(BIN)/lingua version | awk 'NR == 1 {print $$2}')" -output $(abspath $(BIN))/lingua.cdx.json $(abspath $(BIN))/lingua

.PHONY: clean
clean: ## remove bin
	rm -rf $(BIN)
