#!/usr/bin/env bash
# Ranks that are killed at moments drawn from seeds, and programs that go on without them (farpost/mpix.h). Run by scripts/test-programs.sh.
# The seeds are the tree's; SEED=n is another one.
set -u
number=$("$ROOT/scripts/tree.sh" --number)
work=$(mktemp -d "$BIN/failures.XXXXXX")
trap 'rm -rf "$work"' EXIT
"$CC" -O1 -g -I"$ROOT/tests/mpi" "$ROOT/tests/mpi/failures.c" -o "$work/failures" &&
    "$CC" -O1 -g "$ROOT/examples/stencil_survives.c" -o "$work/stencil" || { echo "FAIL failures: the programs do not build"; exit 1; }

for round in 1 2 3 4; do
    seed=${SEED:-$((number % 100000 + round))}
    ranks=$((2 + round))
    [ $round = 4 ] && ranks=8
    timeout -k 5 60 "$MPIEXEC" --on-failure continue -n $ranks "$work/failures" $seed >"$work/out" 2>&1
    code=$?
    if [ $code = 137 ] && [ "$(grep -ac '^rank [0-9]* went on$' "$work/out")" = $((ranks - 1)) ] && ! grep -aq FAIL "$work/out"; then
        echo "ok   failures: one of $ranks ranks is killed"
    else
        echo "FAIL failures: one of $ranks ranks is killed, SEED=$seed: exit code $code; said: $(tail -c 900 "$work/out" | tr '\n' ' ')"
    fi
    timeout -k 5 60 "$MPIEXEC" --on-failure continue -n $ranks "$work/stencil" $seed >"$work/out" 2>&1
    code=$?
    if { [ $code = 137 ] || [ $code = 0 ]; } && grep -aq '^right, by ' "$work/out" && ! grep -aqE 'wrong|without MPI_Finalize' "$work/out"; then
        echo "ok   failures: a stencil of $ranks ranks"
    else
        echo "FAIL failures: a stencil of $ranks ranks, SEED=$seed: exit code $code; said: $(tail -c 900 "$work/out" | tr '\n' ' ')"
    fi
done
