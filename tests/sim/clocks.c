// The system's clocks and sleeps, and a loop that computes: what they show in a line a rank.
#include <mpi.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double a = now(CLOCK_MONOTONIC);
    struct timespec sleep_for = {100, 500000000}, until;
    nanosleep(&sleep_for, 0);
    usleep(250000);
    sleep(2);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 10;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0);
    double b = now(CLOCK_MONOTONIC);
    struct timeval day;
    gettimeofday(&day, 0);
    printf("rank %d: slept %.6f s, MPI_Wtime since the start of the clock %.6f s, %ld and %ld s after 2000 began\n", rank, b - a,
           MPI_Wtime() - now(CLOCK_MONOTONIC), (long)day.tv_sec - 946684800, (long)time(0) - 946684800);
    MPI_Finalize();
    return 0;
}
