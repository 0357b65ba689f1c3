#!/usr/bin/env bash
# `make test`: every test there is, in order from the quick to the slow; goes on after a failure and ends with a
# summary. Exit code 1 if anything failed.
#
#   scripts/test-all.sh [STEP...]     only these steps (format clippy unit many-ranks fuzz ofi install wrappers programs interfaces generated rollcall sim devices bench abi-cross mpi4py net loom)
#
# As root on Debian or Ubuntu it installs what is missing (a C++ compiler, CMake, pkg-config, Python with venv, Slurm, ...); else
# it says what is missing, and what cannot run for it counts as a failure.
#
#   TREE=...              what is not always run is chosen by the content of the commit (scripts/tree.sh); this repeats another tree's choice
#   TEST_STRICT=1 a case that was skipped counts as a failure, unless tests/skips.txt says why that is right (.ci/run sets it)
#   FULL=1                every choice: the whole matrix of devices, launchers, layouts and faults (make test-full; hours)
set -u
cd "$(dirname "$0")/.."
root=$PWD
logs=$root/build/test-logs
prefix=$root/build/install
mkdir -p "$logs"
cargo=${CARGO:-cargo}
# The same choice in all steps, whatever they do to the index.
TREE=$("$root/scripts/tree.sh") || exit 2
number=$("$root/scripts/tree.sh" --number)
export TREE
# Cases of property tests.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-$number}
full=${FULL:-0}
strict=${TEST_STRICT:-0}
known="format clippy unit many-ranks fuzz ofi install wrappers programs interfaces generated rollcall sim devices bench abi-cross mpi4py net loom"
steps=${*:-$known}
for name in $steps; do
    case " $known " in *" $name "*) ;; *) echo "test-all.sh: step $name: allowed are $known" >&2; exit 2 ;; esac
done
started=$SECONDS
echo "tree $TREE (TREE=$TREE repeats what was chosen by it)"
summary=()
failed=0

# A step's name, its command; its output goes to the terminal and to a log.
step() {
    local name=$1 began=$SECONDS
    shift
    case " $steps " in *" $name "*) ;; *) return 0 ;; esac
    echo
    echo "== $name: $*"
    "$@" 2>&1 | tee "$logs/$name.log"
    local code=${PIPESTATUS[0]} skips
    # What did not run and could have.
    skips=$(grep -aE '^skip |SKIPPED: |\.\.\. skipped ' "$logs/$name.log" | grep -avEf <(sed '/^#/d; /^$/d; s/\t.*//' tests/skips.txt))
    if [ $code != 0 ]; then
        summary+=("FAIL  $name ($((SECONDS - began)) s), exit code $code, log in build/test-logs/$name.log")
        failed=1
    elif [ -n "$skips" ] && [ "$strict" = 1 ]; then
        summary+=("FAIL  $name ($((SECONDS - began)) s), skipped: $(echo "$skips" | wc -l), the first: $(echo "$skips" | head -n 1 | cut -c1-200)")
        failed=1
    else
        summary+=("ok    $name ($((SECONDS - began)) s)${skips:+, skipped: $(echo "$skips" | wc -l)}")
    fi
    return 0
}

# --- what tests need ---------------------------------------------------------------------------------------------
wanted=() # of: command package
need() { command -v "$1" >/dev/null 2>&1 || wanted+=("$2"); }
need cc gcc
need c++ g++
need make make
need cmake cmake
need pkg-config pkg-config
# The libfabric fabric is tested with the system's library, and its declarations against these headers.
[ -e /usr/include/rdma/fabric.h ] || wanted+=(libfabric-dev)
need python3 python3
# Instructions are counted, and C programs name what is counted, by its headers.
need valgrind valgrind
# Emulated hosts; loss of packets needs nft where the kernel has no netem.
PATH=$PATH:/usr/sbin:/sbin
need ip iproute2
need nft nftables
# Launchers, and the headers that declarations of PMIx are compared with.
need srun slurm-wlm
need munged munge
[ -e /usr/include/pmix.h ] || [ -n "$(find /usr/lib -name pmix.h -print -quit 2>/dev/null)" ] || wanted+=(libpmix-dev)
ldconfig -p 2>/dev/null | grep -q 'libpmix\.so\.2 ' || wanted+=(libpmix2)
if command -v python3 >/dev/null 2>&1; then
    python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || wanted+=(python3-venv)
    python3 -m pip --version >/dev/null 2>&1 || wanted+=(python3-pip)
    python3 -c 'import sysconfig, os, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
        wanted+=(python3-dev)
else
    wanted+=(python3-venv python3-pip python3-dev)
fi
if [ ${#wanted[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "== installing what tests need: ${wanted[*]}"
        {
            apt-get update -q
            DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${wanted[@]}"
        } >"$logs/apt.log" 2>&1 || echo "make test: apt-get could not install ${wanted[*]}; see build/test-logs/apt.log" >&2
    else
        echo "make test: missing: ${wanted[*]}; what needs them will fail (on Debian or Ubuntu: sudo apt-get install ${wanted[*]})" >&2
    fi
fi
for component in rustfmt clippy; do
    if ! "$cargo" "${component/rustfmt/fmt}" --version >/dev/null 2>&1 && command -v rustup >/dev/null 2>&1; then
        rustup component add "$component" >>"$logs/rustup.log" 2>&1 || echo "make test: rustup could not add $component" >&2
    fi
done

# --- the steps ---------------------------------------------------------------------------------------------------
# A script that another part of the project brings; its absence is a failure, not a quiet gap.
script() {
    local name=$1
    shift
    [ -x "scripts/$name" ] || { echo "scripts/$name is missing"; return 1; }
    PREFIX=$prefix "scripts/$name" "$@"
}
format() {
    "$cargo" fmt --all --check && "$cargo" fmt --manifest-path fuzz/Cargo.toml --check
}
step format format
step clippy "$cargo" clippy --workspace --all-targets -- -D warnings
step unit timeout 1800 "$cargo" test --workspace --no-fail-fast
many_ranks() { timeout 1800 "$cargo" run --release -p farpost-sim --example many_ranks -- torus allreduce 10000 8000MB; }
[ "$full" = 0 ] || step many-ranks many_ranks
step fuzz script fuzz.sh --short
step ofi script test-ofi.sh
step install "${MAKE:-make}" --no-print-directory install PREFIX="$prefix"
step wrappers script check-wrappers.sh
step programs script test-programs.sh
step interfaces script test-programs.sh interfaces
step rollcall script test-rollcall.sh
step sim script test-sim.sh
# Some programs on the machine whose turn it is, all on all in the full run.
sim_programs() {
    if [ "$full" = 1 ]; then
        script test-sim-programs.sh
    else
        NAMES="programs/ring programs/samplesort mpi/comm mpi/p2p_modes mpi/coll_blocking mpi/persistent" RANKS=4 \
            script test-sim-programs.sh --turn "$number"
    fi
}
step sim-programs sim_programs
step generated script test-generated.sh
if [ "$full" = 0 ]; then step devices script test-devices.sh; else step devices script test-devices.sh all; fi
step bench script test-bench.sh
step abi-cross script test-abi-cross.sh
# Every module on 2 ranks, on other numbers one in three, chosen by the tree.
mpi4py() {
    local code=0
    if [ "$full" = 1 ]; then
        script test-mpi4py.sh || code=1
    else
        RANKS=2 script test-mpi4py.sh || code=1
        RANKS="1 3 5" PART=$((number % 3))/3 script test-mpi4py.sh || code=1
    fi
    return $code
}
step mpi4py mpi4py
step net script test-net.sh
step loom script test-loom.sh

echo
echo "== Summary ($((SECONDS - started)) s)"
printf '%s\n' "${summary[@]}"
if [ $failed = 0 ]; then
    echo "all passed"
else
    echo "FAILED"
fi
exit $failed
