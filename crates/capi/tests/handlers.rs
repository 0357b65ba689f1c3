//! Which error handler hears of an error.

mod common;

#[test]
fn a_request_tells_its_communicators_handler() {
    let output = common::run(
        "handlers",
        r#"
#include <mpi.h>
static MPI_Comm heard = MPI_COMM_NULL;
static void handler(MPI_Comm *comm, int *code, ...) { heard = *comm; }
int main(void) {
    MPI_Comm loud, quiet;
    MPI_Errhandler errhandler;
    MPI_Request request;
    int sent[2] = {1, 2}, got = 0, class = 0;
    MPI_Init(0, 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &quiet);
    MPI_Comm_dup(MPI_COMM_WORLD, &loud);
    MPI_Comm_create_errhandler(handler, &errhandler);
    MPI_Comm_set_errhandler(loud, errhandler);
    for (int i = 0; i < 2; i++) {
        MPI_Comm comm = i ? loud : quiet;
        MPI_Irecv(&got, 1, MPI_INT, 0, 0, comm, &request);
        MPI_Send(sent, 2, MPI_INT, 0, 0, comm);
        int code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Error_class(code, &class);
        if (class != MPI_ERR_TRUNCATE) return 1;
        if (heard != (i ? loud : MPI_COMM_NULL)) return 2 + i;
    }
    return MPI_Finalize();
}
"#,
    );
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn errors_are_fatal_unless_the_program_says_otherwise() {
    let output = common::run(
        "fatal",
        "#include <mpi.h>\nint main(void) { MPI_Init(0, 0); MPI_Send(0, -1, MPI_INT, 0, 0, MPI_COMM_WORLD); return 0; }\n",
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        said.contains("MPI_Send: count=-1: must not be negative"),
        "{said}"
    );
    assert!(said.contains("MPI_COMM_WORLD"), "{said}");
}

/// A tool defines MPI_X and calls PMPI_X: every call of the program, and no call of the library's, passes it.
#[test]
fn a_tool_sees_the_programs_calls() {
    let output = common::run(
        "tool",
        r#"
#include <mpi.h>
static int sends, barriers;
int MPI_Send(const void *b, int n, MPI_Datatype t, int d, int g, MPI_Comm c) { sends++; return PMPI_Send(b, n, t, d, g, c); }
int MPI_Barrier(MPI_Comm c) { barriers++; return PMPI_Barrier(c); }
int main(void) {
    int x = 1, y = 0;
    MPI_Request request;
    MPI_Init(0, 0);
    MPI_Irecv(&y, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
    MPI_Send(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&x, 1, MPI_INT, 0, 0, &y, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    PMPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return sends == 1 && barriers == 1 && y == 1 ? 0 : 10 * sends + barriers;
}
"#,
    );
    assert!(output.status.success(), "{output:?}");
}
