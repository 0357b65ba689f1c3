// A program that brings its own malloc.
#include <mpi.h>
#include <stddef.h>

extern void *__libc_malloc(size_t size);

void *malloc(size_t size) {
    return __libc_malloc(size);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    return 0;
}
