// Where things are: of the program, of a library, on the stack, on the heap.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    int here = 0;
    MPI_Init(NULL, NULL);
    void *memory = malloc(1 << 20);
    printf("%p %p %p %p\n", (void *)main, (void *)MPI_Init, (void *)&here, memory);
    free(memory);
    MPI_Finalize();
    return 0;
}
