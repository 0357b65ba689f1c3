//! Arguments and names, as C.

use crate::program::{ANY_SOURCE, ANY_TAG, Data, Outgoing, PROC_NULL, ROOT, Wanted};

pub(crate) fn array<T: ToString>(ty: &str, values: &[T]) -> String {
    if values.is_empty() {
        return format!("({ty}[1]){{0}}");
    }
    format!("({ty}[]){{{}}}", joined(values, T::to_string))
}

pub(crate) fn joined<T>(values: &[T], text: impl Fn(&T) -> String) -> String {
    values.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Datatypes by their numbers.
pub(crate) fn types(numbers: &[usize]) -> String {
    let types: Vec<String> = numbers.iter().map(|ty| format!("type[{ty}]")).collect();
    array("MPI_Datatype", &types)
}

pub(crate) fn rank(rank: i32) -> String {
    match rank {
        ANY_SOURCE => "MPI_ANY_SOURCE".into(),
        PROC_NULL => "MPI_PROC_NULL".into(),
        ROOT => "MPI_ROOT".into(),
        rank => rank.to_string(),
    }
}

pub(crate) fn tag(tag: i32) -> String {
    if tag == ANY_TAG {
        "MPI_ANY_TAG".into()
    } else {
        tag.to_string()
    }
}

pub(crate) fn data(d: &Data) -> String {
    match d.brief {
        true => format!("b[{}], {}, brief(type[{}])", d.buf, d.count, d.ty),
        false => format!("b[{}], {}, type[{}]", d.buf, d.count, d.ty),
    }
}

pub(crate) fn wanted(w: &Wanted) -> String {
    let (data, from, tag, comm) = (data(&w.data), rank(w.from), tag(w.tag), w.comm);
    format!("{data}, {from}, {tag}, c[{comm}]")
}

pub(crate) fn outgoing(send: &Outgoing) -> String {
    let (data, to, tag, comm) = (data(&send.data), rank(send.to), send.tag, send.comm);
    format!("{data}, {to}, {tag}, c[{comm}]")
}

/// What is said of a request whose message is too long.
pub(crate) fn truncates(w: &Wanted, req: usize) -> String {
    if w.truncated {
        format!(" truncates({req});")
    } else {
        String::new()
    }
}

/// A variant's name in small letters.
pub(crate) fn lower(variant: impl std::fmt::Debug) -> String {
    format!("{variant:?}").to_lowercase()
}

/// `MPI_` and a name whose first letter is large.
pub(crate) fn named(name: &str) -> String {
    format!("MPI_{}{}", name[..1].to_uppercase(), &name[1..])
}

pub(crate) fn check(w: &Wanted) -> &'static str {
    if w.truncated { "TRUNCATES" } else { "OK" }
}
