//! The constants and callback types in Rust.

use crate::model::Api;

/// Source of a module with every constant (handles as `usize`, addresses as `usize`, the rest as `c_int` or
/// `i64`), `MPI_Status` and the callback types.
pub fn source(api: &Api) -> String {
    let mut out = String::new();
    let [(major, minor), (abi_major, abi_minor)] = api.versions;
    for (name, value) in [
        ("MPI_VERSION", major),
        ("MPI_SUBVERSION", minor),
        ("MPI_ABI_VERSION", abi_major),
        ("MPI_ABI_SUBVERSION", abi_minor),
    ] {
        line!(out, "pub const {name}: c_int = {value};");
    }
    for group in &api.groups {
        for c in &group.values {
            let ty = match c.ctype.as_str() {
                "int" => "c_int",
                "MPI_Offset" => "i64",
                ty if group.is_enum && ty.starts_with("MPI_T_") => "c_int",
                _ => "usize",
            };
            line!(
                out,
                "/// {}.\npub const {}: {ty} = {};",
                group.doc,
                c.name,
                c.value
            );
        }
    }
    out.push_str("/// What a completed operation tells; the layout is the ABI's.\n#[repr(C)]\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\npub struct MPI_Status {\n");
    for field in &api.status_fields {
        line!(out, "    pub {field}: c_int,");
    }
    line!(out, "    pub MPI_internal: [c_int; {}],\n}}", api.status_internal);
    for callback in &api.callbacks {
        let params: Vec<String> = callback.params.split(", ").map(|p| param(api, p)).collect();
        let result = if callback.returns == "int" {
            " -> c_int"
        } else {
            ""
        };
        line!(
            out,
            "/// `{}` of the standard.\npub type {} = unsafe extern \"C\" fn({}){result};",
            callback.name,
            callback.name,
            params.join(", ")
        );
    }
    out
}

fn param(api: &Api, c: &str) -> String {
    if c == "..." {
        return c.into();
    }
    let (stars, ty) = (
        c.matches('*').count(),
        c.split([' ', '*']).next().unwrap_or_default(),
    );
    let mut rust = scalar(api, ty).to_owned();
    for _ in 0..stars {
        rust = format!("*mut {rust}");
    }
    rust
}

/// The Rust type of a C type without stars.
pub fn scalar(api: &Api, c: &str) -> &'static str {
    match c {
        "int" => "c_int",
        "double" => "f64",
        "char" => "c_char",
        "void" => "c_void",
        "MPI_Aint" | "MPI_Count" | "MPI_Offset" => "i64",
        "MPI_Status" => "abi::MPI_Status",
        "MPI_T_cb_safety" | "MPI_T_source_order" => "c_int",
        _ if api.handles.iter().any(|h| h.name == c) => "usize",
        // A function: the bodies get its address.
        _ => "usize",
    }
}
