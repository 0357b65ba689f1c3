//! Arguments and names, as C.

use crate::program::{ANY_SOURCE, ANY_TAG, Data, PROC_NULL, ROOT, Wanted};

pub(crate) fn array<T: ToString>(ty: &str, values: &[T]) -> String {
    if values.is_empty() {
        return format!("({ty}[1]){{0}}");
    }
    let values: Vec<String> = values.iter().map(T::to_string).collect();
    format!("({ty}[]){{{}}}", values.join(", "))
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
    format!(
        "{}, {}, {}, c[{}]",
        data(&w.data),
        rank(w.from),
        tag(w.tag),
        w.comm
    )
}

/// `MPI_` and a name whose first letter is large.
pub(crate) fn named(name: &str) -> String {
    format!("MPI_{}{}", name[..1].to_uppercase(), &name[1..])
}

pub(crate) fn check(w: &Wanted) -> &'static str {
    if w.truncated { "TRUNCATES" } else { "OK" }
}
