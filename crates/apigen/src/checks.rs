//! From a parameter's kind: its type in the entry point, its checks, and what the body gets.

use crate::abi::scalar;
use crate::model::{Api, Dir, Function, Param};

/// How one parameter travels from C to the body.
pub struct Passage {
    /// Type in the exported function and in its large-count twin.
    pub c: [String; 2],
    /// Type inside, common to both.
    pub inner: String,
    /// Expression that widens the exported function's value to `inner`.
    pub widen: [String; 2],
    /// Statements before the body; may shadow the name. Ordered by `rank`.
    pub checks: Vec<(u8, String)>,
    /// What the body is given.
    pub argument: String,
    /// The type of that, with the lifetime `'a`.
    pub ty: String,
}

/// Class raised for a bad length or count.
fn count_class(p: &Param) -> &'static str {
    match p.kind.as_str() {
        "NUM_DIMS" => "ERR_DIMS",
        "POLYNUM_BYTES_NNI" | "ALLOC_MEM_NUM_BYTES" | "WINDOW_SIZE" | "WIN_ATTACH_SIZE" => "ERR_SIZE",
        _ if p.name.contains("count") => "ERR_COUNT",
        "ARRAY_LENGTH" | "ARRAY_LENGTH_NNI" | "ARRAY_LENGTH_PI" => "ERR_ARG",
        _ => "ERR_COUNT",
    }
}

fn is_count(p: &Param) -> bool {
    matches!(
        p.kind.as_str(),
        "POLYXFER_NUM_ELEM"
            | "POLYXFER_NUM_ELEM_NNI"
            | "POLYDTYPE_NUM_ELEM"
            | "POLYDTYPE_NUM_ELEM_NNI"
            | "XFER_NUM_ELEM"
            | "POLYNUM_BYTES_NNI"
            | "POLYNUM_PARAM_VALUES"
            | "ARRAY_LENGTH"
            | "ARRAY_LENGTH_NNI"
            | "ARRAY_LENGTH_PI"
            | "NUM_DIMS"
            | "ALLOC_MEM_NUM_BYTES"
            | "WINDOW_SIZE"
            | "WIN_ATTACH_SIZE"
    )
}

/// The lookup in `Cx` for handles the body gets resolved, and what it finds.
fn lookup(kind: &str) -> Option<(&'static str, &'static str)> {
    Some(match kind {
        "COMMUNICATOR" => ("comm", "CommRef"),
        "GROUP" => ("objects.group", "GroupRef"),
        "INFO" => ("objects.info", "InfoRef"),
        "SESSION" => ("session", "SessionRef"),
        "DATATYPE" => ("datatype", "TypeRef"),
        "OPERATION" => ("op", "OpRef"),
        "WINDOW" => ("win", "WinRef"),
        _ => return None,
    })
}

/// Counts and types of a two-sided collective matter only at some ranks, or not at all where `MPI_IN_PLACE` is
/// given: the body checks them when it uses them.
fn checked_by_body(f: &Function, p: &Param) -> bool {
    p.at_root
        || (f.chapter == "coll"
            && f.has("sendtype")
            && f.has("recvtype")
            && matches!(
                p.name.as_str(),
                "sendcount" | "recvcount" | "sendtype" | "recvtype"
            ))
}

/// Does the function move data, so that its datatypes have to be committed?
fn communicates(f: &Function) -> bool {
    f.has_kind("BUFFER")
        && matches!(
            f.chapter.as_str(),
            "p2p" | "part" | "coll" | "rma" | "io" | "datatype"
        )
}

/// When a transfer has nobody at its other end, as an expression: then buffer, count and datatype `p` mean nothing (MPI-5.0
/// section 3.11) and are not looked at. `None`: there is always somebody.
fn nobody(f: &Function, p: &Param) -> Option<String> {
    if f.chapter != "p2p" || !f.has_kind("BUFFER") {
        return None;
    }
    let no_one = |rank: &str| format!("{rank} == abi::MPI_PROC_NULL");
    let transfers = |name: &str| f.has(name);
    match p.name.as_str() {
        "sendbuf" | "sendcount" | "sendtype" => Some(no_one("dest")),
        "recvbuf" | "recvcount" | "recvtype" => Some(no_one("source")),
        _ if transfers("dest") && transfers("source") => {
            Some(format!("{} && {}", no_one("dest"), no_one("source")))
        }
        _ if transfers("dest") => Some(no_one("dest")),
        _ if transfers("source") => Some(no_one("source")),
        _ if f.has_kind("MESSAGE") => Some("args::peek(message) == abi::MPI_MESSAGE_NO_PROC".into()),
        _ => None,
    }
}

/// The passage of `p`, a parameter of `f`. The bodies of the tool information interface get everything as it comes: there nothing is raised.
pub fn passage(api: &Api, f: &Function, p: &Param) -> Passage {
    let mut passage = checked_passage(api, f, p);
    if f.chapter == "tools" {
        passage.checks.clear();
        passage.argument = p.name.clone();
        passage.ty = passage.inner.clone();
    }
    passage
}

fn checked_passage(api: &Api, f: &Function, p: &Param) -> Passage {
    let name = &p.name;
    let base = scalar(api, p.c.trim_end_matches('*'));
    let base_large = scalar(api, p.c_large.trim_end_matches('*'));
    let array = p.len.is_some();
    let by_pointer = array || p.dir != Dir::In;
    let raw = |pointee: &str| {
        let star = if p.constant { "*const" } else { "*mut" };
        format!("{star} {pointee}")
    };
    // Of type `c` in C; the body gets `argument`, of type `ty`.
    let wrapped = |c: String, argument: String, ty: &str, checks: Vec<(u8, String)>| Passage {
        c: [c.clone(), c.clone()],
        inner: c,
        widen: [name.clone(), name.clone()],
        checks,
        argument,
        ty: ty.to_owned(),
    };
    let checked = |c: &str, ty: &str, check: String| wrapped(c.into(), name.clone(), ty, vec![(4, check)]);
    let passed = |ty: String| wrapped(ty.clone(), name.clone(), &ty, Vec::new());

    match p.kind.as_str() {
        "BUFFER" => {
            let ty = raw("c_void");
            return wrapped(ty.clone(), name.clone(), &ty, buffer_check(f, p));
        }
        "FORTRAN_LOGICAL" | "EXTRA_STATE" | "TOOL_MPI_OBJ" => return passed(raw("c_void")),
        "ATTRIBUTE_VAL" | "C_BUFFER" if p.dir == Dir::In => return passed(raw("c_void")),
        "ATTRIBUTE_VAL" | "C_BUFFER" => {
            let check = format!("let {name} = args::out({name:?}, {name}.cast::<*mut c_void>())?;");
            return checked("*mut c_void", "args::Out<*mut c_void>", check);
        }
        "STRING" if f.chapter == "tools" => return passed(raw("c_char")),
        "STRING" if p.dir == Dir::In && p.at_root => return passed("*const c_char".into()),
        "STRING" if p.dir == Dir::In => {
            let check = format!("let {name} = args::string({name:?}, {name})?;");
            return checked("*const c_char", "&'a CStr", check);
        }
        "STRING" => {
            let or_null = if p.null { "_or_null" } else { "" };
            let check = format!("let {name} = args::out_string{or_null}({name:?}, {name})?;");
            return checked("*mut c_char", "args::OutString", check);
        }
        "STRING_ARRAY" => return passed("*mut *mut c_char".into()),
        "STRING_2DARRAY" => return passed("*mut *mut *mut c_char".into()),
        "ARGUMENT_LIST" => return passed("*mut *mut *mut c_char".into()),
        "ARGUMENT_COUNT" if by_pointer => return passed("*mut c_int".into()),
        "RANGE_TRIPLET" => {
            let check =
                format!("let {name} = args::slice({name:?}, {name}.cast::<[c_int; 3]>(), n as i64)?;");
            return checked("*mut [c_int; 3]", "&'a [[c_int; 3]]", check);
        }
        "STATUS" if p.dir == Dir::In => {
            let check = format!("let {name} = args::status({name:?}, {name})?;");
            return checked("*const abi::MPI_Status", "&'a abi::MPI_Status", check);
        }
        "STATUS" if array || p.dir == Dir::Out => {
            let ty = if array {
                "args::Statuses"
            } else {
                "args::StatusOut"
            };
            let argument = format!("{ty}::new({name})");
            return wrapped("*mut abi::MPI_Status".into(), argument, ty, Vec::new());
        }
        "WEIGHT" => return passed(raw("c_int")),
        kind if kind.starts_with("FN_") || kind.ends_with("_FUNCTION") => {
            if p.c == p.c_large {
                return passed("usize".into());
            }
            let argument = format!("args::Callback {{ address: {name}, large: large_ }}");
            return wrapped("usize".into(), argument, "args::Callback", Vec::new());
        }
        _ => {}
    }

    if by_pointer {
        return pointer(f, p, base, base_large, &raw);
    }
    let mut passage = Passage {
        c: [base.into(), base_large.into()],
        inner: base_large.into(),
        widen: [
            if base == base_large {
                name.clone()
            } else {
                format!("{name} as i64")
            },
            name.clone(),
        ],
        checks: Vec::new(),
        argument: name.clone(),
        ty: base_large.into(),
    };
    let lazy = checked_by_body(f, p);
    if let (Some((method, object)), false) = (lookup(&p.kind), lazy) {
        let rank = u8::from(!matches!(p.kind.as_str(), "COMMUNICATOR" | "WINDOW"));
        let method = match method {
            "datatype" if communicates(f) => "committed",
            other => other,
        };
        let check = if p.null {
            format!("let {name} = cx.{method}_or_null({name:?}, {name})?;")
        } else if let (Some(nobody), "DATATYPE") = (nobody(f, p), p.kind.as_str()) {
            format!(
                "let {name} = if {nobody} {{ args::no_type() }} else {{ cx.{method}({name:?}, {name})? }};"
            )
        } else {
            format!("let {name} = cx.{method}({name:?}, {name})?;")
        };
        passage.checks.push((rank, check));
        // Buffers own their datatype: no second reference is taken on the way to one.
        let moved =
            p.kind == "DATATYPE" && f.has_kind("BUFFER") && matches!(f.chapter.as_str(), "p2p" | "coll");
        (passage.argument, passage.ty) = match () {
            () if p.null => (name.clone(), format!("Option<{object}>")),
            () if moved => (name.clone(), object.into()),
            () => (format!("&{name}"), format!("&'a {object}")),
        };
    } else if is_count(p) && !lazy {
        let class = count_class(p);
        let wide = if base_large == "i64" {
            name.clone()
        } else {
            format!("{name} as i64")
        };
        let check = format!("args::non_negative({name:?}, {wide}, ErrorClass::{class})?;");
        let check = match nobody(f, p) {
            Some(nobody) => format!("let {name} = if {nobody} {{ 0 }} else {{ {name} }}; {check}"),
            None => check,
        };
        passage.checks.push((2, check));
    } else {
        let comm = f
            .params
            .iter()
            .find(|q| q.kind == "COMMUNICATOR" && q.dir == Dir::In)
            .map(|q| &q.name);
        let check = match (p.kind.as_str(), comm) {
            ("TAG", _) => Some(format!("args::tag({name:?}, {name})?;")),
            ("TAG_RECV", _) => Some(format!("args::tag_or_any({name:?}, {name})?;")),
            ("RANK_DEST", Some(comm)) => Some(format!("args::dest({name:?}, {name}, &{comm})?;")),
            ("RANK_SOURCE_ANY", Some(comm)) => Some(format!("args::source({name:?}, {name}, &{comm})?;")),
            ("ROOT", Some(comm)) => Some(format!("args::root({name:?}, {name}, &{comm})?;")),
            _ => None,
        };
        passage.checks.extend(check.map(|c| (3, c)));
        if p.kind == "LOGICAL" {
            (passage.argument, passage.ty) = (format!("{name} != 0"), "bool".into());
        }
    }
    if p.large_only {
        passage.argument = format!("large_.then_some({})", passage.argument);
        passage.ty = format!("Option<{}>", passage.ty);
        passage.checks.clear();
    }
    passage
}

/// Results, values changed in place, and arrays.
fn pointer(f: &Function, p: &Param, base: &str, base_large: &str, raw: &dyn Fn(&str) -> String) -> Passage {
    let name = &p.name;
    let optional = f.chapter == "tools";
    if base != base_large || p.large_only {
        // Two widths: an address and which of them.
        let inner = raw("c_void");
        let (wrapper, checked) = match (p.len.is_some(), p.dir) {
            (true, Dir::In) => ("Counts", false),
            (true, _) => ("OutCounts", false),
            (false, Dir::Out) => ("OutCount", true),
            (false, _) => ("InOutCount", true),
        };
        let mut argument = format!("args::{wrapper}::new({name:?}, {name}, large_)");
        let lifetime = if wrapper == "Counts" { "<'a>" } else { "" };
        let mut ty = format!("args::{wrapper}{lifetime}");
        let mut checks = Vec::new();
        if p.large_only {
            argument = format!("large_.then(|| {argument})");
            ty = format!("Option<{ty}>");
        } else if checked {
            checks.push((4, format!("args::not_null({name:?}, {name}.cast_const())?;")));
        }
        return Passage {
            c: [raw(base), raw(base_large)],
            inner,
            widen: [format!("{name}.cast()"), format!("{name}.cast()")],
            checks,
            argument,
            ty,
        };
    }
    let c = raw(base);
    let length = p.len.as_deref();
    // The function of `args` that checks it, and what comes of that.
    let one = |function: &str| format!("let {name} = args::{function}({name:?}, {name})?;");
    let many = |function: &str, len: &str| {
        format!("let {name} = args::{function}({name:?}, {name}, {len} as i64)?;")
    };
    let made = |wrapper: &str| format!("args::{wrapper}::new({name:?}, {name})");
    let (check, argument, ty) = match (length, p.dir) {
        (None, Dir::InOut) => (Some(one("inout")), name.clone(), format!("args::InOut<{base}>")),
        (None, _) => (Some(one("out")), name.clone(), format!("args::Out<{base}>")),
        (Some("*"), Dir::In) => (None, made("Array"), format!("args::Array<'a, {base}>")),
        (Some("*"), _) => (None, made("OutArray"), format!("args::OutArray<{base}>")),
        (Some(_), _) if p.at_root || optional => (None, name.clone(), c.clone()),
        (Some(len), Dir::In) => (Some(many("slice", len)), name.clone(), format!("&'a [{base}]")),
        (Some(len), Dir::InOut) => {
            let ty = format!("&'a mut [{base}]");
            (Some(many("slice_mut", len)), name.clone(), ty)
        }
        (Some(len), Dir::Out) => {
            let ty = format!("args::OutArray<{base}>");
            (Some(many("out_slice", len)), name.clone(), ty)
        }
    };
    Passage {
        c: [c.clone(), c.clone()],
        inner: c,
        widen: [name.clone(), name.clone()],
        checks: check.map(|c| (4, c)).into_iter().collect(),
        argument,
        ty,
    }
}

/// A null address with something to move: only for the buffers whose count and datatype follow directly (or, in
/// a reduction, belong to both buffers) and are always significant.
fn buffer_check(f: &Function, p: &Param) -> Vec<(u8, String)> {
    let at = f
        .params
        .iter()
        .position(|q| q.name == p.name)
        .expect("a parameter of this function");
    let tail: Vec<&Param> = f.params[at + 1..]
        .iter()
        .skip_while(|q| q.kind == "BUFFER")
        .take(2)
        .collect();
    let pair = |c: &Param, t: &Param| {
        c.kind.starts_with("POLYXFER_NUM_ELEM")
            && c.len.is_none()
            && t.kind == "DATATYPE"
            && t.len.is_none()
            && !checked_by_body(f, c)
    };
    let rooted = f.chapter == "coll" && f.has("root") && p.name != "buffer";
    match tail[..] {
        [count, datatype]
            if pair(count, datatype) && !rooted && matches!(f.chapter.as_str(), "p2p" | "coll") =>
        {
            let (name, count, datatype) = (&p.name, &count.name, &datatype.name);
            let check = if f.chapter == "coll" && name == "sendbuf" {
                "buffer_or_in_place"
            } else {
                "buffer"
            };
            vec![(
                5,
                format!("args::{check}({name:?}, {name}.cast(), {count}, &{datatype})?;"),
            )]
        }
        _ => Vec::new(),
    }
}
