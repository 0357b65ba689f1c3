#!/bin/sh
# Instructions of an 8-byte MPI_Send and of the MPI_Recv that finds its message, over postboxes: counted by callgrind, the caller's
# loop included. PREFIX is the installed tree (default: build/install). Needs valgrind and its headers.
set -eu
cd "$(dirname "$0")/.."
prefix=${PREFIX:-build/install}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
"$prefix/bin/mpicc" -O2 bench/instructions.c -o "$work/program"
for n in 10 50; do
    # shellcheck disable=SC2016
    "$prefix/bin/mpiexec" -n 2 valgrind --tool=callgrind --collect-atstart=no \
        --callgrind-out-file="$work/$n.%q{FARPOST_RANK}" "$work/program" $n 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
done
total() { sed -n 's/^totals: //p' "$work/$1"; }
echo "MPI_Send $((($(total 50.0) - $(total 10.0)) / 40))"
echo "MPI_Recv $((($(total 50.1) - $(total 10.1)) / 40))"
