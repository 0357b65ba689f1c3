# What is left when things go wrong: a killed rank, a killed mpiexec, an interrupt. Run by scripts/test-programs.sh.
set -um # with job control, so that a background mpiexec does not ignore SIGINT
[ "$FARPOST" = 1 ] || { echo "skip stress/cleanup: what is left behind is promised by Farpost only"; exit 0; }
exe=$BIN/hang
"$CC" -O1 -Wall -o "$exe" "$ROOT/tests/stress/cases/hang.c" || exit 1
mkdir -p "$BIN/tmp"
export TMPDIR=$BIN/tmp
shm() { ls /dev/shm 2>/dev/null | grep -i farpost; }
before=$(shm)
cleanup() { for f in "$BIN"/pids/[0-9]*; do [ -f "$f" ] && kill -9 "$(cat "$f")" 2>/dev/null; done; }
trap cleanup EXIT

alive() {
    local f n=0
    for f in "$BIN"/pids/[0-9]*; do
        # A zombie that nobody reaped yet is not alive.
        [ -f "$f" ] && [ -d "/proc/$(cat "$f")" ] && ! grep -q '^State:.*Z' "/proc/$(cat "$f")/status" 2>/dev/null && n=$((n + 1))
    done
    echo $n
}
# start HOW RANKS: launches in the background; launcher holds its process number
start() {
    rm -rf "$BIN/pids"
    mkdir "$BIN/pids"
    "$MPIEXEC" -n "$2" "$exe" "$1" "$BIN/pids" </dev/null >"$BIN/out" 2>"$BIN/err" &
    launcher=$!
    for _ in $(seq 400); do
        [ -e "$BIN/pids/ready" ] && return 0
        sleep 0.05
    done
    echo "FAIL stress/cleanup $1: $2 ranks not up after 20 s"
    kill -9 $launcher 2>/dev/null
    cleanup
    return 1
}
# ended NAME WANT_CODE PATTERN: waits for launcher and ranks to go, then looks around
ended() {
    local name=$1 want=$2 pattern=$3 code=- bad=
    for _ in $(seq 100); do
        [ "$(alive)" = 0 ] && ! kill -0 $launcher 2>/dev/null && break
        sleep 0.05
    done
    [ "$(alive)" = 0 ] || bad="$(alive) ranks alive after 5 s"
    if kill -0 $launcher 2>/dev/null; then
        bad="$bad; mpiexec alive after 5 s"
        kill -9 $launcher
    fi
    wait $launcher 2>/dev/null
    code=$?
    [ "$want" = any ] || [ $code = "$want" ] || bad="$bad; exit code $code, not $want"
    [ -z "$pattern" ] || grep -aqE "$pattern" "$BIN/err" || bad="$bad; stderr does not say '$pattern': $(head -c 200 "$BIN/err")"
    [ -z "$(ls -A "$TMPDIR")" ] || bad="$bad; left in TMPDIR: $(ls -A "$TMPDIR" | head -3 | tr '\n' ' ')"
    [ "$(shm)" = "$before" ] || bad="$bad; left in /dev/shm: $(shm | head -3 | tr '\n' ' ')"
    if [ -z "$bad" ]; then echo "ok   stress/cleanup $name"; else echo "FAIL stress/cleanup $name: $bad"; fi
    cleanup
}

for how in recv spin sleep; do
    start $how 4 && { kill -9 "$(cat "$BIN/pids/2")"; ended "kill -9 of a rank, the others in $how" 137 'rank 2'; }
done
start recv 4 && { kill -SEGV "$(cat "$BIN/pids/1")"; ended 'a rank ends with SIGSEGV' 139 'rank 1'; }
for how in recv spin deaf; do
    start $how 4 && { kill -9 $launcher; ended "kill -9 of mpiexec, ranks in $how" any ''; }
done
start recv 4 && { kill -TERM $launcher; ended 'SIGTERM to mpiexec' any ''; }
start recv 3 && { kill -INT $launcher; ended 'SIGINT to mpiexec' any ''; }
start deaf 3 && { kill -INT $launcher; sleep 0.3; kill -INT $launcher; ended 'SIGINT twice, ranks deaf' any ''; }
exit 0
