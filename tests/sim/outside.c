// Processes meet by files in a directory (argv[1], of argv[2] processes) before MPI_Init and after MPI_Finalize.
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void meet(const char *directory, const char *when, int size) {
    char name[4096];
    snprintf(name, sizeof name, "%s/%s.%d", directory, when, (int)getpid());
    fclose(fopen(name, "w"));
    for (int count = 0; count < size;) {
        count = 0;
        DIR *all = opendir(directory);
        for (struct dirent *entry; (entry = readdir(all)) != NULL;) count += !strncmp(entry->d_name, when, strlen(when));
        closedir(all);
        usleep(1000);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    usleep(50000);
    meet(argv[1], "before", atoi(argv[2]));
    MPI_Init(NULL, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    usleep(50000);
    meet(argv[1], "after", atoi(argv[2]));
    return 0;
}
