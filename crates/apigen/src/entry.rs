//! The exported entry points: per function one internal function with the checks, and the thin `MPI_` and
//! `PMPI_` names (and those of the large-count twin) that widen their arguments and go there.

use std::fmt::Write;

use crate::abi::scalar;
use crate::bodies::{Bodies, Body, Does};
use crate::checks::{Passage, passage};
use crate::model::{Api, Dir, Function, Param};

/// Functions with a lane of their own for the commonest case (capi's `fast`), tried before the checks.
const FAST: &[&str] = &["MPI_Send", "MPI_Recv", "MPI_Isend", "MPI_Irecv"];

/// Collective functions that move no data of the program's: told to the leader of their communicator when a program is
/// checked. Those that move data have bodies of their own then.
const COLLECTIVE: &[&str] = &[
    "MPI_Cart_create",
    "MPI_Cart_sub",
    "MPI_Comm_create",
    "MPI_Comm_disconnect",
    "MPI_Comm_dup",
    "MPI_Comm_dup_with_info",
    "MPI_Comm_free",
    "MPI_Comm_idup",
    "MPI_Comm_idup_with_info",
    "MPI_Comm_split",
    "MPI_Comm_split_type",
    "MPI_Dist_graph_create",
    "MPI_Dist_graph_create_adjacent",
    "MPI_Graph_create",
    "MPI_Intercomm_create",
    "MPI_Intercomm_merge",
];

/// Source of the module of entry points, and of `NAMES`, which turns the number of a function into its name.
pub fn source(api: &Api, bodies: &Bodies, checked_bodies: &Bodies) -> String {
    let mut out = String::new();
    let mut names = String::from("pub(crate) static NAMES: &[&str] = &[\n");
    let mut number = 0;
    for f in &api.functions {
        let passages = passages(api, f);
        if f.returns.is_some() {
            plain(api, f, bodies, &passages, &mut out);
        } else {
            checked(api, f, bodies, checked_bodies, &passages, &mut out);
        }
        for large in [false, true].into_iter().filter(|large| !large || f.large) {
            let name = if large {
                format!("{}_c", f.name)
            } else {
                f.name.clone()
            };
            line!(names, "    {name:?},");
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

/// Parameters that are passed on; what a variadic function has at its end is not.
fn named(f: &Function) -> impl Iterator<Item = &Param> {
    f.params.iter().filter(|p| p.kind != "VARARGS")
}

fn passages(api: &Api, f: &Function) -> Vec<Passage> {
    named(f).map(|p| passage(api, f, p)).collect()
}

/// The one result of a function beside buffers, where it has one: the body returns it, and it is stored here.
fn result<'a>(f: &'a Function, passages: &[Passage]) -> Option<&'a Param> {
    let mut results = named(f)
        .zip(passages)
        .filter(|(p, _)| p.dir == Dir::Out && p.kind != "BUFFER");
    match (results.next(), results.next()) {
        (Some((p, passage)), None) if passage.ty.starts_with("args::Out<") => Some(p),
        _ => None,
    }
}

/// The arguments of a body: name, expression, type.
fn arguments<'a>(f: &'a Function, passages: &'a [Passage]) -> Vec<(&'a str, &'a str, &'a str)> {
    let result = result(f, passages).map(|p| &p.name);
    let width = f.width.then_some(("large", "large_", "bool"));
    let others = named(f).zip(passages).filter(|(p, _)| Some(&p.name) != result);
    let others = others.map(|(p, passage)| (p.name.as_str(), passage.argument.as_str(), passage.ty.as_str()));
    width.into_iter().chain(others).collect()
}

/// The structure of a function's arguments: `CommSetAttr` for `MPI_Comm_set_attr`.
fn structure(name: &str) -> String {
    let words = name["MPI_".len()..].split('_');
    words.map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

/// Source of the structures that bodies get their arguments in: one for each function whose body has any.
pub fn argument_structures(api: &Api, bodies: &Bodies) -> String {
    let mut out = String::new();
    for f in api.functions.iter().filter(|f| f.returns.is_none()) {
        // The forms of a collective share the arguments of the blocking one.
        if bodies.get(f).is_none_or(|body| body.name != f.body()) {
            continue;
        }
        let passages = passages(api, f);
        let arguments = arguments(f, &passages);
        let has = |what: &str| arguments.iter().any(|(.., ty)| ty.contains(what));
        let lifetime = if has("'a") { "<'a>" } else { "" };
        let fields: String = arguments
            .iter()
            .map(|(name, _, ty)| format!("    pub(crate) {name}: {ty},\n"))
            .collect();
        if !arguments.is_empty() {
            let (name, structure) = (&f.name, structure(&f.name));
            line!(
                out,
                "/// Arguments of `{name}`.\npub(crate) struct {structure}{lifetime} {{\n{fields}}}"
            );
        }
    }
    out
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
    for (p, passage) in named(f).zip(passages) {
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
    line!(
        out,
        "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({}) -> {result} {{\n    unsafe {{ in_{}({}) }}\n}}",
        params.join(", "),
        f.body(),
        lead.join(", ")
    );
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
    let body = match bodies.get(f) {
        Some(Body { module, .. }) => format!("calls::{module}::{}({})", f.body(), args.join(", ")),
        None => format!("{{ let _ = ({}); Default::default() }}", args.join(", ")),
    };
    line!(
        out,
        "#[inline(always)]\nunsafe fn in_{}({}) -> {result} {{\n    {body}\n}}",
        f.body(),
        params.join(", ")
    );
}

/// The call of the body at `path` with `lead` and the arguments of `target`, whose body it is: `f` itself, a function with the
/// same arguments, or the blocking form of a collective.
fn body_call(
    api: &Api,
    f: &Function,
    target: &Function,
    path: &str,
    lead: &str,
    passages: &[Passage],
) -> String {
    let given = arguments(f, passages);
    let wanted = self::passages(api, target);
    let wanted = arguments(target, &wanted);
    let field = |(at, (name, ..)): (usize, &(&str, &str, &str))| {
        let same = given.iter().find(|(given, ..)| given == name);
        let (_, value, _) = same.unwrap_or_else(|| &given[at]);
        format!("{name}: {value}")
    };
    let fields: Vec<String> = wanted.iter().enumerate().map(field).collect();
    if fields.is_empty() {
        return format!("{path}({lead})");
    }
    format!(
        "{path}({lead}, calls::arg::{} {{ {} }})",
        structure(&target.name),
        fields.join(", ")
    )
}

/// `call`, whose value is the result of the function, if it has one.
fn stored(f: &Function, passages: &[Passage], call: String) -> String {
    match result(f, passages) {
        None => call,
        Some(p) if p.kind == "LOGICAL" => {
            format!(
                "{call}.map(#[inline(always)] |value_| {}.set(c_int::from(value_)))",
                p.name
            )
        }
        Some(p) => format!("{call}.map(#[inline(always)] |value_| {}.set(value_))", p.name),
    }
}

fn checked(
    api: &Api,
    f: &Function,
    bodies: &Bodies,
    checked_bodies: &Bodies,
    passages: &[Passage],
    out: &mut String,
) {
    let mut params = vec!["fun_: Fun".to_owned()];
    if knows_width(f, passages) {
        params.push("large_: bool".into());
    }
    let inner = named(f).zip(passages);
    params.extend(inner.map(|(p, passage)| format!("{}: {}", p.name, passage.inner)));
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
    let nulls = nulls(f);
    match bodies.get(f) {
        None => writeln!(out, "    cx::unsupported(fun_, Phase::{phase}, {on}, || unsafe {{ {nulls} }})\n}}"),
        Some(found) => {
            let mut checks: Vec<&(u8, String)> = passages.iter().flat_map(|p| &p.checks).collect();
            checks.sort_by_key(|(rank, _)| *rank);
            let checks: String = checks.iter().map(|(_, text)| format!("        {text}\n")).collect();
            let target = api.functions.iter().find(|it| it.body() == found.name);
            let target = target.expect("a body of no function is refused before");
            let path = format!("calls::{}::{}", found.module, found.name);
            let call_of = |target, path: &str, lead: &str| body_call(api, f, target, path, lead, passages);
            let (plain, looking) = ("calls::checking::Unchecked", "check::p2p::Checked::new(check, fun_)");
            let (ordinary, looked_at) = match found.does {
                Does::All => {
                    let looked_at = checked_bodies.get(f).map(|Body { module, .. }| {
                        call_of(f, &format!("check::{module}::{body}"), "cx, check, fun_")
                    });
                    (call_of(target, &path, "cx"), looked_at)
                }
                Does::Checking => {
                    let call_of = |checking| call_of(target, &path, &format!("cx, {checking}"));
                    (call_of(plain), Some(call_of(looking)))
                }
                Does::Collective(method) => {
                    let made = call_of(target, &path, "cx");
                    let call_of = |checking| format!("{checking}.{method}(cx, &comm, || {made})");
                    (call_of(plain), Some(call_of(looking)))
                }
            };
            let ordinary = stored(f, passages, ordinary);
            let looked_at = looked_at.map(|call| stored(f, passages, call));
            let (call, after) = if nulls.is_empty() {
                ("call", String::new())
            } else {
                ("call_giving", format!(", || unsafe {{ {nulls} }}"))
            };
            let Some(looked_at) = when_checked(f, looked_at, passages, &ordinary) else {
                let _ = writeln!(
                    out,
                    "    cx::{call}(fun_, Phase::{phase}, {on}, #[inline(always)] |cx: &'static Cx| unsafe {{\n{checks}        \
                     {ordinary}\n    }}{after})\n}}"
                );
                return;
            };
            writeln!(
                out,
                "    cx::call_or_check(fun_, Phase::{phase}, {on}, #[inline(always)] |cx: &'static Cx| unsafe {{\n{checks}        \
                 {ordinary}\n    }}, |cx: &'static Cx, check: &'static Check| unsafe {{\n{checks}{looked_at}    }}, \
                 || unsafe {{ {nulls} }})\n}}"
            )
        }
    }
    .expect("writing to a String");
}

/// The kind of object that a parameter is a handle of, as the checks of a program name it.
fn object(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "REQUEST" => "Request",
        "COMMUNICATOR" => "Comm",
        "GROUP" => "Group",
        "DATATYPE" => "Datatype",
        "OPERATION" => "Op",
        "ERRHANDLER" => "Errhandler",
        "INFO" => "Info",
        "KEYVAL" => "Keyval",
        "MESSAGE" => "Message",
        _ => return None,
    })
}

/// What happens behind the checks of arguments in a program that is checked: the body, or the one for such programs, and
/// what is noted of collectives and of handles that are given out or die. `None`: nothing else than ever.
fn when_checked(
    f: &Function,
    looked_at: Option<String>,
    passages: &[Passage],
    ordinary: &str,
) -> Option<String> {
    let handles = |dir: Dir| {
        named(f)
            .zip(passages)
            .filter(move |(p, passage)| p.dir == dir && p.len.is_none() && passage.argument == p.name)
            .filter_map(|(p, _)| Some((object(&p.kind)?, p.name.as_str())))
    };
    let (mut before, mut behind, mut after) = (String::new(), String::new(), String::new());
    if COLLECTIVE.contains(&f.name.as_str()) {
        let comm = f
            .params
            .iter()
            .find(|p| p.kind == "COMMUNICATOR" && p.dir != Dir::Out);
        let comm = comm.expect("a collective function has a communicator");
        let object = match comm.dir {
            Dir::In => comm.name.clone(),
            _ => format!("cx.comm({:?}, {}.get())?", comm.name, comm.name),
        };
        before +=
            &format!("        let joined_ = check.collective(cx, fun_, &{object}, Default::default());\n");
        behind += "        if let Err(error_) = &result_ { check.explain(cx, joined_, error_); }\n";
    }
    for (what, name) in handles(Dir::InOut) {
        before += &format!("        let before_{name} = {name}.get();\n");
        // Also where the call fails: a message that is cut off is gone.
        behind += &format!(
            "        if {name}.get() != before_{name} {{ check.gone(What::{what}, fun_, before_{name} as usize); }}\n"
        );
    }
    for (what, name) in handles(Dir::Out) {
        // A probe that finds nothing, and calls that make nothing for some, store null.
        after += &format!("        check.made(What::{what}, fun_, {name}.stored() as usize);\n");
    }
    let body = match looked_at {
        Some(body) => body,
        None if before.is_empty() && after.is_empty() => return None,
        None => ordinary.to_owned(),
    };
    Some(format!(
        "{before}        let result_ = {body};\n{behind}        result_?;\n{after}        Ok(())\n"
    ))
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

/// What makes the handles that a function gives null, after an error: statements.
fn nulls(f: &Function) -> String {
    let mut out = String::new();
    for p in f.params.iter().filter(|p| p.dir == Dir::Out) {
        let Some(null) = null_handle(&p.kind) else {
            continue;
        };
        let name = &p.name;
        match p.len.as_deref() {
            None => write!(out, "args::give_null({name}, abi::{null}); "),
            Some("*") => Ok(()),
            Some(len) => write!(out, "args::give_nulls({name}, {len} as i64, abi::{null}); "),
        }
        .expect("writing to a String");
    }
    out
}

/// The constant that is no object of a kind of handle.
fn null_handle(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "COMMUNICATOR" => "MPI_COMM_NULL",
        "DATATYPE" => "MPI_DATATYPE_NULL",
        "ERRHANDLER" => "MPI_ERRHANDLER_NULL",
        "FILE" => "MPI_FILE_NULL",
        "GROUP" => "MPI_GROUP_NULL",
        "INFO" => "MPI_INFO_NULL",
        "MESSAGE" => "MPI_MESSAGE_NULL",
        "OPERATION" => "MPI_OP_NULL",
        "REQUEST" => "MPI_REQUEST_NULL",
        "SESSION" => "MPI_SESSION_NULL",
        "WINDOW" => "MPI_WIN_NULL",
        _ => return None,
    })
}
