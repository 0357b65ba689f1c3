#!/usr/bin/env bash
# Undefined behaviour, bad memory accesses and data races, looked for by tools: `make sanitize`.
#
#   PREFIX=dir scripts/sanitize.sh [PART...]     parts: miri asan tsan programs fuzz (all, without an argument)
#
# miri       what needs no system calls: link machine and frames, matching, datatypes, Portals' library, the state of FM and JAM
# asan       the crates' tests with AddressSanitizer
# tsan       the crates' tests that have threads, and C programs that do, with ThreadSanitizer (the standard library is built along)
# programs   C programs compiled with AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer, under the installed mpiexec
# fuzz       every fuzz target from its seeds with AddressSanitizer
#
# Needs a nightly toolchain with miri and rust-src, which rustup fetches where it may; what cannot be had for want of it is a failure.
# What is not reported is in tests/sanitize/*.txt, each with its reason. Logs are in build/test-logs/sanitize.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$PWD
logs=$root/build/test-logs/sanitize
mkdir -p "$logs"
host=$(rustc -vV | sed -n 's/^host: //p')
toolchain=${SANITIZE_TOOLCHAIN:-nightly}
targets=${CARGO_TARGET_DIR:-$root/target}
prefix=${PREFIX:-$root/build/install}
cases=$("$root/scripts/tree.sh" --number) || exit 2
export PROPTEST_RNG_SEED=$cases
failed=0
summary=()

nightly() { cargo "+$toolchain" "$@"; }

# run NAME COMMAND...: a line in the summary; the log stays if it failed.
run() {
    local name=$1 began=$SECONDS log
    shift
    log=$logs/${name//[ \/]/_}.log
    echo "== $name"
    if "$@" >"$log" 2>&1; then
        summary+=("ok    $name ($((SECONDS - began)) s)$(sed -n 's/^test result: ok. \([0-9]* passed\).*/, \1/p' "$log" | tr -d '\n')")
        rm -f "$log"
    else
        failed=1
        grep -aE '^error|panicked|ERROR: |WARNING: |SUMMARY: |^test .* FAILED' "$log" | head -10
        summary+=("FAIL  $name ($((SECONDS - began)) s), log in ${log#"$root"/}")
    fi
    echo "${summary[-1]}"
}

have_nightly() {
    if ! nightly --version >/dev/null 2>&1; then
        rustup toolchain install "$toolchain" --profile minimal >"$logs/rustup.log" 2>&1 || true
    fi
    local component
    for component in "$@"; do
        rustup component list --toolchain "$toolchain" --installed 2>/dev/null | grep -q "^$component" ||
            rustup component add --toolchain "$toolchain" "$component" >>"$logs/rustup.log" 2>&1 ||
            { echo "sanitize.sh: rustup cannot add $component to the toolchain $toolchain; see build/test-logs/sanitize/rustup.log"; return 1; }
    done
    nightly --version
}

# crate, filters of its unit tests ("-" excludes): pure ones; an interpreter takes a hundred to a thousand times as long.
miri() {
    run "miri: toolchain" have_nightly miri rust-src || return
    export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance -Zmiri-ignore-leaks ${MIRIFLAGS:-}"
    export PROPTEST_CASES=${PROPTEST_CASES:-4} PROPTEST_DISABLE_FAILURE_PERSISTENCE=true
    interpret() {
        local crate=$1
        shift
        run "miri: $crate ${1:-}" env CARGO_TARGET_DIR="$targets/miri" timeout -k 10 "${LIMIT:-1800}" \
            cargo "+$toolchain" miri test -q -p "farpost-$crate" --lib -- "$@"
    }
    interpret tunables
    # Simulated links run for too long there; their parts do not.
    interpret tcp link::frame link::log link::reorder
    interpret ofi wire
    interpret net interfaces::subnet
    interpret channel
    interpret rsm
    interpret fm --skip stack
    interpret jam
    interpret portals library::
    interpret mpi datatype::
    interpret mpi engine::
    interpret mpi op::
    interpret mpi attr::
}

asan() {
    run "asan: toolchain" have_nightly || return
    # Threads end with their process; what they hold then is no leak. Tests fork: a child looks at nothing.
    export ASAN_OPTIONS="detect_leaks=0:abort_on_error=1:handle_segv=1:${ASAN_OPTIONS:-}"
    local crate
    for crate in fabric mapped net shm tcp ofi routed channel rsm fm jam portals mpi job; do
        run "asan: $crate" env CARGO_TARGET_DIR="$targets/asan" RUSTFLAGS="${RUSTFLAGS:-} -Zsanitizer=address" timeout -k 10 1800 \
            cargo "+$toolchain" test -q --target "$host" -p "farpost-$crate" --lib --tests
    done
}

tsan() {
    run "tsan: toolchain" have_nightly rust-src || return
    export TSAN_OPTIONS="suppressions=$root/tests/sanitize/tsan.txt:halt_on_error=0:exitcode=66:${TSAN_OPTIONS:-}"
    check() {
        local crate=$1
        shift
        run "tsan: $crate $*" env CARGO_TARGET_DIR="$targets/tsan" RUSTFLAGS="${RUSTFLAGS:-} -Zsanitizer=thread" timeout -k 10 1800 \
            cargo "+$toolchain" test -q -Zbuild-std --target "$host" -p "farpost-$crate" "$@"
    }
    check fabric --test conformance
    check shm --test conformance
    check tcp --test conformance
    check mpi --test worlds --test boards --test bursts
    check portals --test processes
    check rsm --test processes
    check job --lib
    check capi --lib
    # C programs with threads on a library that is instrumented too, with and without the library's own thread.
    local name exe progress work runtime built=$targets/tsan/$host/debug
    run "tsan: the C library" env CARGO_TARGET_DIR="$targets/tsan" RUSTFLAGS="${RUSTFLAGS:-} -Zsanitizer=thread" \
        cargo "+$toolchain" build -q -Zbuild-std --target "$host" -p farpost-capi || return
    runtime=$(find "$(rustc "+$toolchain" --print sysroot)/lib/rustlib/$host/lib" -name 'librustc*_rt.tsan.a')
    work=$(mktemp -d "${TMPDIR:-/tmp}/farpost-sanitize.XXXXXX") || return
    trap "rm -rf '$work'" EXIT
    ln -s "$built/libmpi_abi.so" "$work/libmpi_abi.so.1"
    for name in tests/mpi/threads.c tests/mpi/p2p_modes.c tests/mpi/coll_nonblocking.c tests/interfaces/first_call.c \
        tests/interfaces/portals_threads.c tests/interfaces/rsm_computing.c; do
        exe=$work/$(basename "$name" .c)
        # The compiler instruments; the run-time is the toolchain's, which both halves share.
        run "tsan: $name compiles" "${CC:-gcc}" -c -O1 -g -fsanitize=thread -DFARPOST -I"$prefix/include" -Itests/mpi -Itests/interfaces \
            -o "$exe.o" "$name" || continue
        run "tsan: $name links" "${CC:-gcc}" -no-pie -rdynamic -o "$exe" "$exe.o" -Wl,--whole-archive "$runtime" -Wl,--no-whole-archive \
            "$work/libmpi_abi.so.1" -Wl,-rpath,"$work" -lpthread -ldl -lm -lrt || continue
        for progress in 0 1; do
            run "tsan: $name, FARPOST_PROGRESS_THREAD=$progress" env FARPOST_PROGRESS_THREAD="$progress" FARPOST_PROGRESS_TICK=50 \
                CHECK_SECONDS=600 timeout -k 10 660 "$prefix/bin/mpiexec" -n 2 "$exe"
        done
    done
    rm -rf "$work"
}

programs() {
    local work name ranks options
    work=$(mktemp -d "${TMPDIR:-/tmp}/farpost-sanitize.XXXXXX") || return
    trap "rm -rf '$work'" EXIT
    for name in examples/hello.c tests/programs/ring.c tests/programs/samplesort.c tests/mpi/p2p_modes.c tests/mpi/coll_blocking.c tests/mpi/coll_nonblocking.c tests/mpi/datatype.c tests/mpi/comm.c; do
        local exe
        exe=$work/$(basename "$name" .c)
        run "programs: $name builds" "$prefix/bin/mpicc" -std=gnu11 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined \
            -DFARPOST -Itests/mpi -o "$exe" "$name" -lm -lpthread || continue
        for ranks in 2 4; do
            options="detect_leaks=1:abort_on_error=0"
            run "programs: $name -n $ranks" env ASAN_OPTIONS="$options" LSAN_OPTIONS="suppressions=$root/tests/sanitize/lsan.txt" \
                CHECK_SECONDS=300 timeout -k 10 360 "$prefix/bin/mpiexec" -n "$ranks" "$exe"
        done
    done
    rm -rf "$work"
}

fuzz() {
    run "fuzz: toolchain" have_nightly || return
    run "fuzz" env SANITIZER=address RUSTUP_TOOLCHAIN="$toolchain" scripts/fuzz.sh --short
}

[ $# -gt 0 ] || set -- miri asan tsan programs fuzz
for part in "$@"; do
    case $part in
    miri | asan | tsan | programs | fuzz) "$part" ;;
    *) echo "sanitize.sh: part $part: allowed are miri, asan, tsan, programs, fuzz" >&2; exit 2 ;;
    esac
done
echo
printf '%s\n' "${summary[@]}"
exit $failed
