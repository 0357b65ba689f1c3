#!/usr/bin/env bash
# Work stealing whose processes are killed: the result is found all the same, and mpiexec tells who was killed. Run by
# scripts/test-programs.sh, which has built the example.
set -u
work=$(mktemp -d "$BIN/killed.XXXXXX")
trap 'rm -rf "$work"' EXIT
cilk=${CARGO_TARGET_DIR:-$ROOT/target}/debug/examples/jam_cilk
[ -x "$cilk" ] || { echo "FAIL killed: $cilk is missing"; exit 1; }

# until_said WORDS: the job has said it; 1: it has not and is over.
until_said() {
    while ! grep -aq "$1" "$work/out"; do
        kill -0 "$job" 2>/dev/null || return 1
        sleep 0.02
    done
}
# start OPTIONS...: the job in the background, once all of it is at work.
fib=39
start() {
    timeout -k 5 100 "$MPIEXEC" -v "$@" -n 4 "$cilk" $fib >"$work/out" 2>&1 &
    job=$!
    until_said 'area = '
}
# kill_rank RANK: which mpiexec has named, and which is there.
kill_rank() {
    local pid
    until_said "rank $1 on host .* is process [0-9]*:" || echo "rank $1 is not named: $(cat "$work/out")"
    pid=$(sed -n "s/.*rank $1 on host .* is process \([0-9]*\):.*/\1/p" "$work/out")
    kill -9 "$pid" || echo "process $pid of rank $1 could not be killed: $(cat "$work/out")"
}

again=0
for round in 1 2 3; do
    name="killed, round $round"
    first=$((RANDOM % 400)) second=$((RANDOM % 400)) one=$((1 + RANDOM % 3))
    other=$((1 + one % 3))
    name="$name: rank $one after $first ms, rank $other $second ms later"
    start --on-failure continue || { echo "FAIL $name: $(tail -c 500 "$work/out")"; continue; }
    sleep "$(printf '0.%03d' $first)"
    kill_rank $one
    sleep "$(printf '0.%03d' $second)"
    kill_rank $other
    wait "$job"
    code=$?
    if [ $code = 137 ] && grep -aq '^fib(39) = 63245986$' "$work/out" && grep -aq '^process 0: ' "$work/out" &&
        grep -aq "rank $one on host .* killed by signal 9" "$work/out" && grep -aq "rank $other on host .* killed by signal 9" "$work/out"; then
        echo "ok   $name"
    else
        echo "FAIL $name: exit code $code; said: $(tail -c 600 "$work/out")"
    fi
    n=$(sed -n 's/^process 0: .* \([0-9]*\) done again.*/\1/p' "$work/out")
    again=$((again + ${n:-0}))
done
if [ $again -gt 0 ]; then
    echo "ok   killed, $again pieces done again"
else
    echo "FAIL killed: nothing was done again; processes are killed while they have work"
fi

# Who runs the root has the result: without it the others end, by themselves and with a word.
fib=42 # which does not end before it is killed; the others finish what they have begun
start --on-failure continue || echo "FAIL killed, the root: it did not begin: $(tail -c 500 "$work/out")"
kill_rank 0
wait "$job"
code=$?
if [ $code = 137 ] && [ "$(grep -ac 'which ran the root of the computation, has ended' "$work/out")" = 3 ]; then
    echo "ok   killed, the root"
else
    echo "FAIL killed, the root: exit code $code; said: $(tail -c 600 "$work/out")"
fi

# Without the option the others are ended.
start || echo "FAIL killed, and the others ended: they did not begin: $(tail -c 500 "$work/out")"
kill_rank 2
wait "$job"
code=$?
if [ $code = 137 ] && grep -aq 'rank 2 on host .* killed by signal 9 (SIGKILL); ending the others' "$work/out" && ! grep -aq "^fib($fib)" "$work/out"; then
    echo "ok   killed, and the others ended"
else
    echo "FAIL killed, and the others ended: exit code $code; said: $(tail -c 600 "$work/out")"
fi
