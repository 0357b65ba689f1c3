#!/bin/sh
# `make demo`: from a fresh clone to an MPI job and its plot. Needs Rust and a C compiler.
set -eu
cd "$(dirname "$0")/.."
prefix=$PWD/build/install
out=${DEMO_DIR:-build/demo}

missing() { echo "make demo: $1" >&2; exit 1; }
command -v "${CARGO:-cargo}" >/dev/null 2>&1 || missing "cargo is not in PATH: install Rust 1.88 or later (rustup.rs)"
command -v cc >/dev/null 2>&1 || command -v gcc >/dev/null 2>&1 || command -v clang >/dev/null 2>&1 ||
    missing "no C compiler: on Debian or Ubuntu, apt-get install gcc libc6-dev"

echo "== Building and installing in $prefix (the first time takes a few minutes)"
"${MAKE:-make}" --no-print-directory install PREFIX="$prefix"

mkdir -p "$out"
echo
echo "== Two ranks of a C program, built by the installed mpicc and started by the installed mpiexec"
cat >"$out/hello.c" <<'C'
#include <mpi.h>
#include <stdio.h>

int main(void) {
    int rank, size, sum;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d: the ranks add up to %d\n", rank, size, sum);
    return MPI_Finalize();
}
C
"$prefix/bin/mpicc" -O2 "$out/hello.c" -o "$out/hello"
"$prefix/bin/mpiexec" -n 2 "$out/hello"

echo
echo "== NetPIPE ping-pong between two ranks"
"$prefix/bin/farpost" bench netpipe --json "$out/netpipe.json" --plot "$out/netpipe.svg" --plot "$out/netpipe.png"
echo
echo "Plots:  $PWD/$out/netpipe.svg"
echo "        $PWD/$out/netpipe.png"
echo "Data:   $PWD/$out/netpipe.json"
echo "Next:   $prefix/bin/farpost bench --help, make test, make compare"
