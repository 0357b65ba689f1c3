//! `mpi.h`.

use crate::lines::wrap;
use crate::model::{Api, CHAPTERS, Function};

/// How functions are inline in every C that a program may be in.
const INLINE: &str = "
#if defined(__GNUC__) || defined(__clang__)
#define FARPOST_INLINE static __inline__ __attribute__((__unused__))
#elif defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L)
#define FARPOST_INLINE static inline
#else
#define FARPOST_INLINE static
#endif
";

/// The whole header.
pub fn header(api: &Api) -> String {
    let mut out = String::new();
    top(api, &mut out);
    types(api, &mut out);
    constants(api, &mut out);
    for prefix in ["", "P"] {
        prototypes(api, prefix, &mut out);
    }
    out.push_str(INLINE);
    out.push_str(&crate::fortran::header(api));
    out.push_str(&crate::mpi1::header(api));
    out.push_str("\n#undef FARPOST_INLINE\n");
    out.push_str("\n#if defined(__cplusplus)\n}\n#endif\n\n#endif /* FARPOST_MPI_H */\n");
    out
}

fn top(api: &Api, out: &mut String) {
    let [(major, minor), (abi_major, abi_minor)] = api.versions;
    let own: Vec<&str> = env!("CARGO_PKG_VERSION").split('.').collect();
    text!(out: "/*
 * mpi.h of Farpost {version}: the C interface of MPI {major}.{minor}, standard ABI {abi_major}.{abi_minor}.
 * Generated from the tables in api; do not edit. SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A program compiled with this header runs on every library that implements the standard ABI.
 */
#ifndef FARPOST_MPI_H
#define FARPOST_MPI_H

#define FARPOST_VERSION \"{version}\"
#define FARPOST_VERSION_MAJOR {v0}
#define FARPOST_VERSION_MINOR {v1}
#define FARPOST_VERSION_PATCH {v2}

#define MPI_VERSION {major}
#define MPI_SUBVERSION {minor}
#define MPI_ABI_VERSION {abi_major}
#define MPI_ABI_SUBVERSION {abi_minor}

/* Integers: an address, a file offset, a large count. Pre-C99 compilers have no stdint.h. */
#if defined(__GNUC__) || defined(__clang__) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L) || \\
    (defined(__cplusplus) && __cplusplus >= 201103L)
#include <stdint.h>
typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
#else
typedef long MPI_Aint;
typedef long long MPI_Offset;
#endif
typedef MPI_Offset MPI_Count;

#if defined(__cplusplus)
extern \"C\" {{
#endif
",
        version = env!("CARGO_PKG_VERSION"),
        v0 = own[0],
        v1 = own[1],
        v2 = own[2]);
}

fn types(api: &Api, out: &mut String) {
    out.push_str("\n/* Handles. Their values are fixed by the ABI or made by the library. */\n");
    for handle in &api.handles {
        line!(out: "typedef struct {} *{};", handle.tag, handle.name);
    }
    out.push_str("\n/* What a completed operation tells. */\ntypedef struct MPI_Status {\n");
    for field in &api.status_fields {
        line!(out: "    int {field};");
    }
    line!(out: "    int MPI_internal[{}];\n}} MPI_Status;",
        api.status_internal
    );
    for group in api.groups.iter().filter(|g| g.is_enum && is_named_enum(g)) {
        let name = &group.values[0].ctype;
        line!(out: "\n/* {} */\ntypedef enum {name} {{", group.doc);
        enumerators(group, out);
        line!(out: "}} {name};");
    }
    out.push_str("\n/* Functions a program gives to the library. */\n");
    for callback in &api.callbacks {
        let line = format!(
            "typedef {} ({})({});",
            callback.returns, callback.name, callback.params
        );
        wrap(&line, out);
    }
    for (name, of) in &api.aliases {
        line!(out: "typedef {of} {name};");
    }
}

fn is_named_enum(group: &crate::model::Group) -> bool {
    group.values.first().is_some_and(|c| c.ctype != "int")
}

fn enumerators(group: &crate::model::Group, out: &mut String) {
    let last = group.values.len() - 1;
    for (at, c) in group.values.iter().enumerate() {
        let comma = if at == last { "" } else { "," };
        line!(out: "    {:<36} = {}{comma}{}",
            c.name,
            c.value,
            deprecated(&c.deprecated)
        );
    }
}

fn constants(api: &Api, out: &mut String) {
    for group in api.groups.iter().filter(|g| !(g.is_enum && is_named_enum(g))) {
        line!(out: "\n/* {} */", group.doc);
        if group.is_enum {
            out.push_str("enum {\n");
            enumerators(group, out);
            out.push_str("};\n");
            continue;
        }
        for c in &group.values {
            let value = if c.ctype == "int" {
                c.value.to_string()
            } else if c.value < 0 {
                format!("(({}){})", c.ctype, c.value)
            } else {
                format!("(({})0x{:x})", c.ctype, c.value)
            };
            line!(out: "#define {:<36} {value}{}", c.name, deprecated(&c.deprecated));
        }
    }
}

fn deprecated(since: &Option<String>) -> String {
    since
        .as_ref()
        .map(|v| format!(" /* deprecated since {v} */"))
        .unwrap_or_default()
}

fn prototypes(api: &Api, prefix: &str, out: &mut String) {
    let title = if prefix.is_empty() {
        ""
    } else {
        ", names for tools"
    };
    for (chapter, doc) in CHAPTERS {
        line!(out: "\n/* {doc}{title} */");
        for (name, function, large) in api.listed().filter(|(_, f, _)| f.chapter == *chapter) {
            wrap(
                &format!(
                    "{}{}",
                    prototype(prefix, &name, function, large),
                    deprecated(&function.deprecated)
                ),
                out,
            );
        }
    }
}

/// One C prototype with its semicolon.
pub fn prototype(prefix: &str, name: &str, function: &Function, large: bool) -> String {
    let params: Vec<String> = function
        .params_of(large)
        .map(|p| p.c_declaration(large))
        .collect();
    let params = if params.is_empty() {
        "void".to_owned()
    } else {
        params.join(", ")
    };
    format!(
        "{} {prefix}{name}({params});",
        function.returns.as_deref().unwrap_or("int")
    )
}
