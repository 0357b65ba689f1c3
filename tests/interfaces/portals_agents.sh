#!/usr/bin/env bash
# Portals agents on one host: who has one and who is refused; kinds of clients mixed in a job; what becomes of everybody when a
# client, the agent or mpiexec is killed. Run by scripts/test-programs.sh.
set -u
work=$(mktemp -d "$BIN/agents.XXXXXX")
# Processes of the jobs, agents included, have this in their environment, and nothing else has.
mark=OF_TEST=portals-agents-$$
of_jobs() { grep -lasF "$mark" /proc/[0-9]*/environ 2>/dev/null; }
trap 'for p in $(of_jobs); do p=${p#/proc/}; kill -9 "${p%/environ}" 2>/dev/null; done; rm -rf "$work"' EXIT
cat >"$work/asks.c" <<'C'
#include <farpost/portals3.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    int most, rank, ranks;
    unsigned me, size;
    ptl_handle_ni_t ni;
    if (argc > 2) MPI_Init(&argc, &argv);
    if (PtlInit(&most) != PTL_OK) return 3;
    const int rc = PtlNIInit((ptl_interface_t)atoi(argv[1]), PTL_PID_ANY, NULL, NULL, &ni);
    if (rc != PTL_OK) {
        printf("%s: %s\n", PtlErrorStr(rc), PtlErrorMessage());
        PtlFini();
        return 4;
    }
    PtlGetRank(ni, &me, &size);
    printf("process %u of %u\n", me, size);
    if (argc > 2) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank != (int)me || ranks != (int)size) return 5;
        if (strcmp(argv[2], "abort") == 0 && me == 0) MPI_Abort(MPI_COMM_WORLD, 7);
        if (strcmp(argv[2], "abort") == 0) MPI_Barrier(MPI_COMM_WORLD);
        MPI_Finalize();
    }
    PtlFini();
    return 0;
}
C
export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig
flags=$(pkg-config --cflags --libs farpost-portals3)
for program in "$work/asks" "$ROOT"/tests/interfaces/agents/{ends,carried} "$ROOT/tests/interfaces/portals_data"; do
    # shellcheck disable=SC2086
    cc -std=c99 -D_GNU_SOURCE -O1 -o "$work/$(basename "$program")" "$program.c" $flags -lpthread ||
        { echo "FAIL agents: $program.c does not compile"; exit 1; }
done

# judge NAME CODE WANTED WORDS...: what ended with CODE must have said all WORDS (in $work/out), and have left nothing
judge() {
    local name=$1 code=$2 wanted=$3 word
    shift 3
    for _ in $(seq 100); do
        [ -z "$(of_jobs)" ] && break
        sleep 0.05
    done
    [ "$wanted" = any ] || [ "$code" = "$wanted" ] || { echo "FAIL agents, $name: exit code $code, not $wanted; said: $(tail -c 600 "$work/out")"; return; }
    for word in "$@"; do
        [ -z "$word" ] || grep -aqF -- "$word" "$work/out" || { echo "FAIL agents, $name: \"$word\" is missing; said: $(tail -c 600 "$work/out")"; return; }
    done
    [ -z "$(of_jobs)" ] || { echo "FAIL agents, $name: left: $(cat $(of_jobs | sed 's/environ/cmdline/') | tr '\0' ' ')"; return; }
    echo "ok   agents, $name"
}
# expect NAME CODE WORDS -- SETTINGS MPIEXEC ARGUMENTS...
expect() {
    local name=$1 wanted=$2 words=$3
    shift 3
    timeout -k 5 60 env "$mark" "$@" </dev/null >"$work/out" 2>&1
    judge "$name" $? "$wanted" "$words"
}
asks=$work/asks
expect "the setting" 0 "process 1 of 2" FARPOST_PORTALS=generic "$MPIEXEC" -n 2 "$asks" 0
expect "beside MPI" 0 "process 2 of 3" FARPOST_PORTALS=accelerated "$MPIEXEC" -n 3 "$asks" 0 mpi
for kind in generic accelerated; do
    expect "MPI over Portals, and a program's own beside it, $kind" 0 "process 2 of 3" \
        FARPOST_DEVICE=portals FARPOST_PORTALS=$kind "$MPIEXEC" -n 3 "$asks" 0 mpi
done
expect "MPI over Portals of both kinds and inline in one job" 0 "process 2 of 3" FARPOST_DEVICE=portals "$MPIEXEC" -n 1 -env FARPOST_PORTALS accelerated \
    "$asks" 0 mpi : -n 1 -env FARPOST_PORTALS generic "$asks" 0 mpi : -n 1 "$asks" 0 mpi
expect "MPI over Portals, a job without agents" any "FARPOST_PORTALS=generic: this job has no Portals agents" \
    FARPOST_DEVICE=portals FARPOST_PORTALS=generic "$asks" 0 mpi
expect "the program's word" 0 "process 1 of 2" FARPOST_PORTALS=generic "$MPIEXEC" -n 2 "$asks" 3
expect "a job without agents" 4 "PTL_IFACE_GENERIC: this job has no Portals agents" "$MPIEXEC" -n 1 "$asks" 2
expect "alone" 4 "FARPOST_PORTALS=generic: this job has no Portals agents" FARPOST_PORTALS=generic "$asks" 0
expect "a client with an inline interface only" 0 "process 1 of 2" FARPOST_PORTALS=generic "$MPIEXEC" -n 2 "$asks" 1
expect "MPI over Portals, a client that would be inline" any "FARPOST_PORTALS=inline: mpiexec started this process with FARPOST_PORTALS=generic" \
    FARPOST_DEVICE=portals FARPOST_PORTALS=generic "$MPIEXEC" -n 1 env FARPOST_PORTALS=inline "$asks" 0 mpi
expect "set behind mpiexec's back" 4 "mpiexec started this process as one that is reached directly" \
    "$MPIEXEC" -n 1 env FARPOST_PORTALS=generic "$asks" 0 : -n 1 -env FARPOST_PORTALS generic "$asks" 0
expect "a word that is none" 2 "FARPOST_PORTALS=there: allowed are inline, generic and accelerated" FARPOST_PORTALS=there "$MPIEXEC" -n 1 "$asks" 0
expect "no client at all" 0 "" FARPOST_PORTALS=generic "$MPIEXEC" -n 2 true
expect "MPI_Abort" 7 "process 1 of 2" FARPOST_PORTALS=generic "$MPIEXEC" -n 2 "$asks" 0 abort
expect "all kinds in one job" 0 "" "$MPIEXEC" -n 1 -env FARPOST_PORTALS accelerated "$work/portals_data" : -n 1 "$work/portals_data" : \
    -n 1 -env FARPOST_PORTALS generic "$work/portals_data" : -n 1 -env FARPOST_PORTALS inline "$work/portals_data"

# The process of a job with this name, which is not what it is called with.
called() {
    local p
    for p in $(of_jobs); do
        p=${p%/environ}
        [ "$(cat "$p/comm" 2>/dev/null)" != "$1" ] || { echo "${p#/proc/}"; return; }
    done
}
# kills NAME VICTIM CODE WORDS... : of a job of three, once all are at work. VICTIM: as mpiexec -v calls it, or a name. $kind, $how,
# $device, $program, $memory
device=postbox program=ends memory=64m
kills() {
    local name="$1, $kind" victim=$2 wanted=$3 pid job
    shift 3
    # What the job before has said is gone before anybody looks.
    : >"$work/out"
    # shellcheck disable=SC2086
    timeout -k 5 60 env "$mark" FARPOST_PORTALS=$kind FARPOST_DEVICE=$device FARPOST_PORTALS_AGENT_MEMORY=$memory "$MPIEXEC" -v $how -n 3 "$work/$program" </dev/null >>"$work/out" 2>&1 &
    job=$!
    while [ "$(grep -ac 'at work' "$work/out")" -lt 3 ] && kill -0 $job 2>/dev/null; do sleep 0.02; done
    case $victim in
    *" on host") pid=$(sed -n "s/.*$victim [^ ]* is process \([0-9]*\).*/\1/p" "$work/out" | head -n 1) ;;
    *) pid=$(called "$victim") ;;
    esac
    [ -z "$pid" ] || kill -9 "$pid"
    wait $job
    local code=$?
    [ -n "$pid" ] || { echo "FAIL agents, $name: there was nobody to kill; exit code $code, said: $(tail -c 600 "$work/out")"; return; }
    judge "$name" $code "$wanted" "$@"
}
for kind in generic accelerated; do
    how="--on-failure continue"
    kills "a client is killed, the others go on" "rank 2 on host" 137 "process 0 goes on without 2" "process 1 goes on without 2" "rank 2 on host"
    how=
    kills "the agent is killed, its clients are told" "the Portals agent on host" 0 "process 0: my agent has ended" "process 1: my agent has ended" \
        "process 2: my agent has ended" "the Portals agent on host" "was killed by signal 9 (SIGKILL); its clients are told" \
        "this host's Portals agent has ended" "process 2 went on"
    # What a kill meets is a matter of chance: one try passes by luck.
    device=portals program=carried
    for time in {1..8}; do
        # Every other time the longest messages go in parts.
        memory=$((time % 2 ? 64 << 20 : 64 << 10))
        how="--on-failure continue"
        kills "MPI over Portals, a rank is killed, the others go on, time $time" "rank 2 on host" 137 "process 0 went on" "process 1 went on" \
            "was killed by signal 9"
        how=
        kills "MPI over Portals, the agent is killed, time $time" "the Portals agent on host" 0 "cannot be reached" "process 0 went on" \
            "process 1 went on" "process 2 went on"
    done
    device=postbox program=ends memory=64m
done
kills "a client is killed, the job ends" "rank 1 on host" 137 "ending the others"
kills "mpiexec is killed" mpiexec any "at work"
kills "mpiexec's guardian is killed" farpost-guard any "its guardian process was killed"
