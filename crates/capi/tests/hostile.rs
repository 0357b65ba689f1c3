//! Every function of the interface, called with null pointers, senseless numbers and garbage handles: the
//! program survives, functions that got a bad handle say so, and the library is usable afterwards.

mod common;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use farpost_apigen::Api;
use farpost_apigen::model::{Dir, Function, Param};

/// Not called: they end the program or the library, or wait for others by their nature.
const LEFT_OUT: &[&str] = &[
    "MPI_Abort",
    "MPI_Finalize",
    "MPI_Init",
    "MPI_Init_thread",
    "MPI_Session_finalize",
];

fn argument(api: &Api, p: &Param, garbage: bool, large: bool) -> String {
    let ty = p.c_type(large);
    let handle = api.handles.iter().any(|h| h.name == p.c);
    if p.kind == "RANGE_TRIPLET" {
        return "NULL".into();
    }
    if ty.ends_with('*') || p.pointer || ty.contains("function") {
        return "NULL".into();
    }
    if handle {
        return format!("({ty}){}", if garbage { "0x7eadbeef" } else { "0" });
    }
    if garbage {
        format!("({ty})-77")
    } else {
        format!("({ty})0")
    }
}

/// A handle that the function has to refuse.
fn takes_required_handle(f: &Function) -> bool {
    f.params.iter().any(|p| {
        p.dir == Dir::In
            && p.len.is_none()
            && !p.null
            && !p.at_root
            && matches!(
                p.kind.as_str(),
                "COMMUNICATOR" | "GROUP" | "DATATYPE" | "OPERATION" | "ERRHANDLER"
            )
    })
}

fn program(api: &Api, implemented: &BTreeSet<&str>) -> String {
    let mut c = String::from(
        "#include <mpi.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
         #include <sys/wait.h>\n\
         static int run(int i) {\n    int rc = 0;\n    switch (i) {\n",
    );
    let mut names = String::from("static const struct { const char *name; int must_fail; } calls[] = {\n");
    let mut number = 0;
    for (name, f, large) in api.listed() {
        if LEFT_OUT.contains(&f.name.as_str()) || f.returns.is_some() {
            continue;
        }
        for garbage in [false, true] {
            let args: Vec<String> = f
                .params_of(large)
                .filter(|p| p.kind != "VARARGS")
                .map(|p| argument(api, p, garbage, large))
                .collect();
            writeln!(c, "    case {number}: rc = {name}({}); break;", args.join(", ")).unwrap();
            let must_fail = !implemented.contains(name.as_str()) || (garbage && takes_required_handle(f));
            writeln!(names, "    {{\"{name}\", {}}},", i32::from(must_fail)).unwrap();
            number += 1;
        }
    }
    c.push_str("    }\n    return rc;\n}\n");
    names.push_str("};\n");
    c.push_str(&names);
    c.push_str(
        r#"
static int child(int i) {
    MPI_Init(NULL, NULL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    alarm(20);
    int rc = run(i), rank = -1, length = 0, class = 0;
    char text[MPI_MAX_ERROR_STRING];
    if (calls[i].must_fail && rc == MPI_SUCCESS) return 2;
    if (rc != MPI_SUCCESS) {
        if (MPI_Error_class(rc, &class) != MPI_SUCCESS) return 3;
        if (MPI_Error_string(rc, text, &length) != MPI_SUCCESS || length == 0) return 4;
        /* The sentence names the function, except for the codes of the tools interface. */
        if (class < 1000 && strstr(text, calls[i].name) == NULL) { puts(text); return 5; }
    }
    int sent = 42, got = 0;
    MPI_Request request;
    if (MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS || rank != 0) return 6;
    if (MPI_Irecv(&got, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &request) != MPI_SUCCESS) return 7;
    if (MPI_Send(&sent, 1, MPI_INT, 0, 1, MPI_COMM_SELF) != MPI_SUCCESS) return 8;
    if (MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS || got != 42) return 9;
    if (MPI_Finalize() != MPI_SUCCESS) return 10;
    return 0;
}

int main(void) {
    static const char *why[] = {"", "", "succeeded", "no class", "no string", "not named", "Comm_rank",
                                "Irecv", "Send", "Wait", "Finalize"};
    int bad = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) _exit((fflush(stdout), child((int)i)));
        int status = 0;
        waitpid(pid, &status, 0);
        if (status == 0) continue;
        bad++;
        if (WIFSIGNALED(status)) printf("%s: signal %d\n", calls[i].name, WTERMSIG(status));
        else if (WEXITSTATUS(status) <= 10) printf("%s: %s\n", calls[i].name, why[WEXITSTATUS(status)]);
        else printf("%s: exit status %d\n", calls[i].name, WEXITSTATUS(status));
    }
    return bad != 0;
}
"#,
    );
    c
}

#[test]
fn no_function_dies_of_its_arguments() {
    let api = Api::builtin();
    let implemented = mpi_abi::api_status::FUNCTIONS
        .iter()
        .filter(|(_, done)| *done)
        .map(|(name, _)| *name)
        .collect();
    let output = common::run("hostile", &program(&api, &implemented));
    let (said, complained) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let tail: Vec<&str> = complained.lines().take(20).collect();
    assert!(output.status.success(), "{said}\n{}", tail.join("\n"));
}
