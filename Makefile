# troupe's tasks. `make` lists them. Tools are pinned in tools/go.mod, outside
# the library's own dependencies, and built when they are first used.

GO      ?= go
TOOL     = $(GO) tool -modfile=tools/go.mod
OUT     ?= .
MODULE   = github.com/troupe-dev/troupe
TIME    ?= 30s
COUNT   ?= 10
RUNS    ?= 20000
BACKLOG ?= 20000
LIVE    ?= 2000
SIM     ?= 60s
HOURS   ?= 8
PODS    ?= 1000
MINUTES ?= 60
RATE    ?= 50
EVERY   ?= 1m
PURE     = workflow lifecycle
STAT     = workflow lifecycle persistence/memory actors persistence/postgres cluster/postgres
COVER    = 95
LONG     = ./persistence/postgres ./internal/acceptance ./internal/chaos ./cmd/troupe/internal/doctor

.DEFAULT_GOAL := help
.PHONY: help demo test test-full test-container test-short race lint layers fmt generate generate-messages verify fuzz sim sim-planted sim-many sim-soak chaos chaos-board soak bench bench-once bench-growth bench-lists bench-churn bench-stat bench-baseline bench-compare bench-build cover vuln ci

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

demo: ## build troupe and run the demo on a private PostgreSQL (ARGS="--json")
	$(GO) build -o bin/troupe ./cmd/troupe
	./bin/troupe demo $(ARGS)

test: ## all tests but the longest, on a real PostgreSQL that is found, started or run in a container
	$(GO) vet ./... # compiles on all cores what the next line would on one
	$(GO) test -vet=off -timeout 20m -p 2 $(LONG) ./... # two packages at a time, the longest first: they wait more than they compute, and none judges time

test-full: ## all that tests can do, one package at a time; times are judged; then make chaos; some 40 min, and nothing else may run meanwhile
	TROUPE_TEST_FULL=1 $(GO) test -p 1 -count=1 -timeout 30m -v $$($(GO) list ./... | grep -v /internal/chaos) | grep -vE '^ *(=== |--- PASS)'
	$(MAKE) chaos

test-container: ## the contracts of the store and of the cluster on a PostgreSQL that testcontainers-go runs (needs Docker)
	TROUPE_TEST_POSTGRES=container $(GO) test -count=1 -run '^TestContract$$' ./persistence/postgres
	TROUPE_TEST_POSTGRES=container $(GO) test -count=1 ./cluster/postgres

test-short: ## the tests that need no PostgreSQL
	TROUPE_TEST_POSTGRES=none $(GO) test -short ./...

race: ## all but the long tests, under the race detector
	$(GO) test -race -short . ./internal/acceptance ./actors/... ./cluster ./cluster/local ./examples/... ./internal/clock ./internal/sim/swarm ./lifecycle ./workflow
	$(GO) test -race -short -run Contract ./persistence/memory

lint: ## golangci-lint, in the version of tools/go.mod
	$(TOOL) golangci-lint run ./...

layers: ## references between files of a package that run against its layers (ARGS="-arrows -moves 10")
	$(GO) run -C tools ./layers $(ARGS) ../actors ../persistence/postgres

fmt: ## format the code
	$(TOOL) golangci-lint fmt ./...

generate: generate-messages ## make generated files again (needs protoc)
	$(GO) generate ./...

generate-messages:
	protoc -I $(MODULE)=. --plugin=protoc-gen-go="$$($(TOOL) -n protoc-gen-go)" \
		--go_out=$(OUT) --go_opt=module=$(MODULE) $(addprefix $(MODULE)/,$(wildcard messages/*.proto))

verify: ## generated files are up to date, and the structure is as the rules say
	CI=true $(GO) test -count=1 ./internal/archtest
	$(GO) test -count=1 -run 'Diagram|UpToDate' $$(grep -rlE '^func Test\w*(Diagram|UpToDate)' --include='*_test.go' . | xargs -n 1 dirname | sort -u)

fuzz: ## every fuzz target in turn, TIME=30s each
	@grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed -E 's,^(.*)/[^/]*:[0-9]+:func ,\1 ,' | sort -u | \
	while read -r dir name; do \
		echo "== $$dir $$name"; $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(TIME) "$$dir" || exit 1; \
	done

sim: ## simulated clusters with all faults, for SIM=60s
	$(GO) build -o bin/troupe ./cmd/troupe
	./bin/troupe sim --for $(SIM) --shrink --json

sim-planted: ## the simulation finds every mistake of internal/planted, and nothing without one
	$(GO) build -o bin/troupe ./cmd/troupe
	./bin/troupe sim --seeds 0 --planted --json

sim-many: ## a simulated cluster of PODS=1000 pods: what they cost each other
	TROUPE_TEST_MANY_PODS=$(PODS) $(GO) test -count=1 -v -run ManyPods ./internal/sim

sim-soak: ## make sim for HOURS=8, from other seeds each time; failures are kept in bin/replay
	$(GO) build -o bin/troupe ./cmd/troupe
	./bin/troupe sim --seed $$(date +%s)000 --for $(HOURS)h --shrink --save bin/replay --json

chaos: ## faults on pods and PostgreSQL under load, and the board of what was measured, some 20 min (FAULTS=F07,F25 JSON=1)
	@mkdir -p bin/chaos; rm -f bin/chaos/report; $(GO) test -c -o bin/chaos.test ./internal/chaos
	@cd internal/chaos && TROUPE_TEST_FULL=1 TROUPE_CHAOS_BOARD=$(if $(JSON),json,table) TROUPE_CHAOS_FAULTS="$(FAULTS)" \
		TROUPE_CHAOS_KEEP=$(CURDIR)/bin/chaos TROUPE_CHAOS_REPORT=$(CURDIR)/bin/chaos/report \
		TROUPE_CHAOS_COMMIT=$$(git describe --always --dirty 2>/dev/null) TROUPE_CHAOS_DOCS=$(DOCS) \
		$(CURDIR)/bin/chaos.test -test.parallel 1 -test.timeout 40m 3>&1 1>&2

chaos-board: override FAULTS =
chaos-board: DOCS = 1
chaos-board: chaos ## make chaos of every row, which puts the board into docs unless a row fails; nothing else may run meanwhile

soak: ## MINUTES=60 of mixed load at RATE=50 runs/s, a fault EVERY=1m (SEED=1), and what grows (ARGS=--json)
	@mkdir -p bin/chaos; $(GO) test -c -o bin/soak.test ./internal/chaos
	@cd internal/chaos && TROUPE_CHAOS_KEEP=$(CURDIR)/bin/chaos $(CURDIR)/bin/soak.test -test.run '^TestSoak$$' -test.timeout 0 \
		soak --minutes $(MINUTES) --rate $(RATE) --every $(EVERY) --seed $(or $(SEED),$$(date +%s)) $(ARGS)

bench: ## every benchmark, COUNT=10 times, for benchstat
	$(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) ./...

bench-once: ## every benchmark once, so that none rots
	$(GO) test -run '^$$' -bench . -benchtime 1x $$(grep -rlE '^func Benchmark' --include='*_test.go' --exclude-dir=bench . | xargs -n 1 dirname | sort -u)

bench-growth: ## the same work with RUNS=20000 in history, BACKLOG=20000 waiting, and a transaction open, beside an empty store
	$(GO) test -run '^$$' -bench Growth -benchtime 1x -timeout 0 ./persistence/postgres -args -growth.runs $(RUNS) -growth.backlog $(BACKLOG) -growth.rounds 60 -growth.hold 400

bench-lists: ## lists and counts of runs beside RUNS=20000 in history and LIVE=2000 that go on
	$(GO) test -run '^$$' -bench Lists -benchtime 1x -timeout 0 -v ./persistence/postgres -args -lists.runs $(RUNS) -lists.live $(LIVE) -lists.rounds 100

bench-churn: RATE = 500
bench-churn: MINUTES = 120
bench-churn: ## RATE=500 runs a second come and go for MINUTES=120, beside an empty store after each of PARTS=4 parts
	$(GO) test -run '^$$' -bench Churn -benchtime 1x -timeout 0 ./persistence/postgres -args -churn.time $(MINUTES)m -churn.parts $(or $(PARTS),4) -churn.rate $(RATE) -growth.rounds 200

bench-stat: ## benchmarks of the pure rooms and hot paths beside their baselines in testdata/bench (ROOMS=...)
	@mkdir -p bin/stat; for room in $(or $(ROOMS),$(STAT)); do \
		name=$$(echo $$room | tr / -); \
		$(GO) test -run '^$$' -bench . -benchmem -benchtime 0.2s -count 6 ./$$room >bin/stat/$$name.txt || exit 1; \
		$(TOOL) benchstat "baseline=testdata/bench/$$name.txt" "now=bin/stat/$$name.txt" || exit 1; \
	done

bench-baseline: ## make the results of the last bench-stat the baselines
	for file in bin/stat/*.txt; do grep -E '^(goos|goarch|pkg|cpu|Benchmark)' $$file >testdata/bench/$$(basename $$file); done

bench-compare: ## troupe, its peers and bare SQL side by side (QUICK=1: ≤ 4 min; ARGS="--cases drain")
	@mkdir -p bin; cd bench && $(GO) build -o ../bin/compare . && ../bin/compare $(if $(QUICK),--quick) $(ARGS)

bench-build: ## the comparison, a module of its own, passes lint and its tests
	cd bench && $(GO) tool -modfile=../tools/go.mod golangci-lint run ./... && $(GO) test ./...

cover: ## test coverage of the pure rooms; fails below 95 %
	@mkdir -p bin; for room in $(PURE); do \
		$(GO) test -count=1 -coverprofile=bin/cover.out -coverpkg=./$$room ./$$room >/dev/null || exit 1; \
		total=$$($(GO) tool cover -func=bin/cover.out | awk '/^total:/ {print $$3 + 0}'); rm -f bin/cover.out; \
		echo "$$room $$total %"; \
		awk -v total="$$total" 'BEGIN {exit total < $(COVER)}' || { echo "$$room is below $(COVER) %"; exit 1; }; \
	done

vuln: ## known vulnerabilities in what is linked in (needs a network)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@latest ./...

ci: SIM = 15s
ci: test lint race verify cover bench-once bench-build sim sim-planted ## what .ci/run runs, once it has installed what is missing
