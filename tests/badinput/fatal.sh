# The default error handler, MPI_Abort, calls before MPI_Init and after MPI_Finalize, dying ranks, bad variables. Run by
# scripts/test-programs.sh, which sets PREFIX, MPIEXEC, CC, BIN, LOGS, ROOT, FARPOST.
# Requirements of MPI-5.0 section 9.3.
set -u
exe=$BIN/fatal
"$CC" -O1 -g -Wall -o "$exe" "$ROOT/tests/badinput/cases/fatal.c" || exit 1
out=$BIN/fatal.out err=$BIN/fatal.err

# expect NAME CODE PATTERN LINES CASE [env...]: exit code (a number, or nonzero), stderr contains PATTERN, and in Farpost's
# case no more than LINES lines on stderr; nobody gets past the mistake.
expect() {
    local name=$1 code=$2 pattern=$3 lines=$4 what=$5 got bad=
    shift 5
    env "$@" timeout -k 5 30 "$MPIEXEC" -n 2 "$exe" "$what" </dev/null >"$out" 2>"$err"
    got=$?
    [ $got -ne 124 ] && [ $got -ne 137 ] || bad="hung"
    case $code in
    nonzero) [ $got -ne 0 ] || bad="$bad exit code 0" ;;
    *) [ $got -eq "$code" ] || bad="$bad exit code $got, not $code" ;;
    esac
    if [ "$FARPOST" = 1 ]; then
        grep -aqE "$pattern" "$err" || bad="$bad; stderr does not match '$pattern'"
        [ "$(grep -ac . "$err")" -le "$lines" ] || bad="$bad; $(grep -ac . "$err") lines on stderr"
        ! grep -aq panicked "$err" || bad="$bad; a Rust panic shows"
    fi
    ! grep -aq 'still here' "$out" || bad="$bad; went on after the mistake"
    if [ -z "$bad" ]; then
        echo "ok   badinput/fatal $name"
    else
        echo "FAIL badinput/fatal $name: $bad"
        sed 's/^/       /' "$err" | head -8 | cut -c1-200
    fi
}

expect 'bad rank, default handler' nonzero 'MPI_Send.*dest.*99' 3 bad-rank
expect 'truncation, default handler' nonzero 'MPI_Sendrecv|runcat' 4 truncate
expect 'MPI_Abort passes its code' 42 '42' 3 abort
expect 'a call before MPI_Init' nonzero 'MPI_Comm_rank.*MPI_Init' 4 before-init
expect 'a send before MPI_Init' nonzero 'MPI_Send.*MPI_Init' 4 send-before-init
expect 'MPI_Init twice' nonzero 'MPI_Init' 4 init-twice
expect 'MPI_Finalize twice' nonzero 'MPI_Finalize' 4 finalize-twice
expect 'a call after MPI_Finalize' nonzero 'MPI_Barrier.*MPI_Finalize' 4 after-finalize
expect 'exit code of a rank' 7 '' 2 exit-code
expect 'a rank dies of a signal' "$([ "$FARPOST" = 1 ] && echo 139 || echo nonzero)" 'rank 1.*(SIGSEGV|signal 11|egmentation)' 2 segfault
if [ "$FARPOST" = 1 ]; then
    expect 'a rank exits without MPI_Finalize' nonzero 'rank 0.*MPI_Finalize' 2 no-finalize
    expect 'a rank exits without MPI_Session_finalize' nonzero 'rank 0.*without MPI_Session_finalize' 2 no-session-finalize
    expect 'a rank exits with neither' nonzero 'rank 0.*without MPI_Finalize and MPI_Session_finalize' 2 neither-finalize
    expect 'MPI_COMM_WORLD without MPI_Init' nonzero 'MPI_Barrier.*comm=0x101' 4 session-world
    expect 'MPI_COMM_WORLD after MPI_Finalize' nonzero 'MPI_Barrier.*comm=0x101' 4 session-after-world
    expect 'a call after the last session' nonzero 'MPI_Comm_size.*MPI_Session_finalize' 4 after-session
    expect 'exit code of a rank after its session' 7 '' 2 session-exit-code
    # Every tunable that is a number: refused by name, with what is allowed, whatever is wrong with the value.
    tunables=$("$PREFIX/bin/farpost" info --tunables | grep -oE '^ *FARPOST_[A-Z0-9_]+ = [0-9]+ ' | grep -oE 'FARPOST_[A-Z0-9_]+' | sort -u)
    [ -n "$tunables" ] || echo "FAIL badinput/fatal tunables: farpost info --tunables shows none"
    for t in $tunables; do
        expect "$t=banana" nonzero "$t" 4 none "$t=banana"
    done
    # Of those that are text, the ones that any job can tell to be wrong.
    for t in FARPOST_FABRIC FARPOST_TCP_PORTS FARPOST_CONFIG; do
        expect "$t=banana" nonzero "$t" 4 none "$t=banana"
    done
    expect "FARPOST_INTERFACE malformed" nonzero 'FARPOST_INTERFACE' 4 none FARPOST_INTERFACE=10.0.0.0/99
    expect "FARPOST_INTERFACE of another host" nonzero 'FARPOST_INTERFACE=nosuch matches no usable interface of this host, which has .*127.0.0.1' 4 none FARPOST_INTERFACE=nosuch
    expect "FARPOST_INTERFACE of another network" nonzero 'FARPOST_INTERFACE=203.0.113.0/24 matches no usable interface' 4 none FARPOST_INTERFACE=203.0.113.0/24
    expect "number out of range" nonzero 'FARPOST_RSM_SLOTS' 4 none FARPOST_RSM_SLOTS=99999999999
    expect "more segments than a host publishes" nonzero 'FARPOST_RSM_SEGMENTS=81: out of range; allowed are 1 to 80 segments' 4 none FARPOST_RSM_SEGMENTS=81
    expect "unknown variable" nonzero 'FARPOST_NO_SUCH_THING' 4 none FARPOST_NO_SUCH_THING=1
    # Also alone, without a launcher.
    FARPOST_RSM_SLOTS=banana timeout 20 "$exe" none >"$out" 2>"$err"
    if [ $? -ne 0 ] && grep -q FARPOST_RSM_SLOTS "$err"; then echo "ok   badinput/fatal bad variable alone"; else echo "FAIL badinput/fatal bad variable alone: not refused"; fi
    FARPOST_INTERFACE=nosuch timeout 20 "$exe" none >"$out" 2>"$err"
    if [ $? -ne 0 ] && grep -q FARPOST_INTERFACE=nosuch "$err"; then echo "ok   badinput/fatal no such interface, alone"; else echo "FAIL badinput/fatal no such interface, alone: not refused"; fi
fi
