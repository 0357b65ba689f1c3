#!/usr/bin/env bash
# How processes that use an interface without MPI may end, and what mpiexec says of it. Run by scripts/test-programs.sh.
set -u
work=$(mktemp -d "$BIN/endings.XXXXXX")
trap 'rm -rf "$work"' EXIT
cat >"$work/ends.c" <<'C'
#include <farpost/fm.h>
#include <mpi.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (strchr(argv[1], 'm')) MPI_Init(&argc, &argv);
    if (strchr(argv[1], 'f')) FM_initialize();
    /* Silent for so long that the thread which stands in for a computing program is asleep in its place. */
    if (strchr(argv[1], 's')) usleep(20000);
    for (int child = 0; strchr(argv[1], 'k') && child < 20; child++) {
        int status;
        const pid_t forked = fork();
        if (forked == 0) exit(0);
        if (waitpid(forked, &status, 0) != forked || status != 0) abort();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (strchr(argv[1], 'A')) MPI_Abort(MPI_COMM_WORLD, 7);
    if (strchr(argv[1], 'K')) raise(SIGKILL);
    if (strchr(argv[1], 'F')) FM_finalize();
    if (strchr(argv[1], 'M')) MPI_Finalize();
    if (strchr(argv[1], 'f') && strchr(argv[1], 'a')) FM_initialize();
    return argc > 2 ? atoi(argv[2]) : 0;
}
C
export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig
# shellcheck disable=SC2046
cc -o "$work/ends" "$work/ends.c" $(pkg-config --cflags --libs farpost-fm) || { echo "FAIL endings: does not compile"; exit 1; }

# expect CODE WORDS ARGUMENTS: mpiexec's exit code and what it says
expect() {
    local code=$1 words=$2 said
    shift 2
    said=$(timeout 60 "$MPIEXEC" -n 2 "$work/ends" "$@" 2>&1)
    local got=$?
    if [ $got = "$code" ] && case $said in *"$words"*) ;; *) false ;; esac; then
        echo "ok   endings $*"
    else
        echo "FAIL endings $*: exit code $got, expected $code and \"$words\"; said: $said"
    fi
}
expect 0 "" fF
expect 1 "without FM_finalize" f
expect 3 "without FM_finalize" f 3
expect 3 "exited with code 3" fF 3
expect 0 "" mfFM
expect 1 "without FM_finalize" mfM
expect 1 "without MPI_Finalize and FM_finalize" mf
expect 1 "has left its job" fFa

# The same with the thread that makes progress while the program computes.
export FARPOST_PROGRESS_THREAD=1
expect 0 "" msM
expect 0 "" mfsFM
expect 0 "" mkM
expect 0 "" mfkFM
expect 1 "without MPI_Finalize" ms
expect 1 "without MPI_Finalize" mfsF
expect 7 "MPI_Abort" msA
expect 137 "SIGKILL" msK
