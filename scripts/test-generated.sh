#!/usr/bin/env bash
# Random legal MPI programs (crates/generate) on an installed tree: every device and fabric, limits drawn down, shrunk findings in C.
#
#   PREFIX=dir scripts/test-generated.sh                a fixed number of programs; seeds from the content of the commit (scripts/tree.sh)
#   PREFIX=dir MINUTES=60 scripts/test-generated.sh soak   as long as that; goes on where the last soak ended (make soak)
#   PREFIX=dir scripts/test-generated.sh check          on MPICH too: what fails there is probably not legal
#
#   BACKENDS   where, default all: shm fm jam portals generic accelerated, and between two emulated hosts tcp ofi tcp-fm tcp-jam tcp-portals tcp-encrypted
#   RANKS      numbers of ranks to draw from
#   PROGRAMS   how many of a test
#   MINUTES    of a soak
#   LONGEST    seconds that a program may take before it hangs, default 60: more beside a busy machine
#   OUT        where findings go, and a soak's state: build/generated, build/soak
#   STREAM     a number: a soak beside others, with seeds and a directory of its own (build/soak/NUMBER)
#   GENERATE   the farpost-generate to use; else it is built
#   TREE       repeats the seeds of a test
#
# A finding is NAME.txt, what was said, and NAME.c, a short program in C that does it, with its command in the first lines.
# Exit code 1 if there was one.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
prefix=$(cd "${PREFIX:?set PREFIX to the install tree to test}" && pwd) || exit 1
mode=${1:-test}
case $mode in test | soak | check) ;; *) echo "test-generated.sh: $mode: test (the default), soak or check" >&2; exit 2 ;; esac
stream=${STREAM:-}
case $stream in *[!0-9]* | ????*) echo "test-generated.sh: STREAM=$stream: must be a number up to 999" >&2; exit 2 ;; esac
out=${OUT:-$here/build/$([ "$mode" = soak ] && echo "soak${stream:+/$stream}" || echo generated)}
mkdir -p "$out"
# Two at a time would use each other's files.
exec 9>"$out/.lock"
flock -n 9 || { echo "test-generated.sh: $out is in use by another one" >&2; exit 2; }
cd "$here" || exit 1
program=${GENERATE:-}
if [ -z "$program" ]; then
    "${CARGO:-cargo}" build -q --release -p farpost-generate || exit 1
    program=${CARGO_TARGET_DIR:-$here/target}/release/farpost-generate
fi

backends=${BACKENDS:-shm fm jam portals generic accelerated tcp ofi tcp-fm tcp-jam tcp-portals tcp-encrypted}
[ "$mode" != check ] || backends=${BACKENDS:-mpich shm}
options=() set=
end() {
    [ -z "$set" ] || TEST_HOSTS=$set "$here/tests/net/hosts.py" down >/dev/null 2>&1
}
trap end EXIT
trap 'exit 130' INT TERM
export PYTHONDONTWRITEBYTECODE=1

between=$(echo "$backends" | tr ' ,' '\n\n' | grep -E '^(tcp|ofi)' | tr '\n' ' ')
near=$(echo "$backends" | tr ' ,' '\n\n' | grep -vE '^(tcp|ofi)' | tr '\n' ' ')
case " $between $near " in *" mpich "* | *" tcp"* | *" ofi"*)
    # MPICH's launcher starts ranks on other hosts; its library is the other opinion.
    mpich=$("$here/scripts/fetch-peers.sh" mpich 2>/dev/null | sed -n 's/^mpich //p')
    [ -z "$mpich" ] || options+=(--mpich "$mpich")
    ;;
esac
if [ -n "$between" ]; then
    if [ -z "$mpich" ]; then
        echo "*** SKIPPED: generated programs between hosts: mpiexec.hydra could not be fetched"
        between=
    elif ! set=$("$here/tests/net/hosts.py" up 2 2>&1); then
        echo "*** SKIPPED: generated programs between hosts: $set"
        set= between=
    else
        export TEST_HOSTS=$set
        options+=(--hosts "$here/tests/net/hosts.py" --rsh "$("$here/tests/net/hosts.py" rsh)")
    fi
fi
if ! PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | grep -q 'libfabric\.so\.1 ' && [ -z "${FARPOST_OFI_LIBRARY:-}" ]; then
    case " $between " in *" ofi "*)
        echo "*** SKIPPED: generated programs by libfabric: it is not installed (Debian: libfabric1)"
        between=$(echo "$between" | tr ' ' '\n' | grep -v '^ofi$' | tr '\n' ' ')
        ;;
    esac
fi
backends=$(echo $near $between | tr ' ' ',')

case $mode in
test)
    # A file of programs meets every way, once; about two minutes on two idle cores.
    seed=$("$here/scripts/tree.sh" --number) || exit 2
    seed=$((seed * 1000))
    echo "generated programs from seed $seed on (TREE=$("$here/scripts/tree.sh") repeats them)"
    # What hangs is ended, its report has the roll-call, and nothing is left of it.
    rm -rf "$out/hangs"
    if "$program" run --prefix "$prefix" --out "$out/hangs" --file tests/generated/hangs.c --ranks 2 --seconds 4 >"$out/hangs.txt" 2>&1 ||
        ! grep -q 'no end, it was stopped' "$out/hangs/shm-2-file.txt" || ! grep -q deadlock "$out/hangs/shm-2-file.txt" ||
        pgrep -f "$out/hangs/file" >/dev/null; then
        echo "FAIL a program that hangs is not ended as it should be:"
        cat "$out/hangs.txt" "$out"/hangs/*.txt
        exit 1
    fi
    "$program" run --prefix "$prefix" --out "$out" --backends "$backends" --seconds "${LONGEST:-60}" --ranks "${RANKS:-2,2,3,3,4,5}" --seed $seed \
        --programs "${PROGRAMS:-36}" --batch 12 --rounds 1 --shrink 40 "${options[@]}"
    ;;
check)
    seed=$(($("$here/scripts/tree.sh" --number) * 1000)) || exit 2
    "$program" run --prefix "$prefix" --out "$out" --backends "$backends" --seconds "${LONGEST:-60}" --ranks "${RANKS:-2,3}" --seed $seed --for-others \
        --programs "${PROGRAMS:-40}" --batch 8 --shrink 20 "${options[@]}"
    ;;
soak)
    minutes=${MINUTES:-60}
    # The first soak begins with the content of the commit; the next ones go on behind.
    seed=$(($("$here/scripts/tree.sh" --number) * 1000 + 500)) || exit 2
    # A stream's seeds are far from those of all trees and of the other streams.
    seed=$((seed + 10#0$stream * 10000000000000))
    "$program" run --prefix "$prefix" --out "$out" --backends "$backends" --seconds "${LONGEST:-60}" --ranks "${RANKS:-2,2,3,3,4,4,5,6,8}" --seed $seed --resume \
        --time $((minutes * 60)) --programs 1000000000 --batch 12 --rounds 2 "${options[@]}" | tee -a "$out/log.txt"
    exit "${PIPESTATUS[0]}"
    ;;
esac
