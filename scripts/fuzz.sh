#!/usr/bin/env bash
# Coverage-guided fuzzing of what Farpost reads from others: the targets are in fuzz/, with libFuzzer, on stable Rust.
#
#   scripts/fuzz.sh                    every target, 60 seconds each
#   scripts/fuzz.sh TARGET [SECONDS]   one of them, so long; 0: until something is found
#   scripts/fuzz.sh --short            every target for a fixed number of runs from its seeds (a step of scripts/test-all.sh)
#   scripts/fuzz.sh --run TARGET FILE  an input again, with a backtrace
#   scripts/fuzz.sh --seeds            write the seeds anew: fuzz/seeds
#
# What is found is in fuzz/artifacts/TARGET, what has been learnt in fuzz/corpus/TARGET. `cargo fuzz run -s none TARGET` works on the
# same targets where cargo-fuzz is installed. A C++ compiler is needed, for libFuzzer.
set -eu
# Files that are named are where the caller is.
[ "${1:-}" != --run ] || set -- "$1" "$2" "$(realpath "$3")"
cd "$(dirname "$0")/../fuzz"
cargo=${CARGO:-cargo}
targets=$(sed -n 's/^name = "\(.*\)"$/\1/p' Cargo.toml | grep -v -e farpost-fuzz -e seeds)
# How many runs a target is worth where time is short: what takes a world to be made is slow.
runs_of() {
    case $1 in
        portals_agent) echo 1500 ;;
        portals_host) echo 10000 ;;
        portals_net) echo 3000 ;;
        portals_interface | rsm_postboxes | handshake) echo 8000 ;;
        fm | jam | jam_rings | link | pmi) echo 20000 ;;
        mpi_lines | mpi_device) echo 3000 ;;
        mpi_rendezvous) echo 500 ;;
        tcp) echo 3000 ;;
        check | rollcall | ofi_wire) echo 10000 ;;
        pmix) echo 5000 ;;
        *) echo 100000 ;;
    esac
}

if [ "${1:-}" = --seeds ]; then
    RUSTFLAGS="${RUSTFLAGS:-} --cfg fuzzing" exec "$cargo" run --quiet --features seeds --bin seeds seeds
fi
host=$(rustc -vV | sed -n 's/^host: //p')
flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
flags+=" -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0"
# `scripts/sanitize.sh fuzz` sets this, and a nightly toolchain.
[ -z "${SANITIZER:-}" ] || flags+=" -Zsanitizer=$SANITIZER"
# With a target named, flags are for it alone: not for build scripts, which are programs of their own.
RUSTFLAGS="${RUSTFLAGS:-} $flags" "$cargo" build --quiet --release --target "$host"
programs=${CARGO_TARGET_DIR:-target}/$host/release

one() { # a target, options of libFuzzer
    local target=$1 folder
    shift
    folder=corpus/$target
    mkdir -p "$folder" "artifacts/$target"
    "$programs/$target" -max_len=4096 -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 -close_fd_mask=1 \
        -artifact_prefix="artifacts/$target/" "$@" "$folder" "seeds/$target"
}

case ${1:-} in
    --run) RUST_BACKTRACE=1 exec "$programs/$2" "$3" ;;
    --short)
        failed=0
        for target in $targets; do
            began=$SECONDS
            # From the seeds alone and always in the same order, so that it ends as it ended before.
            log=$(mktemp)
            # What is learnt goes to the first folder that is named.
            learnt=$(mktemp -d)
            mkdir -p "artifacts/$target"
            if "$programs/$target" -seed=1 -runs="$(runs_of "$target")" -max_len=1024 -timeout=60 -rss_limit_mb=4096 \
                -artifact_prefix="artifacts/$target/" "$learnt" "seeds/$target" >"$log" 2>&1; then
                echo "ok    $target: $(sed -n 's/^Done \(.*\) in .*/\1/p' "$log") ($((SECONDS - began)) s)"
            else
                failed=1
                tail -60 "$log"
                echo "FAIL  $target; again: scripts/fuzz.sh --run $target FILE"
            fi
            rm -rf "$log" "$learnt"
        done
        exit $failed
        ;;
    "")
        for target in $targets; do
            one "$target" -max_total_time=60
        done
        ;;
    *)
        case " $(echo $targets) " in
            *" $1 "*) one "$1" -max_total_time="${2:-60}" ;;
            *) echo "fuzz.sh: target $1: there are" $targets >&2; exit 2 ;;
        esac
        ;;
esac
