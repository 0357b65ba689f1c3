// ranks: 1 2
// farpost: only
// Handles and statuses as programs in C and Fortran hand them to each other, by functions that are not of the ABI and so inline. Also
// compiled as C++.
// Requirements of MPI-5.0 section 20.4.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank, size, failures;
#define CHECK(c)                                                                                                                 \
    do {                                                                                                                         \
        if (!(c)) failures++, fprintf(stderr, "FAIL %s:%d: rank %d: %s\n", __FILE__, __LINE__, rank, #c);                        \
    } while (0)
#define BOTH_WAYS(kind, handle)                                                                                                  \
    do {                                                                                                                         \
        const MPI_Fint number_ = kind##_c2f(handle);                                                                             \
        CHECK(kind##_f2c(number_) == (handle) && P##kind##_f2c(P##kind##_c2f(handle)) == (handle));                              \
    } while (0)

static void handler(MPI_Comm *comm, int *code, ...) { (void)comm, (void)code; }
static void op(void *in, void *inout, int *n, MPI_Datatype *type) { (void)in, (void)inout, (void)n, (void)type; }

int main(int argc, char **argv) {
    MPI_Comm comm;
    MPI_Group group;
    MPI_Datatype type;
    MPI_Op sum;
    MPI_Info info;
    MPI_Errhandler errhandler;
    MPI_Session session;
    MPI_Request request;
    MPI_Status status, again;
    MPI_Fint numbers[MPI_F_STATUS_SIZE];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_group(comm, &group);
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Op_create(op, 1, &sum);
    MPI_Info_create(&info);
    MPI_Comm_create_errhandler(handler, &errhandler);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    BOTH_WAYS(MPI_Comm, comm);
    BOTH_WAYS(MPI_Comm, MPI_COMM_WORLD);
    BOTH_WAYS(MPI_Comm, MPI_COMM_NULL);
    BOTH_WAYS(MPI_Group, group);
    BOTH_WAYS(MPI_Type, type);
    BOTH_WAYS(MPI_Type, MPI_DOUBLE);
    BOTH_WAYS(MPI_Op, sum);
    BOTH_WAYS(MPI_Op, MPI_SUM);
    BOTH_WAYS(MPI_Info, info);
    BOTH_WAYS(MPI_Errhandler, errhandler);
    BOTH_WAYS(MPI_Session, session);
    BOTH_WAYS(MPI_Message, MPI_MESSAGE_NULL);
    BOTH_WAYS(MPI_File, MPI_FILE_NULL);
    BOTH_WAYS(MPI_Win, MPI_WIN_NULL);
    const int out[2] = {3, 4};
    int in[5], count = 0;
    const int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Irecv(in, 5, MPI_INT, from, 17, comm, &request);
    BOTH_WAYS(MPI_Request, request);
    MPI_Send(out, 2, MPI_INT, to, 17, comm);
    MPI_Wait(&request, &status);
    // Nothing of it is lost on the way: the count is in what no program sees.
    CHECK(MPI_Status_c2f(&status, numbers) == MPI_SUCCESS);
    CHECK(numbers[MPI_F_SOURCE] == from && numbers[MPI_F_TAG] == 17 && numbers[MPI_F_ERROR] == status.MPI_ERROR);
    memset(&again, 0x5a, sizeof again);
    CHECK(PMPI_Status_f2c(numbers, &again) == MPI_SUCCESS);
    CHECK(memcmp(&status, &again, sizeof status) == 0);
    MPI_Get_count(&again, MPI_INT, &count);
    CHECK(count == 2);
    CHECK(MPI_Status_f2c(MPI_F_STATUS_IGNORE, &again) != MPI_SUCCESS);
    CHECK(MPI_Status_c2f(MPI_STATUS_IGNORE, numbers) != MPI_SUCCESS);
    MPI_Session_finalize(&session);
    MPI_Errhandler_free(&errhandler);
    MPI_Info_free(&info);
    MPI_Op_free(&sum);
    MPI_Type_free(&type);
    MPI_Group_free(&group);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return failures != 0;
}
