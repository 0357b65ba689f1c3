#!/usr/bin/env bash
# `make test`: every test there is, in order from the quick to the slow; goes on after a failure and ends with a
# summary. Exit code 1 if anything failed.
#
#   scripts/test-all.sh [STEP...]     only these steps (format clippy unit fuzz ofi install wrappers programs interfaces devices bench abi-cross mpi4py net loom)
#
# As root on Debian or Ubuntu it installs what is missing (a C++ compiler, CMake, pkg-config, Python with venv); else
# it says what is missing, and what cannot run for it counts as a failure.
set -u
cd "$(dirname "$0")/.."
root=$PWD
logs=$root/build/test-logs
prefix=$root/build/install
mkdir -p "$logs"
cargo=${CARGO:-cargo}
known="format clippy unit fuzz ofi install wrappers programs interfaces devices bench abi-cross mpi4py net loom"
steps=${*:-$known}
for name in $steps; do
    case " $known " in *" $name "*) ;; *) echo "test-all.sh: step $name: allowed are $known" >&2; exit 2 ;; esac
done
started=$SECONDS
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
    local code=${PIPESTATUS[0]}
    if [ $code = 0 ]; then
        summary+=("ok    $name ($((SECONDS - began)) s)")
    else
        summary+=("FAIL  $name ($((SECONDS - began)) s), exit code $code, log in build/test-logs/$name.log")
        failed=1
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
# Emulated hosts; loss of packets needs nft where the kernel has no netem.
PATH=$PATH:/usr/sbin:/sbin
need ip iproute2
need nft nftables
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
step fuzz script fuzz.sh --short
step ofi script test-ofi.sh
step install "${MAKE:-make}" --no-print-directory install PREFIX="$prefix"
step wrappers script check-wrappers.sh
step programs script test-programs.sh
step interfaces script test-programs.sh interfaces
step devices script test-devices.sh
step bench script test-bench.sh
step abi-cross script test-abi-cross.sh
step mpi4py script test-mpi4py.sh
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
