//! What C programs need to pass handles and statuses to Fortran and back, which the standard ABI has no symbols for (MPI-5.0 section
//! 20.4): inline functions in `mpi.h` over the conversions to integers that it has, so that programs compiled with it need no symbol
//! outside of the standard.

use crate::model::Api;

/// The part of `mpi.h`.
pub fn header(api: &Api) -> String {
    let mut out = String::from(
        "\n/* For programs in C and Fortran. These are not of the ABI: they are inline functions over those of the ABI that make integers of\n   \
         handles. Define FARPOST_NO_FORTRAN to do without. */\n\
         #if !defined(FARPOST_NO_FORTRAN)\n\n\
         typedef int MPI_Fint;\n\n\
         /* Where a status of Fortran is not wanted. */\n\
         #define MPI_F_STATUS_IGNORE                  ((MPI_Fint *)0)\n\
         #define MPI_F_STATUSES_IGNORE                ((MPI_Fint *)0)\n\n",
    );
    for prefix in ["", "P"] {
        for function in &api.functions {
            if let Some(kind) = function.name.strip_suffix("_toint") {
                let param = &function.params[0];
                let (handle, name) = (&param.c, &param.name);
                line!(out: "FARPOST_INLINE MPI_Fint {prefix}{kind}_c2f({handle} {name})\n{{\n    return {prefix}{kind}_toint({name});\n}}\n\
                     FARPOST_INLINE {handle} {prefix}{kind}_f2c(MPI_Fint {name})\n{{\n    return {prefix}{kind}_fromint({name});\n}}"
                );
            }
        }
        status(api, prefix, &mut out);
    }
    out.push_str("#endif /* FARPOST_NO_FORTRAN */\n");
    out
}

/// A status is the same numbers in both languages. Null stands for what is ignored, which is no status.
fn status(api: &Api, prefix: &str, out: &mut String) {
    let fields: Vec<String> = api.status_fields.clone();
    let internal = 0..api.status_internal;
    let places: Vec<String> = fields
        .into_iter()
        .chain(internal.map(|at| format!("MPI_internal[{at}]")))
        .collect();
    let given = |to: &dyn Fn(usize, &str) -> String| -> String {
        let each = places.iter().enumerate();
        each.map(|(at, field)| format!("    {}\n", to(at, field)))
            .collect()
    };
    for (name, params, from, to, body) in [
        (
            "c2f",
            "const MPI_Status *c_status, MPI_Fint *f_status",
            "c_status",
            "f_status",
            given(&|at, field| format!("f_status[{at}] = c_status->{field};")),
        ),
        (
            "f2c",
            "const MPI_Fint *f_status, MPI_Status *c_status",
            "f_status",
            "c_status",
            given(&|at, field| format!("c_status->{field} = f_status[{at}];")),
        ),
    ] {
        line!(out: "FARPOST_INLINE int {prefix}MPI_Status_{name}({params})\n{{\n    if (!{from} || !{to}) return MPI_ERR_ARG;\n{body}    \
             return MPI_SUCCESS;\n}}"
        );
    }
}
