//! The exported entry points: per function one internal function with the checks, and the thin `MPI_` and
//! `PMPI_` names (and those of the large-count twin) that widen their arguments and go there.

use std::fmt::Write;

use crate::abi::scalar;
use crate::bodies::Bodies;
use crate::checks::{Passage, passage};
use crate::model::{Api, Dir, Function};

/// Functions with a lane of their own for the commonest case (capi's `fast`), tried before the checks.
const FAST: &[&str] = &["MPI_Send", "MPI_Recv", "MPI_Isend", "MPI_Irecv"];

/// Source of the module of entry points, and of `NAMES`, which turns the number of a function into its name.
pub fn source(api: &Api, bodies: &Bodies) -> String {
    let mut out = String::new();
    let mut names = String::from("pub(crate) static NAMES: &[&str] = &[\n");
    let mut number = 0;
    for f in &api.functions {
        let passages: Vec<Passage> = f
            .params
            .iter()
            .filter(|p| p.kind != "VARARGS")
            .map(|p| passage(api, f, p))
            .collect();
        if f.returns.is_some() {
            plain(api, f, bodies, &passages, &mut out);
        } else {
            checked(f, bodies, &passages, &mut out);
        }
        for large in [false, true].into_iter().filter(|large| !large || f.large) {
            let name = if large {
                format!("{}_c", f.name)
            } else {
                f.name.clone()
            };
            writeln!(names, "    {name:?},").expect("writing to a String");
            for prefix in ["", "P"] {
                export(
                    api,
                    f,
                    &passages,
                    large,
                    &format!("{prefix}{name}"),
                    number,
                    &mut out,
                );
            }
            number += 1;
        }
    }
    names.push_str("];\n");
    out + &names
}

/// Needs the internal function to know which twin called?
fn knows_width(f: &Function, passages: &[Passage]) -> bool {
    f.large && (f.width || passages.iter().any(|p| p.argument.contains("large_")))
}

fn export(
    api: &Api,
    f: &Function,
    passages: &[Passage],
    large: bool,
    name: &str,
    number: usize,
    out: &mut String,
) {
    let at = usize::from(large);
    let mut params = Vec::new();
    let mut args = Vec::new();
    for (p, passage) in f.params.iter().filter(|p| p.kind != "VARARGS").zip(passages) {
        if large || !p.large_only {
            params.push(format!("{}: {}", p.name, passage.c[at]));
            args.push(passage.widen[at].clone());
        } else if passage.inner.starts_with('*') {
            args.push("core::ptr::null_mut()".into());
        } else {
            args.push("0".into());
        }
    }
    let result = match &f.returns {
        Some(c) => scalar(api, c),
        None => "c_int",
    };
    let mut lead = if f.returns.is_none() {
        vec![format!("Fun({number})")]
    } else {
        vec![]
    };
    if knows_width(f, passages) {
        lead.push(large.to_string());
    }
    lead.append(&mut args);
    writeln!(
        out,
        "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({}) -> {result} {{\n    unsafe {{ in_{}({}) }}\n}}",
        params.join(", "),
        f.body(),
        lead.join(", ")
    )
    .expect("writing to a String");
}

/// A function that returns a value, not an error code: the body takes the C arguments and cannot fail.
fn plain(api: &Api, f: &Function, bodies: &Bodies, passages: &[Passage], out: &mut String) {
    let params: Vec<String> = f
        .params
        .iter()
        .zip(passages)
        .map(|(p, passage)| format!("{}: {}", p.name, passage.inner))
        .collect();
    let args: Vec<&str> = f.params.iter().map(|p| p.name.as_str()).collect();
    let result = scalar(api, f.returns.as_deref().expect("checked by the caller"));
    let body = match bodies.module(f) {
        Some(module) => format!("imp::{module}::{}({})", f.body(), args.join(", ")),
        None => format!("{{ let _ = ({}); Default::default() }}", args.join(", ")),
    };
    writeln!(
        out,
        "#[inline(always)]\nunsafe fn in_{}({}) -> {result} {{\n    {body}\n}}",
        f.body(),
        params.join(", ")
    )
    .expect("writing to a String");
}

fn checked(f: &Function, bodies: &Bodies, passages: &[Passage], out: &mut String) {
    let named = f.params.iter().filter(|p| p.kind != "VARARGS").zip(passages);
    let mut params = vec!["fun_: Fun".to_owned()];
    if knows_width(f, passages) {
        params.push("large_: bool".into());
    }
    params.extend(named.map(|(p, passage)| format!("{}: {}", p.name, passage.inner)));
    let inline = if f.hot { "always" } else { "never" };
    let phase = if f.always { "Always" } else { "Active" };
    let on = blamed(f);
    let (body, params) = (f.body(), params.join(", "));
    if FAST.contains(&f.name.as_str()) {
        let args: Vec<&str> = f.params.iter().map(|p| p.name.as_str()).collect();
        let lane = f.name["MPI_".len()..].to_lowercase();
        let args = args.join(", ");
        // The long way is a function of its own, so that the lane pays nothing for its variables.
        writeln!(
            out,
            "#[inline(always)]\nunsafe fn in_{body}({params}) -> c_int {{\n    \
             if unsafe {{ crate::fast::{lane}({args}) }} {{\n        return 0;\n    }}\n    \
             unsafe {{ long_{body}(fun_, {args}) }}\n}}\n\
             #[inline(never)]\nunsafe fn long_{body}({params}) -> c_int {{"
        )
    } else {
        writeln!(
            out,
            "#[inline({inline})]\nunsafe fn in_{body}({params}) -> c_int {{"
        )
    }
    .expect("writing to a String");
    match bodies.module(f) {
        None => writeln!(out, "    cx::unsupported(fun_, Phase::{phase}, {on})\n}}"),
        Some(module) => {
            let mut checks: Vec<&(u8, String)> = passages.iter().flat_map(|p| &p.checks).collect();
            checks.sort_by_key(|(rank, _)| *rank);
            let checks: String = checks.iter().map(|(_, text)| format!("        {text}\n")).collect();
            let width = if f.width { ", large_" } else { "" };
            let args: String = passages.iter().map(|p| format!(", {}", p.argument)).collect();
            writeln!(
                out,
                "    cx::call(fun_, Phase::{phase}, {on}, #[inline(always)] |cx: &'static Cx| unsafe {{\n{checks}        \
                 imp::{module}::{}(cx{width}{args})\n    }})\n}}",
                f.body()
            )
        }
    }
    .expect("writing to a String");
}

/// The object whose error handler hears of an error: the first communicator, window, file or session.
fn blamed(f: &Function) -> String {
    for p in &f.params {
        let variant = match p.kind.as_str() {
            "COMMUNICATOR" => "Comm",
            "WINDOW" => "Win",
            "FILE" => "File",
            "SESSION" => "Session",
            _ => continue,
        };
        match p.dir {
            Dir::In if p.len.is_none() => return format!("On::{variant}({})", p.name),
            Dir::InOut if p.len.is_none() => {
                return format!("On::{variant}(unsafe {{ args::peek({}) }})", p.name);
            }
            _ => {}
        }
    }
    if f.chapter == "request" && f.has_kind("REQUEST") || f.has_kind("MESSAGE") {
        return "On::Request".into();
    }
    "On::Nothing".into()
}
