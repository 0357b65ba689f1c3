//! The reference page: every function with its prototype and whether it is implemented.

use crate::bodies::Bodies;
use crate::header::prototype;
use crate::model::{Api, CHAPTERS};

/// Markdown.
pub fn page(api: &Api, bodies: &Bodies) -> String {
    let total = api.listed().count();
    let done = api.listed().filter(|(_, f, _)| bodies.has(f)).count();
    let codes = api
        .listed()
        .filter(|(_, f, _)| f.returns.as_deref().is_none_or(|r| r == "int"))
        .count();
    let mut out = format!(
        "# The MPI functions\n\n\
         Generated from `api/mpi.toml` and the sources; do not edit.\n\n\
         The MPI-5.0 C ABI has {total} functions: {codes} return an `int` and {} another type (`MPI_Wtime`, \
         `MPI_Wtick`, `MPI_Aint_add`, `MPI_Aint_diff` and the `_fromint` family). Each is exported as `MPI_X` and \
         `PMPI_X`, {} names in all. {done} are implemented; the others raise `MPI_ERR_UNSUPPORTED_OPERATION` \
         through the error handler.\n",
        total - codes,
        2 * total
    );
    for (chapter, title) in CHAPTERS {
        text!(out: "\n## {title}\n\n| Function | | Prototype |\n|---|---|---|\n");
        for (name, f, large) in api.listed().filter(|(_, f, _)| f.chapter == *chapter) {
            let state = if bodies.has(f) { "implemented" } else { "missing" };
            let old = f
                .deprecated
                .as_ref()
                .map(|v| format!(", deprecated since {v}"))
                .unwrap_or_default();
            line!(out: "| `{name}` | {state}{old} | `{}` |",
                prototype("", &name, f, large)
            );
        }
    }
    out
}
