#!/usr/bin/env bash
# interface: rsm
# Interrupts from a stranger: refused, counted, told once, and what is right still arrives. Run by scripts/test-programs.sh.
set -u
work=$(mktemp -d "$BIN/strangers.XXXXXX")
trap 'rm -rf "$work"' EXIT
cp "${CARGO_TARGET_DIR:-$ROOT/target}/debug/examples/stranger" "$work/stranger" || { echo "FAIL rsm_strangers: the stranger was not built"; exit 1; }
export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig
# shellcheck disable=SC2046
cc -std=c99 -D_GNU_SOURCE -Wall -Wextra -o "$work/victim" "$ROOT/tests/interfaces/strangers/victim.c" $(pkg-config --cflags --libs farpost-rsm) ||
    { echo "FAIL rsm_strangers: does not compile"; exit 1; }
# MODE LINES: how often the end of a process says that a fault was not asked for
for mode in "asked 0" "untold 5"; do
    # shellcheck disable=SC2086
    set -- $mode
    said=$(timeout -k 5 90 "$MPIEXEC" -n 2 "$work/victim" "$1" : -n 1 "$work/stranger" 2>&1 </dev/null)
    code=$?
    lines=$(grep -c 'node 0: a fault that nobody asked for: process 2 wrote 0x' <<<"$said")
    if [ $code = 0 ] && [ "$lines" = "$2" ]; then
        echo "ok   rsm_strangers $1"
    else
        echo "FAIL rsm_strangers $1: exit code $code, $lines lines about faults instead of $2; said: $said"
    fi
done
