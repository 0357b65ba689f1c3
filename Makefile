# Farpost: the commands a person types. `make` alone lists them.

PREFIX ?= build/install
DESTDIR ?=
CARGO ?= cargo
ROUNDS ?=
HOSTS ?=
ARGS ?=
export CARGO

.PHONY: help build install demo test test-full fuzz sanitize compare docs clean

help:
	@echo "make demo                 build, run a 2-rank NetPIPE ping-pong, write its plot"
	@echo "make test                 run every test (installs what tests need, if it may)"
	@echo "make test-full            the same with everything that make test takes turns with (hours)"
	@echo "make soak MINUTES=60      random legal programs over every device and fabric, from where the last soak ended; findings in build/soak"
	@echo "                          (STREAM=1, STREAM=2, ...: several at a time, each from where it ended, in build/soak/1, ...)"
	@echo "make fuzz                 fuzz every parser for a minute each (TARGET=portals_net SECONDS=600: one of them, so long)"
	@echo "make sanitize             Miri, AddressSanitizer and ThreadSanitizer over crates, C programs and fuzz targets (PARTS='miri tsan': some)"
	@echo "make install PREFIX=dir   install a relocatable tree (default: build/install)"
	@echo "make compare              measure Farpost next to MPICH, Open MPI and Intel MPI"
	@echo "make docs                 write docs/reference/*.md, the functions of all interfaces"
	@echo "make clean                remove build products (peers in the cache stay)"

build:
	scripts/build-release.sh

install: build
	scripts/install.sh "$(DESTDIR)$(PREFIX)"

demo:
	scripts/demo.sh

test:
	scripts/test-all.sh

test-full:
	FULL=1 scripts/test-all.sh

MINUTES ?= 60
soak:
	$(MAKE) --no-print-directory install PREFIX=build/install
	PREFIX=build/install MINUTES=$(MINUTES) scripts/test-generated.sh soak

TARGET ?=
SECONDS ?=
fuzz:
	scripts/fuzz.sh $(TARGET) $(SECONDS)

PARTS ?=
sanitize:
	$(MAKE) --no-print-directory install PREFIX=build/install
	PREFIX=build/install scripts/sanitize.sh $(PARTS)

# HOSTS=2 measures between hosts, emulated on this machine; ARGS=--update-docs writes its table into the README.
# ROUNDS=9 measures longer; ARGS=--update-readme writes the table into the README; scripts/compare.py --help lists the rest.
compare:
	$(MAKE) --no-print-directory install PREFIX=build/install
	python3 scripts/compare$(if $(HOSTS),_hosts).py --farpost build/install $(if $(ROUNDS),--rounds $(ROUNDS)) $(ARGS)

docs:
	for name in mpi $$($(CARGO) run -q -p farpost-apigen -- interfaces); do \
		$(CARGO) run -q -p farpost-apigen -- reference $$name docs/reference/$$name.md || exit 1; done

clean:
	$(CARGO) clean
	rm -rf build/install build/demo
