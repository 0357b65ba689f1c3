//! The exported entry points: per function one internal function with the checks, and the thin `MPI_` and
//! `PMPI_` names (and those of the large-count twin) that widen their arguments and go there.

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

/// Source of `NAMES`, which turns the number of a function into its name.
pub fn names(api: &Api) -> String {
    let names: Vec<String> = api.names().map(|(name, ..)| name).collect();
    format!("pub(crate) static NAMES: &[&str] = &{names:?};\n")
}

/// Source of the module of entry points.
pub fn source(api: &Api, bodies: &Bodies, checked_bodies: &Bodies) -> String {
    let mut out = String::new();
    let mut number = 0;
    for f in &api.functions {
        let entry = Entry::of(api, f);
        if f.returns.is_some() {
            plain(&entry, bodies, &mut out);
        } else {
            checked(&entry, bodies, checked_bodies, &mut out);
        }
        for large in [false, true].into_iter().filter(|large| !large || f.large) {
            for prefix in ["", "P"] {
                export(&entry, large, prefix, number, &mut out);
            }
            number += 1;
        }
    }
    out
}

/// Parameters that are passed on; what a variadic function has at its end is not.
fn named(f: &Function) -> impl Iterator<Item = &Param> {
    f.params.iter().filter(|p| p.kind != "VARARGS")
}

/// A function and how its parameters travel.
struct Entry<'a> {
    api: &'a Api,
    f: &'a Function,
    passages: Vec<Passage>,
}

impl<'a> Entry<'a> {
    fn of(api: &'a Api, f: &'a Function) -> Self {
        let passages = named(f).map(|p| passage(api, f, p)).collect();
        Self { api, f, passages }
    }

    /// The parameters that are passed on, and how.
    fn params(&self) -> impl Iterator<Item = (&'a Param, &Passage)> {
        named(self.f).zip(&self.passages)
    }
}

/// The results of a function beside buffers, where all are single values: the body returns them, and they are stored here.
fn results<'a>(entry: &Entry<'a>) -> Vec<&'a Param> {
    let results = entry.params();
    let results: Vec<_> = results
        .filter(|(p, _)| p.dir == Dir::Out && p.kind != "BUFFER")
        .collect();
    let plain = |(_, passage): &(_, &Passage)| passage.ty.starts_with("args::Out<");
    if results.iter().all(plain) {
        results.into_iter().map(|(p, _)| p).collect()
    } else {
        Vec::new()
    }
}

/// The handle that a function frees: the body gets it, and null is stored here.
fn freed(f: &Function) -> Option<(&Param, &'static str)> {
    let frees = ["_free", "_free_keyval", "_disconnect", "Session_finalize"];
    let mut handles = named(f).filter(|p| p.dir == Dir::InOut);
    let p = handles
        .next()
        .filter(|_| frees.iter().any(|end| f.name.ends_with(end)))?;
    match p.kind.as_str() {
        "KEYVAL" => Some((p, "MPI_KEYVAL_INVALID")),
        kind => Some((p, null_handle(kind)?)),
    }
}

/// An argument of a body.
struct Argument {
    name: String,
    value: String,
    ty: String,
}

/// The arguments of a body.
fn arguments(entry: &Entry) -> Vec<Argument> {
    let (f, results) = (entry.f, results(entry));
    let freed = freed(f).map(|(p, _)| p);
    let mut list = Vec::new();
    if f.width {
        let (name, value, ty) = ("large".into(), "large_".into(), "bool".into());
        list.push(Argument { name, value, ty });
    }
    let mut rest: &[(&Param, &Passage)] = &entry.params().collect::<Vec<_>>();
    while let [(p, passage), behind @ ..] = rest {
        if let Some((argument, parts)) = buffer(f, rest) {
            list.push(argument);
            rest = &rest[parts..];
            continue;
        }
        rest = behind;
        let (name, value) = (p.name.clone(), passage.argument.clone());
        if freed.is_some_and(|freed| freed.name == name) {
            let ty = passage
                .ty
                .trim_start_matches("args::InOut<")
                .trim_end_matches('>');
            let (value, ty) = (format!("{value}.get()"), ty.into());
            list.push(Argument { name, value, ty });
        } else if results.iter().all(|result| result.name != name) {
            let ty = passage.ty.clone();
            list.push(Argument { name, value, ty });
        }
    }
    list
}

/// The buffer that a list begins with, with the counts, displacements and datatypes that go with it: one argument of a body. And how
/// many parameters these are.
fn buffer(f: &Function, list: &[(&Param, &Passage)]) -> Option<(Argument, usize)> {
    let (first, _) = list.first().filter(|(p, _)| p.kind == "BUFFER")?;
    let name = first
        .name
        .strip_suffix("buf")
        .filter(|side| !side.is_empty())
        .unwrap_or("buf");
    let last = list.iter().position(|(p, _)| p.kind == "DATATYPE")?;
    let each = list[last].0.len.is_some();
    let (path, ty) = match (f.chapter.as_str(), last) {
        ("p2p", 2) if first.constant => ("p2p::outgoing", "SendBuf".to_owned()),
        ("p2p", 2) => ("p2p::incoming", "RecvBuf".to_owned()),
        ("coll", _) if !list[last].0.name.starts_with(name) => return None,
        ("coll", 2) => ("blocks::One", "One".to_owned()),
        ("coll", 3) if each => ("blocks::Typed", format!("Typed<'a, {}>", list[2].1.ty)),
        ("coll", 3) => ("blocks::Each", "Each<'a>".to_owned()),
        _ => return None,
    };
    let parts = &list[..=last];
    let values: Vec<&str> = parts
        .iter()
        .map(|(_, passage)| passage.argument.as_str())
        .collect();
    let (name, value) = (name.to_owned(), format!("calls::{path}({})", values.join(", ")));
    Some((Argument { name, value, ty }, parts.len()))
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
        let arguments = arguments(&Entry::of(api, f));
        let has = |what: &str| arguments.iter().any(|a| a.ty.contains(what));
        let lifetime = if has("'a") { "<'a>" } else { "" };
        let fields: String = arguments
            .iter()
            .map(|Argument { name, ty, .. }| format!("    pub(crate) {name}: {ty},\n"))
            .collect();
        if !arguments.is_empty() {
            let (name, structure) = (&f.name, structure(&f.name));
            line!(out: "/// Arguments of `{name}`.\npub(crate) struct {structure}{lifetime} {{\n{fields}}}");
        }
    }
    out
}

/// Needs the internal function to know which twin called?
fn knows_width(entry: &Entry) -> bool {
    entry.f.large && (entry.f.width || entry.passages.iter().any(|p| p.argument.contains("large_")))
}

fn export(entry: &Entry, large: bool, prefix: &str, number: usize, out: &mut String) {
    let (f, suffix) = (entry.f, if large { "_c" } else { "" });
    let (name, body) = (format!("{prefix}{}{suffix}", f.name), f.body());
    let at = usize::from(large);
    let mut params = Vec::new();
    let mut args = Vec::new();
    for (p, passage) in entry.params() {
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
        Some(c) => scalar(entry.api, c),
        None => "c_int",
    };
    let number = f.returns.is_none().then(|| format!("Fun({number})"));
    let width = knows_width(entry).then(|| large.to_string());
    let args: Vec<String> = number.into_iter().chain(width).chain(args).collect();
    let (params, args) = (params.join(", "), args.join(", "));
    line!(
        out: "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({params}) -> {result} {{\n    unsafe {{ in_{body}({args}) }}\n}}"
    );
}

/// A function that returns a value, not an error code: the body takes the C arguments and cannot fail.
fn plain(entry: &Entry, bodies: &Bodies, out: &mut String) {
    let f = entry.f;
    let params = entry
        .params()
        .map(|(p, passage)| format!("{}: {}", p.name, passage.inner));
    let params: Vec<String> = params.collect();
    let args: Vec<&str> = f.params.iter().map(|p| p.name.as_str()).collect();
    let result = scalar(entry.api, f.returns.as_deref().expect("checked by the caller"));
    let body = match bodies.get(f) {
        Some(Body { module, .. }) => format!("{module}::{}({})", f.body(), args.join(", ")),
        None => format!("{{ let _ = ({}); Default::default() }}", args.join(", ")),
    };
    line!(
        out: "#[inline(always)]\nunsafe fn in_{}({}) -> {result} {{\n    {body}\n}}", f.body(), params.join(", ")
    );
}

/// The call of the body at `path` with `lead` and the arguments of `target`, whose body it is: `f` itself, a function with the
/// same arguments, or the blocking form of a collective.
fn body_call(entry: &Entry, target: &Function, path: &str, lead: &str) -> String {
    let given = arguments(entry);
    let wanted = arguments(&Entry::of(entry.api, target));
    let field = |(at, Argument { name, .. }): (usize, &Argument)| {
        let same = given.iter().find(|given| given.name == *name);
        format!("{name}: {}", same.unwrap_or_else(|| &given[at]).value)
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

/// `call`, whose value is what the function gives: one result, several, or one that is there if a flag says so.
fn stored(entry: &Entry, call: String) -> String {
    let (value, store) = match results(entry)[..] {
        [] => match freed(entry.f) {
            Some((p, null)) => ("()".to_owned(), format!("{}.set(abi::{null})", p.name)),
            None => return call,
        },
        [result, flag] if flag.kind == "LOGICAL" => {
            let (result, flag) = (&result.name, &flag.name);
            (
                "value_".into(),
                format!("args::give_if_any({result}, {flag}, value_)"),
            )
        }
        ref several => {
            let names = several.iter().map(|p| format!("{}_", p.name)).collect::<Vec<_>>();
            let store = several.iter().map(|p| match p.kind.as_str() {
                "LOGICAL" => format!("{0}.set(c_int::from({0}_))", p.name),
                _ => format!("{0}.set({0}_)", p.name),
            });
            let names = match &names[..] {
                [name] => name.clone(),
                names => format!("({})", names.join(", ")),
            };
            (names, store.collect::<Vec<_>>().join("; "))
        }
    };
    format!("{call}.map(#[inline(always)] |{value}| {{ {store} }})")
}

fn checked(entry: &Entry, bodies: &Bodies, checked_bodies: &Bodies, out: &mut String) {
    let (api, f, passages) = (entry.api, entry.f, &entry.passages);
    let mut params = vec!["fun_: Fun".to_owned()];
    if knows_width(entry) {
        params.push("large_: bool".into());
    }
    params.extend(
        entry
            .params()
            .map(|(p, passage)| format!("{}: {}", p.name, passage.inner)),
    );
    let inline = if f.hot { "always" } else { "never" };
    let phase = match () {
        () if f.threaded => "Threaded",
        () if f.always => "Always",
        () => "Active",
    };
    let on = blamed(f);
    let (body, params) = (f.body(), params.join(", "));
    if FAST.contains(&f.name.as_str()) {
        let args: Vec<&str> = f.params.iter().map(|p| p.name.as_str()).collect();
        let lane = f.name["MPI_".len()..].to_lowercase();
        let args = args.join(", ");
        // The long way is a function of its own, so that the lane pays nothing for its variables.
        line!(
            out: "#[inline(always)]\nunsafe fn in_{body}({params}) -> c_int {{\n    \
             if unsafe {{ crate::fast::{lane}({args}) }} {{\n        return 0;\n    }}\n    \
             unsafe {{ long_{body}(fun_, {args}) }}\n}}\n\
             #[inline(never)]\nunsafe fn long_{body}({params}) -> c_int {{"
        )
    } else {
        line!(out: "#[inline({inline})]\nunsafe fn in_{body}({params}) -> c_int {{")
    };
    let nulls = nulls(f);
    match bodies.get(f) {
        None => line!(out: "    seam::unsupported(fun_, Phase::{phase}, {on}, || unsafe {{ {nulls} }})\n}}"),
        Some(found) => {
            let mut checks: Vec<&(u8, String)> = passages.iter().flat_map(|p| &p.checks).collect();
            checks.sort_by_key(|(rank, _)| *rank);
            let checks: String = checks
                .iter()
                .map(|(_, text)| format!("        {text}\n"))
                .collect();
            let target = api.functions.iter().find(|it| it.body() == found.name);
            let target = target.expect("a body of no function is refused before");
            let path = format!("{}::{}", found.module, found.name);
            let call_of = |target, path: &str, lead: &str| body_call(entry, target, path, lead);
            let (plain, looking) = (
                "calls::checking::Unchecked",
                "check::p2p::Checked::new(check, fun_)",
            );
            let (ordinary, looked_at) = match found.does {
                Does::All => {
                    let looked_at = checked_bodies.get(f).map(|Body { module, .. }| {
                        call_of(f, &format!("{module}::{body}"), "cx, check, fun_")
                    });
                    (call_of(target, &path, "cx"), looked_at)
                }
                Does::Checking => {
                    let call_of = |checking| call_of(target, &path, &format!("cx, {checking}"));
                    (call_of(plain), Some(call_of(looking)))
                }
                Does::Collective(form) => {
                    let made = call_of(target, &path, "cx");
                    let done = if form == "Run" { ".map(drop)" } else { "" };
                    let call_of =
                        |checking| format!("{checking}.collective(cx, &comm, Form::{form}, || {made}){done}");
                    (call_of(plain), Some(call_of(looking)))
                }
            };
            if f.chapter == "tools" {
                line!(out: "    seam::tool(fun_, |cx: &'static Cx| unsafe {{ {ordinary} }})\n}}");
                return;
            }
            let ordinary = stored(entry, ordinary);
            let looked_at = looked_at.map(|call| stored(entry, call));
            let Some(looked_at) = when_checked(entry, looked_at, &ordinary) else {
                line!(
                    out: "    seam::call(fun_, Phase::{phase}, {on}, #[inline(always)] |cx: &'static Cx| unsafe {{\n{checks}        \
                     {ordinary}\n    }}, || unsafe {{ {nulls} }})\n}}"
                );
                return;
            };
            line!(
                out: "    seam::call_or_check(fun_, Phase::{phase}, {on}, #[inline(always)] |cx: &'static Cx| unsafe {{\n{checks}        \
                 {ordinary}\n    }}, |cx: &'static Cx, check: &'static Check| unsafe {{\n{checks}{looked_at}    }}, \
                 || unsafe {{ {nulls} }})\n}}"
            )
        }
    };
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
fn when_checked(entry: &Entry, looked_at: Option<String>, ordinary: &str) -> Option<String> {
    let f = entry.f;
    let handles = |dir: Dir| {
        let params = entry.params();
        params
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

/// The object whose error handler hears of an error: the first communicator, unless a window, file or session is before it.
fn blamed(f: &Function) -> String {
    if let Some(p) = f
        .params
        .iter()
        .find(|p| p.kind == "ERRHANDLER" && p.dir == Dir::In)
        && f.params.iter().any(|p| p.dir == Dir::Out)
    {
        // What is made gets it, and it hears as well that nothing was made.
        return format!("On::Errhandler({})", p.name);
    }
    for p in &f.params {
        match (p.kind.as_str(), p.dir) {
            ("SESSION", Dir::In) => return format!("On::Session({})", p.name),
            ("SESSION", Dir::InOut) => return format!("On::Session(unsafe {{ args::peek({}) }})", p.name),
            ("COMMUNICATOR", Dir::In) if p.len.is_none() => return format!("On::Comm({})", p.name),
            ("COMMUNICATOR", Dir::InOut) if p.len.is_none() => {
                return format!("On::Comm(unsafe {{ args::peek({}) }})", p.name);
            }
            ("WINDOW", Dir::In) if p.len.is_none() => return format!("On::Win({})", p.name),
            ("WINDOW", Dir::InOut) if p.len.is_none() => {
                return format!("On::Win(unsafe {{ args::peek({}) }})", p.name);
            }
            // Nothing has these handles yet.
            ("FILE", Dir::In | Dir::InOut) if p.len.is_none() => {
                return "On::Nothing".into();
            }
            _ => {}
        }
    }
    if matches!(f.chapter.as_str(), "request" | "part") && f.has_kind("REQUEST") || f.has_kind("MESSAGE") {
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
            None => text!(out: "args::give_null({name}, abi::{null}); "),
            Some("*") => {}
            Some(len) => text!(out: "args::give_nulls({name}, {len} as i64, abi::{null}); "),
        };
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
