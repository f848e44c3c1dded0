# What CI runs is `make check`; the README's test command is a part of it.

GO ?= go
FUZZ_TIME ?= 30s
SEEDS ?= 20

.PHONY: check build test race chaos python chart lint format vet staticcheck workflowcheck replay limits model mutants random fuzz bench images cluster-test release release-check upgrade-test

check: lint race python chart

build:
	CGO_ENABLED=0 $(GO) build -trimpath -tags disable_grpc_modules -o stint .

test:
	$(GO) test -timeout 2h ./...

# The race detector needs cgo; -short leaves the runs of a million items to `make test`. It is for the packages that
# start goroutines, or lock something, themselves or in their tests. What links the server, and runs whole processes, is
# left out: its goroutines are those of the other packages, and it takes an hour; so are workflows, whose code has none
# and runs in the model. Servers of tests are processes of their own (internal/test/testserver). Tests that take long
# with the detector, and whose like runs with it anyway, are left to `make test` (jobtest.Unraced). The package that
# takes longest comes first.
RACED = $(shell grep -lE '^\s*go [a-z]|\.Go\b|"sync(/atomic)?"' $$(git ls-files '*.go') | sed 's,^,./,; s,/[^/]*$$,,' | sort -u | \
	grep -vE '^\.(/starter|/local|/workflows.*|/internal/(temporal/devserver|test/(mutants|clustertest|testserver.*|randomjobs))|/examples/.*|/bench.*|/deploy/.*)?$$')
race:
	GORACE=atexit_sleep_ms=10 CGO_ENABLED=1 $(GO) test -race -short -vet=off -timeout 40m ./worker $(filter-out ./worker,$(RACED))

# Whole systems whose parts fail at random, with real processes: SEEDS rounds, each with another
# seed, which is logged; STINT_TEST_SEED=… SEEDS=1 repeats one.
chaos:
	STINT_CHAOS_SEEDS=$(SEEDS) $(GO) test -run TestChaos -v -parallel 3 -timeout 3h ./starter

# The Python helper and its example, with the system's Python (3.9 or later).
python:
	python3 -m unittest discover -s python
	python3 -m unittest discover -s examples/naivebayes

# The Helm chart, the alert rules and the dashboard, with Helm's, Kubernetes', KEDA's and Prometheus' own code: a module of its own. -golden
# writes what the chart renders (deploy/helm/test/testdata).
chart:
	cd deploy/helm/test && GOFLAGS= $(GO) vet . && $(GO) test -count=1 . $(CHART_FLAGS)

lint: format vet staticcheck workflowcheck

format:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; fi

vet:
	$(GO) vet ./...
	$(GO) vet -tags noserver,nofastjson ./cmd/stint-worker
	GOOS=darwin $(GO) vet ./timers ./internal/run/child ./internal/run/guard ./internal/base/procs ./internal/base/disk ./internal/data/store/local ./internal/data/store/object

staticcheck:
	$(GO) tool staticcheck ./...

# Finds what is not deterministic in workflow code.
workflowcheck:
	$(GO) tool workflowcheck -test=false -config .workflowcheck.yml ./workflows/...

# Histories of earlier versions must replay with today's workflows.
replay:
	$(GO) test -run Replay ./workflows

# Breaks the code at places that decide whether items are lost or counted twice, and runs the quick tests that must notice: some ten
# minutes on two processors.
mutants:
	$(GO) run ./internal/test/mutants

# The program of an earlier commit and that of today, with a version of the logic more, side by side: workers and server are replaced while jobs run,
# there and back, and a change without a gate is noticed. Histories of earlier versions replay with the next one's workflows.
upgrade-test:
	$(GO) test -tags disable_grpc_modules,nextlogic -count=1 -run Replay ./workflows
	STINT_UPGRADE=long $(GO) test -count=1 -v -timeout 30m ./internal/test/upgrade

# No run of a workflow comes near a limit of Temporal, however many batches a job has: some ten
# minutes for a million. `make test` does the same with 20,000. Nor does one of a feed, after
# ten million exchanges: some two hours.
LIMITS_BATCHES ?= 1000000
LIMITS_EXCHANGES ?= 10000000
LIMITS_PARTS ?= 0 1 2 3 4 5 6 7
limits:
	for part in $(LIMITS_PARTS); do \
		STINT_LIMITS_BATCHES=$(LIMITS_BATCHES) STINT_LIMITS_PART=$$part/$(words $(LIMITS_PARTS)) \
		$(GO) test -count=1 -timeout 60m -v -run '^TestLimits$$' ./workflows || exit 1; \
	done
	$(GO) test -count=1 -v -run '^TestLimits_' ./workflows
	for part in $$(seq 40); do \
		STINT_LIMITS_EXCHANGES=$$(($(LIMITS_EXCHANGES) / 40)) \
		$(GO) test -count=1 -timeout 120m -v -run '^TestLimits_Feed$$' ./workflows || exit 1; \
	done

# At least a hundred times the schedules of `make test`, and others: a million of faults over plan, process, commit, finish and redrive,
# 300,000 of pipelines, as many of feeds, and 200,000 of feeds with pipelines; and a million of the workflows themselves, over hand-overs,
# continue-as-new, stops and terminations: 800,000 of jobs, the others of pipelines and feeds. Those of the workflows take some 10 to 25 ms
# of a processor each: all of it takes some three hours on two cores. Parts of it, such as SCHEDULES=250000, each begin with a new seed.
SCHEDULES ?= 1000000
model:
	STINT_MODEL=$(SCHEDULES) $(GO) test -count=1 -v -timeout 24h -run '^TestModel' ./internal/test/modeltest

# Random jobs of `stint run`, for so long, from a seed that is printed; the simplest job that fails is printed as a command. As root, disks
# are filled up, too. RANDOM_FLAGS='-seed 4711 -jobs 1' repeats one.
FOR ?= 1h
random:
	$(GO) run ./internal/test/randomjobs -for $(FOR) $(RANDOM_FLAGS)

# The images that docker-compose.yml and the Dockerfile name, without a registry: see deploy/images/README.md.
images:
	deploy/images/build.sh

# Jobs on a cluster whose parts fail: hosts, networks, PostgreSQL, Temporal, workers. As root, with Debian's packages postgresql and iproute2:
# some thirty minutes on two processors. CI runs some of it with 100,000 lines. CLUSTER_FLAGS='-only PostgreSQL' runs some scenarios; with
# -weed .stint/images/weed, which `make images` leaves there, the bucket is SeaweedFS, which has to be for lines by the million.
LINES ?= 10000000
cluster-test:
	$(GO) run ./internal/test/clustertest -long -items $(LINES) $(CLUSTER_FLAGS)

fuzz:
	$(GO) test -run XXX -fuzz 'FuzzCut$$' -fuzztime $(FUZZ_TIME) ./internal/data/records
	$(GO) test -run XXX -fuzz 'FuzzCutCSV$$' -fuzztime $(FUZZ_TIME) ./internal/data/records
	$(GO) test -run XXX -fuzz 'FuzzValid$$' -fuzztime $(FUZZ_TIME) ./internal/data/records
	$(GO) test -run XXX -fuzz 'FuzzValue$$' -fuzztime $(FUZZ_TIME) ./internal/base/jsonscan
	$(GO) test -run XXX -fuzz 'FuzzDecode$$' -fuzztime $(FUZZ_TIME) ./internal/base/codec
	$(GO) test -run XXX -fuzz 'FuzzEncode$$' -fuzztime $(FUZZ_TIME) ./internal/base/codec
	$(GO) test -run XXX -fuzz 'FuzzResults$$' -fuzztime $(FUZZ_TIME) ./internal/run/frames
	$(GO) test -run XXX -fuzz 'FuzzCall$$' -fuzztime $(FUZZ_TIME) ./internal/run/frames
	$(GO) test -run XXX -fuzz 'FuzzReader$$' -fuzztime $(FUZZ_TIME) ./internal/run/frames

bench:
	$(GO) run ./bench

# All that a release consists of, in dist/, made from the commit that is checked out (CONTRIBUTING.md). release-check makes it
# twice, the second time from a copy elsewhere, and compares.
release:
	$(GO) run ./internal/release -version $(VERSION)

release-check:
	$(GO) run ./internal/release -version $(VERSION) -check
