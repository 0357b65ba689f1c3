// One deliberate mistake that only a check notices, chosen by the first argument; wrong.sh looks at what is told. Every case
// runs to its end without FARPOST_CHECK, but for those that hang or fail by nature, which the script knows.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, other;
static MPI_Comm world;

static void do_differ_function(void) {
    if (rank == 0) MPI_Barrier(world);
    else MPI_Bcast(&rank, 1, MPI_INT, 1, world);
}

static void do_differ_inter(void) {
    MPI_Comm half, inter;
    MPI_Comm_split(world, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, world, 1 - rank % 2, 5, &inter);
    MPI_Comm_set_name(inter, "both halves");
    int x = 0, root = rank % 2 == 0 ? (rank == 0 ? MPI_ROOT : MPI_PROC_NULL) : 1;
    if (size > 3) MPI_Bcast(&x, 1, MPI_INT, root, inter);
    else if (rank % 2 == 0) MPI_Barrier(inter);
    else MPI_Allreduce(&root, &x, 1, MPI_INT, MPI_SUM, inter);
}

static void do_root(void) {
    int x = rank;
    MPI_Bcast(&x, 1, MPI_INT, rank == 0 ? 0 : 1, world);
}

static void do_op(void) {
    int x = rank, y = 0;
    MPI_Allreduce(&x, &y, 1, MPI_INT, rank == 0 ? MPI_SUM : MPI_MAX, world);
}

static void do_count(void) {
    double x[8] = {0}, y[8];
    MPI_Reduce(x, y, rank == 0 ? 8 : 7, MPI_DOUBLE, MPI_SUM, 0, world);
}

static void do_types(void) {
    double x[4] = {0};
    // 16 bytes either way, so that nothing else notices.
    if (rank == 0) MPI_Bcast(x, 4, MPI_FLOAT, 0, world);
    else MPI_Bcast(x, 2, MPI_DOUBLE, 0, world);
}

static void do_gatherv(void) {
    int x[3] = {1, 2, 3}, all[64], counts[16], displs[16];
    for (int i = 0; i < size; i++) counts[i] = i == 1 ? 3 : 2, displs[i] = 3 * i;
    MPI_Gatherv(x, 2, MPI_INT, all, counts, displs, MPI_INT, 0, world);
}

static void do_nonblocking(void) {
    int x = rank, y = 0;
    MPI_Request r;
    if (rank == 0) MPI_Iallreduce(&x, &y, 1, MPI_INT, MPI_SUM, world, &r);
    else MPI_Ireduce(&x, &y, 1, MPI_INT, MPI_SUM, 0, world, &r);
    // Neither is ever complete everywhere; rank 0 hears of the other one meanwhile.
    for (double end = MPI_Wtime() + 2; MPI_Wtime() < end;) {
        int done;
        if (r != MPI_REQUEST_NULL) MPI_Test(&r, &done, MPI_STATUS_IGNORE);
        else MPI_Iprobe(MPI_ANY_SOURCE, 1, world, &done, MPI_STATUS_IGNORE);
    }
    exit(3);
}

static void do_never_called(void) {
    int x[256] = {7};
    // The root of a broadcast of so many bytes waits for nobody.
    if (rank == 0) MPI_Bcast(x, 256, MPI_INT, 0, world);
}

static void do_never_joined(void) {
    MPI_Comm comm;
    int x[256] = {7};
    MPI_Comm_dup(world, &comm);
    if (rank == 0) MPI_Bcast(x, 256, MPI_INT, 0, comm);
    MPI_Finalize();
    printf("to the end\n");
    exit(0);
}

static void do_nothing(void) {}

static void do_message_types(void) {
    struct pair { int i, j; double d; } a = {1, 2, 3.0};
    double in[2];
    MPI_Datatype t;
    const int lengths[2] = {2, 1};
    const MPI_Aint places[2] = {0, 8};
    const MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE};
    MPI_Type_create_struct(2, lengths, places, types, &t);
    MPI_Type_commit(&t);
    // 16 bytes either way.
    if (rank == 0) MPI_Send(&a, 1, t, 1, 5, world);
    if (rank == 1) MPI_Recv(in, 2, MPI_DOUBLE, 0, 5, world, MPI_STATUS_IGNORE);
    MPI_Type_free(&t);
}

static void do_bytes(void) {
    int x = 1;
    char in[4];
    if (rank == 0) MPI_Send(&x, 1, MPI_INT, 1, 5, world);
    if (rank == 1) {
        MPI_Request r;
        MPI_Irecv(in, 4, MPI_BYTE, 0, 5, world, &r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
}

static void do_truncated(void) {
    int x[4] = {0};
    if (rank == 0) MPI_Send(x, 4, MPI_INT, 1, 5, world);
    if (rank == 1) MPI_Recv(x, 2, MPI_INT, 0, 5, world, MPI_STATUS_IGNORE);
}

static void do_overlap(void) {
    int x[8] = {0};
    MPI_Request r[2];
    MPI_Irecv(x, 5, MPI_INT, other, 1, world, &r[0]);
    MPI_Irecv(x + 4, 4, MPI_INT, other, 2, world, &r[1]);
    int y[8] = {0};
    MPI_Send(y, 5, MPI_INT, other, 1, world);
    MPI_Send(y, 4, MPI_INT, other, 2, world);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

static void do_overlap_send(void) {
    int x[8] = {0};
    MPI_Request r;
    MPI_Isend(x, 8, MPI_INT, other, 1, world, &r);
    MPI_Recv(x + 7, 1, MPI_INT, other, 2, world, MPI_STATUS_IGNORE);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void overlap_send(void) {
    int y[8] = {0};
    if (rank == 0) do_overlap_send();
    if (rank == 1) {
        MPI_Recv(y, 8, MPI_INT, other, 1, world, MPI_STATUS_IGNORE);
        MPI_Send(y, 1, MPI_INT, other, 2, world);
    }
}

static void overlap_coll(void) {
    int x[64] = {0}, y[2] = {0}, counts[16], displs[16];
    for (int i = 0; i < size; i++) counts[i] = 2, displs[i] = i;
    MPI_Allgatherv(y, 2, MPI_INT, x, counts, displs, MPI_INT, world);
}

static void do_overlap_type(void) {
    int x[8] = {0}, y[4] = {0};
    MPI_Datatype t;
    MPI_Type_vector(2, 2, 1, MPI_INT, &t);
    MPI_Type_commit(&t);
    MPI_Sendrecv(y, 4, MPI_INT, other, 1, x, 1, t, other, 1, world, MPI_STATUS_IGNORE);
    MPI_Type_free(&t);
}

static void do_changed(void) {
    static int x[4];
    if (rank == 0) {
        MPI_Request r;
        MPI_Isend(x, 4, MPI_INT, 1, 1, world, &r);
        x[3] = 9;
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    if (rank == 1) MPI_Recv(x, 4, MPI_INT, 0, 1, world, MPI_STATUS_IGNORE);
}

static void do_changed_coll(void) {
    static int x, y;
    MPI_Request r;
    MPI_Iallreduce(&x, &y, 1, MPI_INT, MPI_SUM, world, &r);
    x = rank + 1;
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static int copy_nothing(MPI_Comm c, int k, void *e, void *in, void *out, int *flag) {
    (void)c, (void)k, (void)e, (void)in, (void)out;
    *flag = 0;
    return MPI_SUCCESS;
}

static void sum(void *in, void *inout, int *n, MPI_Datatype *t) {
    (void)t;
    for (int i = 0; i < *n; i++) ((int *)inout)[i] += ((int *)in)[i];
}

static void handler(MPI_Comm *c, int *code, ...) { (void)c, (void)code; }

static void do_left(void) {
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Group group;
    MPI_Op op;
    MPI_Errhandler errhandler;
    MPI_Info info;
    int keyval;
    MPI_Comm_dup(world, &comm);
    MPI_Comm_set_name(comm, "forgotten");
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Comm_group(world, &group);
    MPI_Op_create(sum, 1, &op);
    MPI_Comm_create_errhandler(handler, &errhandler);
    MPI_Info_create(&info);
    MPI_Comm_create_keyval(copy_nothing, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
}

static void do_requests(void) {
    static int x[2];
    MPI_Request r[2];
    if (rank == 0) MPI_Isend(x, 1, MPI_INT, 1, 1, world, &r[0]);
    if (rank == 1) MPI_Recv(x, 1, MPI_INT, 0, 1, world, MPI_STATUS_IGNORE);
    MPI_Recv_init(x + 1, 1, MPI_INT, other, 2, world, &r[1]);
}

static void do_unreceived(void) {
    int x[3] = {0};
    if (rank == 0) MPI_Send(x, 3, MPI_INT, 1, 42, world);
}

static void do_twice(void) {
    int x = 0;
    MPI_Request r, copy;
    if (rank == 0) {
        MPI_Isend(&x, 1, MPI_INT, 1, 1, world, &r);
        copy = r;
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        MPI_Wait(&copy, MPI_STATUS_IGNORE);
    }
    if (rank == 1) MPI_Recv(&x, 1, MPI_INT, 0, 1, world, MPI_STATUS_IGNORE);
}

static void do_uncommitted(void) {
    int x[3] = {0};
    MPI_Datatype t;
    MPI_Type_contiguous(3, MPI_INT, &t);
    MPI_Send(x, 1, t, other, 1, world);
}

static void do_after(void) {
    MPI_Finalize();
    MPI_Barrier(world);
}

static void do_many(void) {
    char in[4];
    int x = 1;
    for (int i = 0; i < 5; i++) {
        if (rank == 0) MPI_Send(&x, 1, MPI_INT, 1, 5, world);
        if (rank == 1) MPI_Recv(in, 4, MPI_BYTE, 0, 5, world, MPI_STATUS_IGNORE);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"function", do_differ_function}, {"inter", do_differ_inter},     {"root", do_root},
    {"op", do_op},                    {"count", do_count},            {"types", do_types},
    {"gatherv", do_gatherv},          {"nonblocking", do_nonblocking}, {"never-called", do_never_called},
    {"message-types", do_message_types}, {"bytes", do_bytes},         {"truncated", do_truncated},
    {"overlap", do_overlap},          {"overlap-send", overlap_send},  {"overlap-blocks", overlap_coll},
    {"overlap-type", do_overlap_type}, {"changed", do_changed},       {"changed-coll", do_changed_coll},
    {"left", do_left},                {"requests", do_requests},      {"unreceived", do_unreceived},
    {"twice", do_twice},              {"uncommitted", do_uncommitted}, {"after", do_after},
    {"many", do_many},                 {"never-joined", do_never_joined}, {"nothing", do_nothing},
};

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    world = MPI_COMM_WORLD;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    other = rank ^ 1;
    if (other >= size) other = MPI_PROC_NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            MPI_Finalize();
            printf("to the end\n");
            return 0;
        }
    fprintf(stderr, "no such case\n");
    return 2;
}
