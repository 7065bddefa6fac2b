# Everything a contributor runs. `make` alone explains it.

SHELL       := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory --no-builtin-rules
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# IMG is the operator's image. The default exists on the local cluster only.
IMG       ?= platform-operator:dev
NAMESPACE ?= platform-operator-system
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# GO_TEST_FLAGS reach every go test: GO_TEST_FLAGS='-race -run TestX -v'.
GO_TEST_FLAGS ?=
# PKG is a package, or several, for test-unit and test-envtest instead of all.
PKG ?=
# RUN_FLAGS reach make run: RUN_FLAGS='--config platform.yaml --log-level debug'.
RUN_FLAGS ?=
# HELM_FLAGS reach make install: HELM_FLAGS='-f charts/platform-operator/values-production.yaml'.
HELM_FLAGS ?=
# CLUSTER=current takes your own kubeconfig everywhere instead of the local cluster.
# make release writes, and make release-push pushes, REGISTRY/platform-operator and
# REGISTRY/charts/platform-operator. SIGN_KEY is a key of ssh-keygen that signs.
REGISTRY ?= ghcr.io/platform-operator
SIGN_KEY ?=
# REPLACES is the version that the Operator Lifecycle Manager upgrades from.
REPLACES ?=
export CLUSTER VERSION IMG NAMESPACE REGISTRY SIGN_KEY REPLACES

GOLANGCI_LINT_VERSION := v2.15.0
CYCLONEDX_VERSION     := v1.10.0
ACTIONLINT_VERSION    := v1.7.12
HELM3_VERSION         := v3.22.0
GOVULNCHECK_VERSION   := v1.8.0
# Outside of the checkout, so that a fresh clone is warm; by version, so that
# two checkouts do not fight.
TOOLS         := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/platform-operator/tools
GOLANGCI_LINT := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION)/golangci-lint
CYCLONEDX     := $(TOOLS)/cyclonedx-gomod-$(CYCLONEDX_VERSION)/cyclonedx-gomod
ACTIONLINT    := $(TOOLS)/actionlint-$(ACTIONLINT_VERSION)/actionlint
HELM3         := $(TOOLS)/helm-$(HELM3_VERSION)/helm
GOVULNCHECK   := $(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION)/govulncheck

# Without e2e/cluster/hyperkube, a hundred lines that pull in all of Kubernetes:
# linting those takes ten minutes.
MODULES   := . e2e/cluster e2e/gitops hack/licenses hack/promrules hack/release
CHART     := charts/platform-operator
# What differs from this commit is linted by make check.
BASE ?= $(or $(shell git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null),HEAD)
# The files that git does not ignore, committed or not, as the hash of a tree.
tree = mkdir -p bin && cp "$$(git rev-parse --git-path index)" bin/verify.index && \
	GIT_INDEX_FILE='$(CURDIR)/bin/verify.index' git add --all && GIT_INDEX_FILE='$(CURDIR)/bin/verify.index' git write-tree

# Programs, tests and linters are compiled alike, and independent of the folder: so a package
# is compiled once, and a new clone finds it in Go's cache. The linker drops DWARF (-s -w), so
# the compiler does not write it. The race detector needs cgo.
GOFLAGS := $(strip $(filter-out -trimpath -gcflags=all=-dwarf=false,$(shell go env GOFLAGS)) -trimpath -gcflags=all=-dwarf=false)
export GOFLAGS
ifeq ($(findstring -race,$(GO_TEST_FLAGS)),)
export CGO_ENABLED := 0
endif

# The same commit gives the same bytes: no paths, no times. make reproducible
# is the proof, and the Dockerfile runs make build.
GO_BUILD := CGO_ENABLED=0 go build -buildvcs=false \
	-ldflags "-s -w -X github.com/platform-operator/platform-operator/pkg/version.Version=$(VERSION)"

# Colour only on a terminal, and never where NO_COLOR is set.
ifneq ($(and $(MAKE_TERMOUT),$(if $(NO_COLOR),,yes)),)
BOLD := $(shell printf '\033[1m')
CYAN := $(shell printf '\033[36m')
OFF  := $(shell printf '\033[0m')
endif
STARTED := $(shell date +%s)
# say announces a step, with the seconds since make started.
say = @printf '$(BOLD)==> %4ds  %s$(OFF)\n' "$$(($$(date +%s) - $(STARTED)))" $(1)

# Folders with tests behind a build tag: they need more than Go.
tagged = $(sort $(dir $(shell grep -rlE '^//go:build $(1)$$' --include='*_test.go' --exclude-dir=e2e .)))

IMG_TAG        = $(lastword $(subst :, ,$(IMG)))
IMG_REPOSITORY = $(IMG:%:$(IMG_TAG)=%)
# The tag dev names another image after each build: its digest rolls the pods.
IMG_DIGEST     = $(if $(filter platform-operator:dev,$(IMG)),$(shell cat bin/platform-operator.digest 2>/dev/null))
# The Go that is here, so that the image has the bytes of make build.
BUILD_IMAGE ?= golang:$(patsubst go%,%,$(shell go env GOVERSION))
ENGINE ?= $(firstword $(foreach e,docker podman buildah,$(if $(shell command -v $(e)),$(e))))

##@ Start here

.PHONY: help
help: ## Print this
	@awk 'BEGIN {FS = ":.*## "; \
		printf "Usage: make $(CYAN)TARGET$(OFF) [VARIABLE=value]\n"} \
		/^##@ / {printf "\n$(BOLD)%s$(OFF)\n", substr($$0, 5)} \
		/^[a-z][a-z0-9-]*:.*## / {printf "  $(CYAN)%-22s$(OFF) %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@printf '%s\n' '' '$(BOLD)Variables$(OFF)' \
		'  $(CYAN)IMG$(OFF)             the image for install, deploy, image-push: registry/name:tag (now $(IMG))' \
		'  $(CYAN)CLUSTER=current$(OFF) work on the cluster of your kubeconfig, not on the local one' \
		'  $(CYAN)PKG$(OFF)             the packages for test-unit and test-envtest: PKG=./pkg/apply' \
		'  $(CYAN)GO_TEST_FLAGS$(OFF)   for every go test: GO_TEST_FLAGS="-run TestX -v"' \
		'  $(CYAN)SCALE$(OFF)           how many WebServers bench-scale creates' \
		'  $(CYAN)RUN_FLAGS$(OFF)       flags of the operator for run: RUN_FLAGS="--log-level debug"' \
		'' 'A first look: make demo. While you work: make check. Before a pull request: make verify test.'

.PHONY: demo
demo: build bin/cluster ## Local cluster, operator and a WebServer; takes a look at it, and leaves it running
	@e2e/demo.sh

.PHONY: demo-down
demo-down: cluster-down ## Remove all of that

##@ Change

.PHONY: generate
generate: ## Write what is generated from apis/, controllers/, webhooks/ and pkg/
	$(call say,'generating code and manifests')
	@rm -rf config/crd/bases $(CHART)/files
	@go tool controller-gen object paths="./apis/...;./pkg/resources/monitoring;./pkg/testkit/redirect/..."
	@go tool controller-gen crd paths=./apis/... output:crd:dir=config/crd/bases
	@go tool controller-gen crd paths=./pkg/testkit/redirect/... output:crd:dir=pkg/testkit/redirect/crd
	@# Kubernetes' maps of quantities have no bound on their length, and without
	@# one the API server reckons that a rule about them costs too much.
	@sed -i '/^ *- type: string$$/{n;s/^\( *\)pattern: ^(.+|-)?(.*$$/\1maxLength: 32\n&/}' config/crd/bases/*.yaml
	@# Descriptions of both versions would not fit into the annotation in which kubectl apply and
	@# Argo CD keep a CRD: kubectl explain describes fields in the newest version only, and the
	@# elements of a list or a map, whose field has a description, in none.
	@for crd in config/crd/bases/*.yaml; do \
		awk '/^    name: /{old=/v1beta1/} {match($$0,/^ */);n=RLENGTH} skip&&n>at{next} {skip=0} n<=of{of=0} /^ *(items|additionalProperties):$$/{of=n} \
			(old&&n>8||of&&n==of+2)&&/^ *description: [^ ]/{skip=1;at=n;next} {print}' $$crd >$$crd.short && mv $$crd.short $$crd || exit; \
	done
	@go tool controller-gen rbac:roleName=platform-operator-manager paths="./controllers/...;./pkg/..." output:rbac:dir=config/rbac
	@go tool controller-gen webhook paths=./webhooks/... output:webhook:dir=config/webhook
	@# A placeholder, which the chart and config/default replace: tests have no such account.
	@sed -i 's/^  matchConditions:$$/&\n  - expression: "true"\n    name: installed/' config/webhook/manifests.yaml
	@mkdir -p $(CHART)/files/crds
	@cp config/crd/bases/*.yaml $(CHART)/files/crds/
	@for kind in $(notdir $(patsubst %/controller.go,%,$(wildcard controllers/*/controller.go))); do \
		go tool controller-gen rbac:roleName=$$kind,fileName=$$kind.yaml paths=./controllers/$$kind output:rbac:dir=$(CHART)/files/roles || exit; \
	done
	@cp config/webhook/manifests.yaml $(CHART)/files/webhooks.yaml
	@cp config/policy/policies.yaml $(CHART)/files/policies.yaml
	@go run ./hack/apidocs docs/api
	@go run ./hack/messages docs/conditions.md
	@go run ./hack/observability .
	@go -C hack/licenses run . $(CURDIR) ./cmd/platform-operator $(CURDIR)/THIRD_PARTY_LICENSES

.PHONY: build
build: ## Build bin/platform-operator and the plugin bin/kubectl-platform, static and reproducible
	$(call say,'building bin/platform-operator and bin/kubectl-platform $(VERSION)')
	@rm -f bin/kubectl-platform
	@$(GO_BUILD) -o bin/ ./cmd/...
	@ln -sf kubectl-platform bin/kubectl_complete-platform

# Packages whose tests compare with golden files. All use pkg/testkit/golden.
golden = $(shell go list -f '{{range .TestImports}}{{if eq . "$(GOLDEN_PACKAGE)"}}{{$$.ImportPath}}{{end}}{{end}}' ./...)
GOLDEN_PACKAGE := github.com/platform-operator/platform-operator/pkg/testkit/golden

.PHONY: update-golden
update-golden: bin/cluster ## Rewrite golden files; read the diff before you commit it
	@go test $(golden) -update
	@assets="$$(bin/cluster assets)"; HELM="$$(bin/cluster tool helm)" KUBEBUILDER_ASSETS="$$assets" \
		go test -tags=chart ./charts -run '^TestGolden$$' -update

.PHONY: admission
admission: ## Write bin/admission.md, tables of all rules of admission
	@mkdir -p bin
	@go test -count=1 ./webhooks/admissiontest/corpus -run '^TestDocumentation_Tables$$' -tables '$(CURDIR)/bin/admission.md'
	@echo bin/admission.md

.PHONY: tidy
tidy: ## Write go.mod and go.sum of every module
	@for m in $(MODULES) e2e/cluster/hyperkube e2e/cluster/tools e2e/cluster/traefik e2e/cluster/olm e2e/engines e2e/http3; do go -C $$m mod tidy; done

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## Format all Go code
	@for m in $(MODULES); do (cd $$m && $(GOLANGCI_LINT) fmt); done

##@ Check

.PHONY: check
check: $(GOLANGCI_LINT) ## Build, vet, unit tests, and lint of the packages that differ from main
	$(call say,'go build and go vet')
	@go build ./...
	@go vet -tags=chart,e2e,envtest ./...
	@$(MAKE) test-unit
	$(call say,'lint of what differs from $(BASE)')
	@changed="$$({ git diff --name-only --diff-filter=d $(BASE) -- '*.go'; git ls-files --others --exclude-standard -- '*.go'; } | \
			sed '/\/testdata\//d' | xargs -r -n1 dirname | sort -u)"; \
		for m in $(MODULES); do \
			packages=; \
			for d in $$changed; do \
				in=$$d; until [ -f "$$in/go.mod" ]; do in=$$(dirname "$$in"); done; \
				[ "$$in" != $$m ] || packages+=" ./$$(realpath --relative-to=$$m "$$d")"; \
			done; \
			[ -z "$$packages" ] || (cd $$m && $(GOLANGCI_LINT) run $$packages); \
		done

# GOGC: a third less CPU for some hundred MiB more. nice: in CI it takes what tests leave.
.PHONY: lint
lint: $(GOLANGCI_LINT) $(ACTIONLINT) bin/cluster ## Run golangci-lint in every module, and lint the prose (docs/style.md), the workflows and the chart
	@for m in $(MODULES); do \
		printf '$(BOLD)==> %4ds  lint %s$(OFF)\n' "$$(($$(date +%s) - $(STARTED)))" $$m; \
		(cd $$m && GOGC=1000 nice -n 15 $(GOLANGCI_LINT) run); done
	$(call say,'lint comments and documentation')
	@go run ./hack/prose
	@$(ACTIONLINT) .github/workflows/*.yaml
	$(call say,'lint the chart')
	@for values in values.yaml values-production.yaml; do \
		"$$(bin/cluster tool helm)" lint --strict --quiet $(CHART) -f $(CHART)/$$values; done

.PHONY: size
size: ## Print how many lines, facts, complex functions and words there are, and the goals
	@hack/size.sh

.PHONY: verify
verify: ## Generate, format and tidy; fail if that changes a file; then lint everything and compare two builds
	@$(MAKE) verify-files
	@$(MAKE) lint reproducible

# Only the operator's module is tidied: tidying the others downloads what the tests of
# all their dependencies need, and go build fails if their go.mod lacks a module.
.PHONY: verify-files
verify-files: ## Generate, format and tidy; fail if that changes a file
	@before="$$($(tree))"; \
		$(MAKE) generate fmt; \
		go mod tidy; \
		git --no-pager diff --exit-code "$$before" "$$($(tree))" || { \
			echo 'make verify has written the files above: look at the changes and commit them' >&2; exit 1; }

.PHONY: reproducible
reproducible: ## Build in two folders, as here and as for the image, and compare the bytes
	$(call say,'is the build reproducible?')
	@e2e/reproducible.sh

# Not a part of verify: it asks a database on the network, and answers differently every day.
.PHONY: vulncheck
vulncheck: $(GOVULNCHECK) ## Ask vuln.go.dev for known vulnerabilities in what we call
	$(call say,'known vulnerabilities')
	@out="$$($(GOVULNCHECK) ./cmd/... 2>&1)" && rc=0 || rc=$$?; case "$$out" in \
		*'fetching vulnerabilities'*) echo 'cannot reach the database of vulnerabilities, https://vuln.go.dev: run this where it can be reached' >&2;; \
		*) printf '%s\n' "$$out";; esac; exit $$rc

# The tests against API servers follow those on the cluster. Linux shares the processors among
# sessions, and each container and daemon of the cluster is one (sched_autogroup): an API
# server of the session of make then needs more than its 34 s for a CRD, instead of 0.8.
.PHONY: test
test: bin/cluster bin/sharedserver ## Run all tests
	@$(MAKE) --jobs=2 --output-sync=line test-e2e test-unit WHOLE=1
	@$(MAKE) --jobs=2 --output-sync test-envtest test-chart WHOLE=1

# With WHOLE, as in make test, packages that have tests against an API server are tested
# by test-envtest alone, all tests of a package by one program: each costs seconds to build.
WHOLE ?=

# The package that takes longest, webhooks, is first, so that no processor is idle at
# the end. -count=1: Go caches results by the files of a module, and tests of the others
# read files of this one.
.PHONY: test-unit
test-unit: ## Tests that need only Go
	$(call say,'unit tests')
	@go test $(GO_TEST_FLAGS) $(or $(PKG),$(if $(WHOLE),$$(go list ./webhooks/... ./... | grep -vxF "$$(go list $(call tagged,envtest))"),./webhooks/... ./...))
	@$(if $(PKG),,for m in $(filter-out .,$(MODULES)); do go -C $$m test -count=1 $(GO_TEST_FLAGS) ./...; done)

# What is found is written to webhooks/testdata/fuzz, and tried by every go test from then on.
.PHONY: campaign-fuzz
campaign-fuzz: FUZZTIME ?= 10m
campaign-fuzz: bin/cluster ## Search for what breaks admission: FUZZTIME=10m for each target
	@for f in FuzzAdmission FuzzSchemaAndGoAgree FuzzPodsKeepTheirProfile FuzzWhatWeAdmitKubernetesAdmits; do \
		printf '$(BOLD)==> %4ds  %s$(OFF)\n' "$$(($$(date +%s) - $(STARTED)))" $$f; \
		KUBEBUILDER_ASSETS="$$(bin/cluster assets)" go test -tags=envtest -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -parallel 1 ./webhooks/; done

# -count=1: Go caches results by what the test reads, and does not see what helm reads.
# Some tests wait for API servers, so more of them run in parallel than there are
# processors.
.PHONY: test-chart
test-chart: bin/cluster ## The chart and config/: the same, valid, and accepted by a real API server
	$(call say,'tests of the chart and of config/')
	@assets="$$(bin/cluster assets)"; HELM="$$(bin/cluster tool helm)" KUBECTL="$$assets/kubectl" KUBEBUILDER_ASSETS="$$assets" \
		go test -tags=chart -count=1 -parallel=4 $(GO_TEST_FLAGS) ./charts/

# Only the tests in files with the tag, because test-unit runs the others, unless WHOLE is
# set. Most of them wait for the operator rather than compute, so more of them run in parallel
# than there are processors. Each of two packages at a time has a server.
envtests = $(shell grep -rlE '^//go:build envtest$$' --include='*_test.go' --exclude-dir=e2e . | xargs sed -n 's/^func \(\(Test\|Fuzz\)[A-Za-z0-9_]*\).*/\1/p' | sort -u | paste -sd '|')

.PHONY: test-envtest
test-envtest: bin/cluster bin/sharedserver ## Tests against a real API server, without nodes
	$(call say,'tests against an API server')
	@KUBEBUILDER_ASSETS="$$(bin/cluster assets)" bin/sharedserver -servers 2 config/crd/bases go test -tags=envtest -p 2 -parallel=6 -timeout=20m $(if $(WHOLE),,-run '^($(envtests))$$') \
		$(GO_TEST_FLAGS) $(or $(PKG),$(call tagged,envtest))

# make test has a part of each: the scenarios whose writes are in another order, and one field of sixteen.
.PHONY: campaign-crash
campaign-crash: bin/cluster bin/sharedserver ## All scenarios of crashes, and the drift of every field; 4 minutes
	$(call say,'crashes at every write and drift of every field')
	@CRASH=all DRIFT=all KUBEBUILDER_ASSETS="$$(bin/cluster assets)" bin/sharedserver -servers 2 config/crd/bases \
		go test -tags=envtest -count=1 -p 2 -parallel=6 -timeout=40m -run '^TestCrash|RestoresEveryStatedField|^TestCampaign_FindsPlantedBugs$$' $(GO_TEST_FLAGS) ./controllers/... ./pkg/testkit/redirect ./pkg/testkit/crash

# Chains are random: MODEL_SEED, which a failure prints, chooses them.
.PHONY: test-model
test-model: MODEL_TIME ?= 90s
test-model: bin/cluster ## Random chains of operations against a model: MODEL_TIME=90s (docs/contributing/model-testing.md)
	$(call say,'random chains of operations')
	@MODEL_TIME=$(MODEL_TIME) KUBEBUILDER_ASSETS="$$(bin/cluster assets)" go test -tags=envtest -count=1 -timeout=30m $(GO_TEST_FLAGS) ./pkg/testkit/model

# MODEL_KINDS, MODEL_SEED, MODEL_WORKERS and MODEL_CHAIN: see docs/contributing/model-testing.md.
.PHONY: campaign-model
campaign-model: MODEL_TIME ?= 1h
campaign-model: bin/cluster ## Random chains of operations against a model: MODEL_TIME=2h
	@MODEL_TIME=$(if $(MODEL_CHAIN),,$(MODEL_TIME)) KUBEBUILDER_ASSETS="$$(bin/cluster assets)" \
		go test -tags=envtest -count=1 -timeout=0 -v -run '^Test(Campaign|Chain$(if $(MODEL_CHAIN),,|Chain_Regressions))$$' $(GO_TEST_FLAGS) ./pkg/testkit/model

# Most of these tests wait for pods rather than compute, so more of them run in
# parallel than there are processors. Tests under load, or that restart the
# operator, do not call t.Parallel, and run before all others.
.PHONY: test-e2e
test-e2e: bin/cluster ## What a user can see, on a real cluster
	$(call say,'starting the cluster')
	@$(MAKE) e2e-cluster
	$(call say,'end-to-end tests')
	@go test -tags=e2e -count=1 -timeout=40m -parallel=8 -exec '$(CURDIR)/bin/cluster exec --' $(GO_TEST_FLAGS) ./e2e/

.PHONY: campaign-e2e
campaign-e2e: ## All end-to-end tests, and which permissions the operator has used; 20 minutes
	@CAMPAIGN=e2e $(MAKE) test-e2e

.PHONY: campaign-helm3
campaign-helm3: bin/cluster $(HELM3) ## The tests of the chart with Helm 3
	$(call say,'tests of the chart with Helm $(HELM3_VERSION)')
	@assets="$$(bin/cluster assets)"; HELM=$(HELM3) KUBECTL="$$assets/kubectl" KUBEBUILDER_ASSETS="$$assets" \
		go test -tags=chart -count=1 -parallel=4 $(GO_TEST_FLAGS) ./charts/

.PHONY: campaign-versions
campaign-versions: VERSIONS ?= v1.35.4 v1.36.3 v1.37.2
campaign-versions: bin/cluster ## The end-to-end tests on each of VERSIONS of Kubernetes; 10 minutes for each, and as long again to build it the first time
	@for v in $(VERSIONS); do \
		printf '$(BOLD)==> %4ds  Kubernetes %s$(OFF)\n' "$$(($$(date +%s) - $(STARTED)))" $$v; \
		rc=0; CLUSTER_NAME=versions CLUSTER_KUBERNETES=$$v $(MAKE) test-e2e || rc=$$?; \
		CLUSTER_NAME=versions CLUSTER_KUBERNETES=$$v bin/cluster down; [ $$rc = 0 ]; done

# VitePress reads a copy of the pages, because it looks for its packages in the folders above them.
.PHONY: site
site: SITE_BASE ?= /
site: bin/site/node_modules ## The documentation as a web site, in bin/site/dist; needs Node.js 20 or newer
	@cp docs/site/*.m*s bin/site/ && mkdir -p bin/site/.vitepress && mv bin/site/config.mts bin/site/.vitepress/
	@rm -rf bin/site/pages && mkdir bin/site/pages
	@git ls-files -z -- '*.md' | grep -zv /testdata/ | xargs -0 cp --parents -t bin/site/pages
	$(call say,'building the site')
	@cd bin/site && SITE_BASE=$(SITE_BASE) npx vitepress build --outDir dist

bin/site/node_modules: docs/site/package-lock.json
	$(call say,'installing the packages of the site')
	@mkdir -p bin/site && cp docs/site/package*.json bin/site/
	@npm ci --prefix bin/site --ignore-scripts --no-audit --no-fund
	@touch $@

.PHONY: campaign-site
campaign-site: site ## Each page of the site in Chromium: links, anchors, diagrams, the search, no error; 2 minutes
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; }
	$(call say,'opening each page')
	@cd bin/site && CHROMIUM="$$(command -v chromium)" node check.mjs dist '$(CURDIR)' '$(CURDIR)/docs/site/testdata'

.PHONY: campaign-gitops
campaign-gitops: bin/cluster ## The engines of Argo CD and Flux: no difference after defaults, scaling and rollbacks; pruning in each cascade mode; 15 minutes
	$(call say,'starting the cluster')
	@$(MAKE) e2e-cluster HELM_FLAGS='$(HELM_FLAGS) -f e2e/engines/values.yaml'
	$(call say,'Argo CD and Flux')
	@go -C e2e/engines test -tags=e2e -count=1 -timeout=40m -parallel=12 -exec '$(CURDIR)/bin/cluster exec --' $(GO_TEST_FLAGS) -v ./...

# OPERATOR_TESTS selects some.
.PHONY: campaign-operator
campaign-operator: OPERATOR_TESTS ?= ^(TestOperator_|TestPrometheus_|TestDrain_|TestDocumentation_CommandsRun)
campaign-operator: bin/cluster build ## What make test shows without a cluster: watched namespaces, a CRD, the certificate and the Lease deleted, Prometheus, drains; the commands of the documentation
	$(call say,'starting the cluster')
	@$(MAKE) e2e-cluster
	@[ "$$CLUSTER" = current ] || bin/cluster addon --build-only prometheus
	$(call say,'end-to-end tests of the operator')
	@CAMPAIGN=1 go test -tags=e2e -count=1 -timeout=40m -exec '$(CURDIR)/bin/cluster exec --' $(GO_TEST_FLAGS) -run '$(OPERATOR_TESTS)' -v ./e2e/

# OPERATIONS_BEFORE is the commit of the version before. OPERATIONS='upgrade|clock' selects
# some, and writes no table. The clock of an operator is the function time.Now of its own
# Go, of which all its packages are compiled again the first time.
.PHONY: campaign-operations
campaign-operations: OPERATIONS_BEFORE ?= 407a3452844ebb892e1255171321a061028c3c4b
campaign-operations: bin/cluster ## For how long nothing is admitted, and what users notice, whatever is done to the operator: writes docs/contributing/incidents.md; 20 minutes, and 5 more the first time
	$(call say,'building the version before and operators with other clocks')
	@rm -rf bin/operations; mkdir -p bin/operations/before
	@git archive $(OPERATIONS_BEFORE) | tar -x -C bin/operations/before
	@cd bin/operations/before && $(GO_BUILD) -o ../ ./cmd/platform-operator && mv ../platform-operator ../operator-before
	@clock="$$(go env GOROOT)/src/time/time.go"; \
		{ sed '/^func Now() Time/,/^}/s/:= runtimeNow()$$/&\n\tsec += int64(clockShift)/' "$$clock"; \
			printf '%s\n' 'var clockSeconds string' '' 'var clockShift, _ = atoi(clockSeconds)'; } >bin/operations/time.go; \
		printf '{"Replace": {"%s": "%s"}}' "$$clock" "$(CURDIR)/bin/operations/time.go" >bin/operations/clock.json
	@for clock in ahead=86400 behind=-86400; do $(GO_BUILD) -overlay bin/operations/clock.json -ldflags "-s -w -X time.clockSeconds=$${clock#*=}" \
		-o bin/operations/operator-$${clock%=*} ./cmd/platform-operator; done
	$(call say,'starting the cluster')
	@$(MAKE) e2e-cluster
	@for tag in before ahead behind; do bin/cluster load platform-operator:$$tag --binary bin/operations/operator-$$tag --entrypoint /platform-operator; done
	@rc=0; CAMPAIGN=operations go test -tags=e2e -count=1 -timeout=40m -exec '$(CURDIR)/bin/cluster exec --' $(GO_TEST_FLAGS) -run '^TestCampaignOperations$$' -v ./e2e/ || rc=$$?; \
		rm -rf bin/operations; exit $$rc

# ATTACKS='headers|bodies' selects some, and writes no table.
.PHONY: campaign-hostile
campaign-hostile: bin/cluster ## Attack the operator from pods, while ordinary requests are sent: writes docs/contributing/incidents.md; 10 minutes
	$(call say,'starting the cluster')
	@$(MAKE) e2e-cluster
	@bin/cluster addon --build-only prometheus
	@CGO_ENABLED=0 go build -o bin/hostile ./e2e/hostile
	@bin/cluster load hostile:1 --binary bin/hostile
	$(call say,'attacks')
	@CAMPAIGN=hostile go test -tags=e2e -count=1 -timeout=30m -exec '$(CURDIR)/bin/cluster exec --' $(GO_TEST_FLAGS) -run '^TestCampaignHostile$$' -v ./e2e/

.PHONY: campaign-production
campaign-production: ## All end-to-end tests with the values for production, admission policies included; 20 minutes
	@CAMPAIGN=e2e $(MAKE) test-e2e HELM_FLAGS="-f $(CHART)/values-production.yaml -f e2e/values-production.yaml $(HELM_FLAGS)"

# make test checks that each CEL rule is needed by a spec of the corpus; this removes the
# statements in Go that refuse something.
.PHONY: campaign-admission
campaign-admission: ## Remove each statement in Go that refuses something: a case of the corpus must notice; some minutes
	$(call say,'admission without each of its statements')
	@CAMPAIGN=1 go test -count=1 -timeout=2h $(GO_TEST_FLAGS) -run '^TestCampaign|^TestDefaults_' -v ./webhooks/admissiontest/corpus/

.PHONY: campaign-rbac
campaign-rbac: bin/cluster ## Remove each permission of the operator in turn: a request must be refused for it; some minutes
	$(call say,'the operator without each of its permissions')
	@KUBEBUILDER_ASSETS="$$(bin/cluster assets)" go test -tags=envtest -count=1 -timeout=60m $(GO_TEST_FLAGS) -run '^TestRBAC_EachPermissionIsNeeded$$' -v ./controllers/ -all-permissions

# A short slice of it is a part of make test-e2e. INCIDENTS='webhook|node' selects some,
# and writes no table.
.PHONY: campaign-incident
campaign-incident: bin/cluster build ## Let things go wrong, and write into docs/contributing/incidents.md which alerts fire; 20 minutes
	$(call say,'starting the cluster')
	@$(MAKE) e2e-cluster
	@bin/cluster addon --build-only prometheus
	$(call say,'incidents and their alerts')
	@CAMPAIGN=1 go test -tags=e2e -count=1 -timeout=2h -parallel=6 -exec '$(CURDIR)/bin/cluster exec --' $(GO_TEST_FLAGS) -run '^TestCampaignIncidents$$' -v ./e2e/

# CAUSES='quota|webhook' selects some, and writes no table.
.PHONY: campaign-causes
campaign-causes: bin/cluster build ## Break objects: how soon and after how many commands users know the cause and the remedy (docs/contributing/incidents.md); 20 minutes, on an idle machine
	$(call say,'starting the cluster')
	@$(MAKE) e2e-cluster
	$(call say,'causes of failed rollouts')
	@CAMPAIGN=1 go test -tags=e2e -count=1 -timeout=1h -parallel=8 -exec '$(CURDIR)/bin/cluster exec --' $(GO_TEST_FLAGS) -run '^TestCampaignCauses$$' -v ./e2e/

# Both versions are the same program, under another name.
.PHONY: campaign-olm
campaign-olm: bin/cluster bin/release/release build ## The second half of the tutorial for Memcached: installed from a catalog, and upgraded, by the Operator Lifecycle Manager
	$(call say,'starting the cluster')
	@bin/cluster up --nodes 2
	@bin/cluster addon olm-catalogs
	@CGO_ENABLED=0 go build -C e2e/cluster/olm -ldflags '-s -w' -o $(CURDIR)/bin/opm github.com/operator-framework/operator-registry/cmd/opm
	@bin/cluster load opm:local --binary bin/opm
	@for v in 0.0.1 0.0.2; do \
		bin/cluster load platform-operator:$$v --binary bin/platform-operator; \
		rm -rf bin/olm/$$v; mkdir -p bin/olm/$$v; \
		printf '%s\n' 'resources: [../../../config/default]' "images: [{name: platform-operator, newTag: $$v}]" >bin/olm/$$v/kustomization.yaml; \
		"$$(bin/cluster assets)/kubectl" kustomize bin/olm/$$v >bin/olm/$$v/install.yaml; done
	@bin/release/release olm -version 0.0.1 -dist bin/olm/0.0.1 -source https://example.com/platform-operator
	@bin/release/release olm -version 0.0.2 -replaces 0.0.1 -dist bin/olm/0.0.2 -source https://example.com/platform-operator
	$(call say,'the tutorial')
	@CAMPAIGN=1 OLM_BUNDLES="$(CURDIR)/bin/olm" go test -tags=e2e -count=1 -timeout=30m -exec '$(CURDIR)/bin/cluster exec --' $(GO_TEST_FLAGS) -run '^TestCampaignOLM$$' -v ./e2e/

.PHONY: campaign-assets
campaign-assets: bin/cluster ## Load pages and their assets while the content of WebServers changes, with and without content.keep; 15 minutes
	$(call say,'starting the cluster')
	@$(MAKE) e2e-cluster
	$(call say,'assets of pages while the content changes')
	@CAMPAIGN=1 go test -tags=e2e -count=1 -timeout=1h -exec '$(CURDIR)/bin/cluster exec --' $(GO_TEST_FLAGS) -run '^TestCampaignAssets$$' -v ./e2e/

# CANARY_EVENTS is the number of random events during a hold, CANARY_VERSIONS that of versions
# with many errors, and CANARY_ROUNDS that of versions of each of 16 WebServers with few.
.PHONY: campaign-canary
campaign-canary: bin/cluster ## Edit, scale, delete pods and kill the leader while a canary is held under load, then abort and promote; judge versions by their errors; 10 minutes
	$(call say,'starting the cluster')
	@$(MAKE) e2e-cluster
	$(call say,'a canary under load')
	@CAMPAIGN=1 go test -tags=e2e -count=1 -timeout=1h -exec '$(CURDIR)/bin/cluster exec --' $(GO_TEST_FLAGS) -run '^TestCampaignCanary' -v ./e2e/

# TRAFFIC_SEED, which it prints, chooses the order; TRAFFIC_EVENTS='web image,tls restart' selects some.
.PHONY: campaign-traffic
campaign-traffic: TRAFFIC_TIME ?= 30m
campaign-traffic: bin/cluster ## Whatever happens to objects, each request that fails has a documented cause: TRAFFIC_TIME=30m (docs/contributing/traffic.md)
	$(call say,'starting the cluster')
	@$(MAKE) e2e-cluster
	$(call say,'current nginx and memcached')
	@for v in trixie:nginx:1.26 trixie:memcached:1.6.38 sid:nginx:1.30 sid:memcached:1.6.45; do bin/cluster load $${v#*:} --debian $${v%%:*}; done
	@CGO_ENABLED=0 go build -o bin/traffic-app ./e2e/traffic/app
	@for tag in 1 2; do bin/cluster load traffic-app:$$tag --binary bin/traffic-app; done
	$(call say,'events under traffic')
	@CAMPAIGN=1 TRAFFIC_TIME=$(TRAFFIC_TIME) go test -tags=e2e -count=1 -timeout=0 -exec '$(CURDIR)/bin/cluster exec --' $(GO_TEST_FLAGS) -run '^TestCampaignTraffic$$' -v ./e2e/

.PHONY: campaign-http3
campaign-http3: bin/cluster ## Change content and image under load of HTTP/3, to an image without it in the end; 5 minutes
	$(call say,'starting the cluster')
	@$(MAKE) e2e-cluster
	@for v in trixie:nginx:1.26 sid:nginx:1.30; do bin/cluster load $${v#*:} --debian $${v%%:*}; done
	@CGO_ENABLED=0 go build -C e2e/http3 -o ../../bin/http3 .
	$(call say,'rollouts under HTTP/3')
	@CAMPAIGN=1 go test -tags=e2e -count=1 -timeout=30m -exec '$(CURDIR)/bin/cluster exec --' $(GO_TEST_FLAGS) -run '^TestCampaignHTTP3$$' -v ./e2e/

# Half an hour, so not a part of make test; which has a short slice of it.
.PHONY: bench-rollouts
bench-rollouts: bin/cluster ## Write docs/contributing/benchmarks.md: load through every rollout, compared with a plain Deployment; half an hour
	$(call say,'starting the cluster')
	@$(MAKE) e2e-cluster
	$(call say,'load through every rollout')
	@BENCH=1 go test -tags=e2e -count=1 -timeout=3h -exec '$(CURDIR)/bin/cluster exec --' $(GO_TEST_FLAGS) -run '^TestBenchRollouts$$' -v ./e2e/

# BEFORE is a commit that is compared. -enforce fails if a goal is missed; -h lists the
# other flags.
BEFORE ?=
SCALE_FLAGS ?=

.PHONY: bench-scale
bench-scale: SCALE ?= 1000
bench-scale: build bin/cluster ## Write docs/contributing/benchmarks.md: CPU and memory with SCALE=1000 WebServers, of BEFORE=commit too; some minutes
ifneq ($(BEFORE),)
	$(call say,'building the operator of $(BEFORE)')
	@rm -rf bin/before; mkdir -p bin/before
	@git archive $(BEFORE) | tar -xC bin/before
	@$(MAKE) -C bin/before build VERSION=$(shell git rev-parse --short $(BEFORE))
	@mv bin/before/bin/platform-operator bin/platform-operator-before
	@rm -rf bin/before
endif
	$(call say,'measuring with $(SCALE) WebServers')
	@go build -o bin/scale ./e2e/scale
	@export CLUSTER_NAME=scale; bin/cluster down; trap 'bin/cluster down' EXIT; bin/cluster up --control-plane-only; \
		bin/cluster exec -- bin/scale -objects $(SCALE) $(if $(BEFORE),-before bin/platform-operator-before) $(SCALE_FLAGS)

.PHONY: campaign-shared
campaign-shared: SHARED_OBJECTS ?= 500
campaign-shared: bin/cluster ## A ConfigMap that 500 WebServers use becomes bad: ten of them are rolled out, and all are served
	$(call say,'a bad ConfigMap of $(SHARED_OBJECTS) WebServers')
	@SHARED_OBJECTS=$(SHARED_OBJECTS) KUBEBUILDER_ASSETS="$$(bin/cluster assets)" go test -tags=envtest -count=1 -timeout=30m $(GO_TEST_FLAGS) \
		-run '^TestWebServer_LimitsRolloutsOfASharedConfigMap$$' -v ./controllers/webserver
	$(call say,'starting the cluster')
	@$(MAKE) e2e-cluster
	$(call say,'a bad ConfigMap of real pods under load')
	@CAMPAIGN=1 go test -tags=e2e -count=1 -timeout=20m -exec '$(CURDIR)/bin/cluster exec --' $(GO_TEST_FLAGS) -run '^TestCampaignSharedConfigMap$$' -v ./e2e/

##@ Cluster

.PHONY: cluster-up
cluster-up: bin/cluster ## Start a real Kubernetes on this machine (Linux, root)
	$(call say,'starting the cluster')
	@bin/cluster up

.PHONY: cluster-down
cluster-down: bin/cluster ## Remove it, with all it made
	@bin/cluster down

# An operator in the cluster would do the same work, and one without replicas
# would leave webhooks without an answer.
.PHONY: run
run: build bin/cluster ## Run the operator on this machine with the permissions of the kubeconfig, without webhooks and metrics
	@installed="$$(bin/cluster exec -- kubectl get --ignore-not-found --output name --namespace $(NAMESPACE) \
			deployment/platform-operator validatingwebhookconfiguration/platform-operator)"; \
		[ -z "$$installed" ] || { printf '%s\n' "$$installed" 'is installed in the cluster: run make uninstall (or make undeploy) first' >&2; exit 1; }
	$(call say,'applying the CRDs')
	@bin/cluster exec -- kubectl apply --server-side -k config/crd
	$(call say,'running the operator; Ctrl-C stops it')
	@bin/cluster exec -- bin/platform-operator run --webhooks=false --leader-elect=false \
		--metrics-bind-address=0 --health-probe-bind-address=0 --log-format=console $(RUN_FLAGS)

.PHONY: image-load
image-load: build bin/cluster ## Make the operator's image on the local cluster
	$(call say,'loading platform-operator:dev')
	@bin/cluster load platform-operator:dev --binary bin/platform-operator | tee bin/platform-operator.digest

.PHONY: image-push
image-push: check-img ## Build the image with docker, podman or buildah, and push it: IMG=registry/name:tag
	@[ -n '$(ENGINE)' ] || { echo 'found neither docker nor podman nor buildah: install one, or set ENGINE' >&2; exit 1; }
	@[ '$(IMG)' != platform-operator:dev ] || { echo 'set IMG=registry/name:tag: where should the image go?' >&2; exit 1; }
	$(call say,'building $(IMG) with $(ENGINE)')
	@$(ENGINE) build --build-arg BUILD_IMAGE=$(BUILD_IMAGE) --build-arg VERSION=$(VERSION) \
		--build-arg REVISION=$$(git rev-parse HEAD) -t $(IMG) .
	$(call say,'pushing $(IMG)')
	@$(ENGINE) push $(IMG)

##@ Release

.PHONY: release
release: bin/cluster bin/release/release $(CYCLONEDX) ## Write dist/, all that a release publishes: VERSION=0.0.1 (docs/release.md)
	@[[ '$(VERSION)' =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$$ ]] || { echo 'VERSION=$(VERSION) is not a version: set VERSION=0.0.1, for example' >&2; exit 1; }
	@for p in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do \
		printf '$(BOLD)==> %4ds  building %s for %s$(OFF)\n' "$$(($$(date +%s) - $(STARTED)))" '$(VERSION)' $$p; \
		for c in kubectl-platform $$([ $${p%/*} != linux ] || echo platform-operator); do \
			GOOS=$${p%/*} GOARCH=$${p#*/} $(GO_BUILD) -o bin/release/$$c-$${p/\//-} ./cmd/$$c || exit; done; done
	$(call say,'writing dist/')
	@HELM="$$(bin/cluster tool helm)" KUBECTL="$$(bin/cluster assets)/kubectl" CYCLONEDX=$(CYCLONEDX) hack/release/release.sh
	@cat dist/SHA256SUMS

.PHONY: release-push
release-push: bin/release/release ## Push the image and the chart of dist/: REGISTRY=registry.example/team
	$(call say,'pushing to $(REGISTRY)')
	@bin/release/release push -registry '$(REGISTRY)'

##@ Install

.PHONY: install
install: check-img bin/cluster ## Install or upgrade with Helm
	$(call say,'installing $(IMG) into $(NAMESPACE) with Helm')
	@bin/cluster exec -- "$$(bin/cluster tool helm)" upgrade --install platform-operator $(CHART) \
		--namespace $(NAMESPACE) --create-namespace --wait --timeout 3m --hide-notes \
		--set-string image.repository=$(IMG_REPOSITORY) --set-string image.tag=$(IMG_TAG) \
		--set-string image.digest=$(IMG_DIGEST) $(HELM_FLAGS)

.PHONY: uninstall
uninstall: bin/cluster ## Uninstall with Helm; the kinds and their objects stay
	@bin/cluster exec -- "$$(bin/cluster tool helm)" uninstall platform-operator --namespace $(NAMESPACE)

.PHONY: deploy
deploy: check-img bin/cluster ## Install or upgrade with kustomize (config/default)
	$(call say,'deploying $(IMG) with kustomize')
	@mkdir -p bin/deploy
	@printf '%s\n' 'resources: [../../config/default]' \
		'images: [{name: platform-operator, newName: "$(IMG_REPOSITORY)", $(if $(IMG_DIGEST),digest: "$(IMG_DIGEST)",newTag: "$(IMG_TAG)")}]' >bin/deploy/kustomization.yaml
	@bin/cluster exec -- kubectl apply --server-side -k bin/deploy
	@bin/cluster exec -- kubectl -n platform-operator-system rollout status deployment/platform-operator --timeout=3m

.PHONY: undeploy
undeploy: build bin/cluster ## Undo deploy; the kinds and their objects stay
	$(call say,'letting go of all objects: each can be deleted without the operator')
	@bin/cluster exec -- bin/platform-operator release --manager-namespace platform-operator-system --manager-deployment platform-operator
	$(call say,'deleting the operator')
	@for d in webhook policy manager rbac; do bin/cluster exec -- kubectl delete --ignore-not-found -k config/$$d; done
	@bin/cluster exec -- kubectl delete --ignore-not-found namespace platform-operator-system
	@echo 'The kinds and their objects are still there. To delete all of them: kubectl delete -k config/crd'

# Not for people.

.PHONY: check-img
check-img:
	@case '$(IMG_TAG)' in */*|'$(IMG)') echo 'IMG=$(IMG) has no tag: give registry/name:tag' >&2; exit 1;; esac

# Two nodes, the addons that serve metrics, Ingresses and Gateways, and the operator.
.PHONY: e2e-cluster
e2e-cluster: bin/cluster
	@bin/cluster up --nodes 2
	@if [ "$$CLUSTER" != current ]; then bin/cluster addon metrics-server traefik prometheus-operator-crds; $(MAKE) image-load; fi
	@$(MAKE) install HELM_FLAGS="-f e2e/values.yaml $$([ "$$CLUSTER" = current ] || echo '-f e2e/values-monitoring.yaml') $(HELM_FLAGS)"

# go build knows better than make whether there is something to do.
.PHONY: bin/cluster
bin/cluster:
	@CGO_ENABLED=0 go build -C e2e/cluster -ldflags "-s -w" -o ../../bin/cluster .

.PHONY: bin/release/release
bin/release/release:
	@go build -C hack/release -o ../../bin/release/release .

.PHONY: bin/sharedserver
bin/sharedserver:
	@go build -o bin/sharedserver ./pkg/testkit/sharedserver

# The versions of Kubernetes that a chart requires are compared with a default that releases set.
$(HELM3):
	$(call say,'building Helm $(HELM3_VERSION) this one time')
	@CGO_ENABLED=0 GOBIN=$(@D) go install -ldflags '-s -w -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=36' helm.sh/helm/v3/cmd/helm@$(HELM3_VERSION)

$(GOLANGCI_LINT):
	$(call say,'building golangci-lint $(GOLANGCI_LINT_VERSION) this one time; takes some minutes')
	@CGO_ENABLED=0 GOBIN=$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)

# The SBOM contains the checksum of the tool, so it must not depend on paths (-trimpath).
$(CYCLONEDX):
	$(call say,'building cyclonedx-gomod $(CYCLONEDX_VERSION) this one time')
	@CGO_ENABLED=0 GOFLAGS=-trimpath GOBIN=$(@D) go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(CYCLONEDX_VERSION)

$(ACTIONLINT):
	$(call say,'building actionlint $(ACTIONLINT_VERSION) this one time')
	@CGO_ENABLED=0 GOBIN=$(@D) go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)

$(GOVULNCHECK):
	$(call say,'building govulncheck $(GOVULNCHECK_VERSION) this one time')
	@CGO_ENABLED=0 GOBIN=$(@D) go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
