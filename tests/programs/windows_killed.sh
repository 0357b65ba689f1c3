#!/usr/bin/env bash
# Ranks are killed while they hold a window's locks, and while they stand in line for one: the others get them all the same.
# Requirements of MPI-5.0 section 12.5.
set -u
work=$(mktemp -d "$BIN/windows_killed.XXXXXX")
trap 'rm -rf "$work"' EXIT
cat >"$work/killed.c" <<'C'
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int me, n, kind = argc > 1 ? atoi(argv[1]) : 0, got = 0;
    volatile int *flag, *own;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Win_allocate_shared(me == 0 ? 2 * sizeof(int) : 0, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &own, &win);
    MPI_Aint size;
    int unit;
    MPI_Win_shared_query(win, 0, &size, &unit, (void *)&flag);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    if (me == 0) flag[0] = flag[1] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == n - 1) {
        if (kind == 2) {
            MPI_Win_lock_all(0, win);
        } else {
            MPI_Win_lock(kind ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, win);
        }
        flag[0] = 1;
        // The others stand in line.
        usleep(20000);
        raise(SIGKILL);
    }
    while (!flag[0]) usleep(100);
    for (int i = 0; i < 10; i++) {
        int code = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        if (code) printf("rank %d: lock: %d\n", me, code), _exit(3);
        int before = flag[1];
        usleep(100);
        flag[1] = before + 1;
        code = MPI_Win_unlock(0, win);
        if (code) printf("rank %d: unlock: %d\n", me, code), _exit(3);
        got++;
    }
    int one = 1, old;
    if (MPI_Win_lock_all(0, win) || MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 0, MPI_SUM, win) || MPI_Win_unlock_all(win)) _exit(4);
    // All that live have come to this.
    while (*(volatile int *)flag < n) usleep(100);
    printf("rank %d: %d of %d\n", me, got, flag[1]);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
C
"$PREFIX/bin/mpicc" -O1 -Wall -Wextra -o "$work/killed" "$work/killed.c" || { echo "FAIL windows_killed: does not compile"; exit 1; }
failed=0
for kind in 0 1 2; do
    for n in 2 4; do
        name="windows_killed, kind $kind, -n $n"
        timeout -k 5 60 "$MPIEXEC" --on-failure continue -n $n "$work/killed" $kind >"$work/out" 2>&1
        code=$?
        if [ $code = 137 ] && [ "$(grep -c ": 10 of $((10 * (n - 1)))$" "$work/out")" = $((n - 1)) ]; then
            echo "ok   $name"
        else
            echo "FAIL $name: exit code $code; said: $(tail -c 600 "$work/out")"
            failed=1
        fi
    done
done
exit $failed
