# numapilot: build, test, show, install. `make` alone lists the targets.

PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo

bindir = $(DESTDIR)$(PREFIX)/bin
libdir = $(DESTDIR)$(PREFIX)/lib/numapilot
mandir = $(DESTDIR)$(PREFIX)/share/man/man1
man7dir = $(DESTDIR)$(PREFIX)/share/man/man7
docdir = $(DESTDIR)$(PREFIX)/share/doc/numapilot
sharedir = $(DESTDIR)$(PREFIX)/share/numapilot
includedir = $(DESTDIR)$(PREFIX)/include
pkgconfigdir = $(DESTDIR)$(PREFIX)/lib/pkgconfig
cmakedir = $(DESTDIR)$(PREFIX)/lib/cmake/numapilot_alloc
bashdir = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
zshdir = $(DESTDIR)$(PREFIX)/share/zsh/site-functions
fishdir = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d

# Respect the variable that makes cargo use another directory than ./target.
target = $(or $(CARGO_TARGET_DIR),target)
release = $(target)/release
dist = $(target)/dist
numapilot = $(release)/numapilot
alloc = crates/inside/alloc/preload
replicate = crates/inside/replicate/c
place = crates/outside/place/c

export CARGO

.DEFAULT_GOAL := help
.PHONY: help setup setup-demo setup-dist build generate test demo bench man docs lint verify coverage dist dist-test install uninstall clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: ## install the programs that the tests use, where permitted; SETUP=minimal: allocators and numactl only
	@scripts/setup test

setup-demo:
	@scripts/setup demo

setup-dist:
	@scripts/setup dist

build: ## optimised programs, preload libraries, manual pages and completions, in target/
	$(CARGO) build --release --locked --workspace
	@$(MAKE) --no-print-directory generate

generate:
	@mkdir -p $(dist)/man $(dist)/completions
	@for program in numapilot numapilot-lab; do \
		command=$(release)/$$program completions=$(dist)/completions; \
		$$command man $(dist)/man && \
		$$command completions bash > $$completions/$$program && \
		$$command completions zsh > $$completions/_$$program && \
		$$command completions fish > $$completions/$$program.fish || exit; done

test: setup ## set up, then run every test; lists skipped tests with reasons
	@scripts/test

demo: setup-demo build ## tune the built-in workload w1 on this machine and print the best plan
	@scripts/demo

bench: build ## run the built-in workloads over every data set and check their answers
	@for workload in w1 w2; do for data in moving-cluster sequential zipf heavy-hitter; do \
		$(numapilot) bench $$workload --data $$data --check || exit; echo; done; done

lint: ## formatting, clippy, rustdoc, licences of dependencies
	@scripts/lint

verify: ## Miri, sanitizers, a minute of each fuzz target
	@scripts/verify

coverage: ## share of the lines of each crate that its unit tests execute
	@scripts/coverage

man: build ## list the manual pages and completions
	@ls $(dist)/man/*.1 $(dist)/completions/*

docs: ## the manual as HTML, in target/book
	@scripts/docs

dist: setup-dist ## the packages of a release, with checksums, in target/packages
	@scripts/dist

dist-test: ## install and run each package of make dist, and build all a second time to compare; needs root
	@scripts/dist-test

# Does not build anything, so root needs no Rust.
install: ## install the build under PREFIX (/usr/local), below DESTDIR if it is set
	@test -d $(dist) || { echo "nothing is built: run make build first" >&2; exit 1; }
	install -D -m 755 $(numapilot) $(bindir)/numapilot
	install -m 755 $(release)/numapilot-lab $(bindir)/numapilot-lab
	install -d $(libdir) $(mandir)
	install -m 755 $(release)/libnumapilot_*.so $(release)/numapilot-lab-init $(libdir)/
	install -m 644 $(release)/libnumapilot_alloc.a $(release)/libnumapilot_replicate.a $(libdir)/
	install -d $(includedir) $(pkgconfigdir)
	install -m 644 $(alloc)/include/numapilot_alloc.h $(replicate)/include/numapilot_replicate.h \
		$(place)/include/numapilot_place.h $(includedir)/
	version=$$($(numapilot) --version) && for library in $(alloc)/numapilot_alloc \
		$(replicate)/numapilot_replicate $(place)/numapilot_place; do \
		sed -e 's|@PREFIX@|$(PREFIX)|' -e "s|@VERSION@|$${version##* }|" $$library.pc.in \
			> $(pkgconfigdir)/$${library##*/}.pc || exit; done
	install -d $(cmakedir)
	install -m 644 $(alloc)/numapilot_alloc-config.cmake $(cmakedir)/
	install -m 644 $(dist)/man/*.1 $(mandir)/
	install -D -m 644 $(dist)/man/numapilot-environment.7 $(man7dir)/numapilot-environment.7
	install -d $(bashdir) $(zshdir) $(fishdir)
	install -m 644 $(dist)/completions/numapilot $(dist)/completions/numapilot-lab $(bashdir)/
	install -m 644 $(dist)/completions/_numapilot $(dist)/completions/_numapilot-lab $(zshdir)/
	install -m 644 $(dist)/completions/numapilot.fish $(dist)/completions/numapilot-lab.fish $(fishdir)/
	install -d $(docdir)
	install -m 644 README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE $(docdir)/
	install -D -m 644 $(place)/slurm/spank_numapilot.c $(sharedir)/slurm/spank_numapilot.c
	install -d $(sharedir)/kubernetes $(sharedir)/prometheus
	install -m 644 docs/kubernetes/*.yaml $(sharedir)/kubernetes/
	install -m 644 docs/prometheus/numapilot.rules.yml docs/prometheus/numapilot-dashboard.json $(sharedir)/prometheus/

uninstall: ## remove the installed files
	rm -f $(bindir)/numapilot $(bashdir)/numapilot $(zshdir)/_numapilot $(fishdir)/numapilot.fish
	rm -f $(bindir)/numapilot-lab $(bashdir)/numapilot-lab $(zshdir)/_numapilot-lab $(fishdir)/numapilot-lab.fish
	rm -f $(mandir)/numapilot.1 $(mandir)/numapilot-*.1 $(man7dir)/numapilot-environment.7
	rm -f $(includedir)/numapilot_alloc.h $(pkgconfigdir)/numapilot_alloc.pc
	rm -f $(includedir)/numapilot_replicate.h $(pkgconfigdir)/numapilot_replicate.pc
	rm -f $(includedir)/numapilot_place.h $(pkgconfigdir)/numapilot_place.pc
	rm -rf $(libdir) $(docdir) $(cmakedir) $(sharedir)

clean: ## remove everything that was built
	$(CARGO) clean
