//! The Rust side of a table: constants, `#[repr(C)]` types, exported data and entry points.

use std::fmt::Write;

use super::{Function, Interface, Param, TypeKind, Value, ctype};

/// Modules `NAME` (types and constants) and `NAME_entry` (exported functions) of all interfaces, and `LAYOUT`: what
/// the C compiler must agree with.
///
/// # Panics
/// If a table was not checked.
pub fn source(all: &[Interface]) -> String {
    let mut out = String::new();
    for (number, of) in all.iter().enumerate() {
        let About { name, title } = About::of(of);
        line!(
            out,
            "/// {title}: types, constants and exported data.\npub mod {name} {{"
        );
        constants(of, &mut out);
        types(of, &mut out);
        variables(of, &mut out);
        layout(of, &mut out);
        argument_structures(of, &mut out);
        line!(
            out,
            "}}\n/// {title}: entry points.\npub mod {name}_entry {{\n    use super::{name}::*;"
        );
        entries(of, number, &mut out);
        out.push_str("}\n");
    }
    let each: Vec<String> = all
        .iter()
        .map(|of| format!("({0:?}, {0}::LAYOUT)", of.interface.name))
        .collect();
    line!(
        out,
        "/// Per interface: expressions of C and their values here.\npub static LAYOUTS: &[(&str, &[(&str, i64)])] = &[{}];",
        each.join(", ")
    );
    let names: Vec<String> = all
        .iter()
        .map(|of| {
            let names: Vec<&str> = of.function.iter().map(|f| f.name.as_str()).collect();
            format!("&{names:?}")
        })
        .collect();
    line!(
        out,
        "/// Per interface: the names of its functions, in order.\npub static NAMES: &[&[&str]] = &[{}];",
        names.join(", ")
    );
    out
}

struct About<'a> {
    name: &'a str,
    title: &'a str,
}

impl<'a> About<'a> {
    fn of(of: &'a Interface) -> Self {
        Self {
            name: &of.interface.name,
            title: &of.interface.title,
        }
    }
}

fn value(v: &Value, ty: &str, out: &mut String) {
    let doc = v.doc.split_whitespace().collect::<Vec<_>>().join(" ");
    line!(
        out,
        "    #[doc = {doc:?}]\n    pub const {}: {ty} = {}_i64 as {ty};",
        v.name,
        v.value
    );
}

/// The Rust type of an enumeration, as GCC and Clang choose it.
fn of_enum(values: &[Value]) -> &'static str {
    if values.iter().any(|v| v.value < 0) {
        "core::ffi::c_int"
    } else {
        "core::ffi::c_uint"
    }
}

fn constants(of: &Interface, out: &mut String) {
    for group in &of.constant {
        let ty = ctype::rust(of, &group.ctype).expect("checked");
        group.values.iter().for_each(|v| value(v, &ty, out));
    }
    for e in &of.enums {
        let ty = match &e.name {
            Some(name) => {
                line!(
                    out,
                    "    #[doc = {:?}]\n    pub type {name} = {};",
                    e.doc,
                    of_enum(&e.values)
                );
                name.as_str()
            }
            None => "core::ffi::c_int",
        };
        e.values.iter().for_each(|v| value(v, ty, out));
    }
}

fn types(of: &Interface, out: &mut String) {
    for t in &of.types {
        let (name, doc) = (&t.name, &t.doc);
        line!(out, "    #[doc = {doc:?}]");
        match t.kind {
            TypeKind::Opaque => writeln!(
                out,
                "    #[repr(C)]\n    pub struct {name} {{\n        hidden: [u8; 0],\n    }}"
            ),
            TypeKind::Handle => writeln!(out, "    pub type {name} = *mut core::ffi::c_void;"),
            TypeKind::Alias => {
                let c = t.of.as_deref().expect("checked");
                writeln!(
                    out,
                    "    pub type {name} = {};",
                    ctype::rust(of, c).expect("checked")
                )
            }
            TypeKind::Struct | TypeKind::Union => {
                let word = if t.kind == TypeKind::Union {
                    "union"
                } else {
                    "struct"
                };
                let fields: String = t
                    .fields
                    .iter()
                    .map(|f| {
                        let ty = ctype::rust(of, &f.ctype).expect("checked");
                        let ty = f.array.map_or(ty.clone(), |n| format!("[{ty}; {n}]"));
                        format!(
                            "        #[doc = {:?}]\n        pub {}: {ty},\n",
                            f.doc,
                            ident(&f.name)
                        )
                    })
                    .collect();
                writeln!(
                    out,
                    "    #[repr(C)]\n    #[derive(Clone, Copy)]\n    pub {word} {name} {{\n{fields}    }}"
                )
            }
            TypeKind::Function | TypeKind::Callback => {
                let result = ctype::result(of, t.result.as_deref().expect("checked")).expect("checked");
                let params: Vec<String> = t
                    .params
                    .iter()
                    .map(|p| ctype::param(of, p).expect("checked"))
                    .collect();
                writeln!(
                    out,
                    "    pub type {name} = unsafe extern \"C\" fn({}){result};",
                    params.join(", ")
                )
            }
        }
        .expect("String");
    }
}

fn variables(of: &Interface, out: &mut String) {
    for v in &of.variable {
        let ty = ctype::rust(of, &v.ctype).expect("checked");
        line!(
            out,
            "    #[doc = {:?}]\n    #[unsafe(no_mangle)]\n    pub static {}: crate::interfaces::Exported<{ty}> = crate::interfaces::Exported::new();",
            v.doc,
            v.name
        );
    }
}

fn layout(of: &Interface, out: &mut String) {
    out.push_str("    pub static LAYOUT: &[(&str, i64)] = &[\n");
    let mut line = |c: String, rust: String| {
        line!(out, "        ({c:?}, ({rust}) as i64),");
    };
    let groups = of
        .constant
        .iter()
        .flat_map(|g| &g.values)
        .chain(of.enums.iter().flat_map(|e| &e.values));
    for v in groups {
        line(format!("(long long){}", v.name), v.name.clone());
    }
    for a in of.alias.iter().flat_map(|a| &a.names).filter(|a| a.of != "NULL") {
        line(format!("(long long){}", a.name), a.of.clone());
    }
    for v in &of.variable {
        let ty = ctype::rust(of, &v.ctype).expect("checked");
        line(format!("sizeof({})", v.name), format!("size_of::<{ty}>()"));
    }
    for e in of.enums.iter().filter_map(|e| e.name.as_ref()) {
        line(format!("sizeof({e})"), format!("size_of::<{e}>()"));
    }
    for t in &of.types {
        let name = &t.name;
        match t.kind {
            TypeKind::Opaque | TypeKind::Function => {}
            TypeKind::Handle | TypeKind::Alias | TypeKind::Callback => {
                line(format!("sizeof({name})"), format!("size_of::<{name}>()"))
            }
            TypeKind::Struct | TypeKind::Union => {
                line(format!("sizeof({name})"), format!("size_of::<{name}>()"));
                for f in &t.fields {
                    let rust = format!("core::mem::offset_of!({name}, {})", ident(&f.name));
                    line(format!("offsetof({name}, {})", f.name), rust);
                    let mut ty = ctype::rust(of, &f.ctype).expect("checked");
                    if let Some(n) = f.array {
                        ty = format!("[{ty}; {n}]");
                    }
                    line(
                        format!("sizeof((({name} *)0)->{})", f.name),
                        format!("size_of::<{ty}>()"),
                    );
                }
            }
        }
    }
    out.push_str("    ];\n");
}

/// A name that is none of Rust's words.
fn ident(name: &str) -> String {
    match name {
        "type" | "in" | "ref" | "move" | "match" | "loop" | "fn" | "use" | "where" | "box" | "final"
        | "priv" => {
            format!("r#{name}")
        }
        _ => name.into(),
    }
}

/// The Rust type of an argument as a body gets it: where a value of the program's is, or is to be stored, that is a `Place`.
fn argument(of: &Interface, p: &Param) -> String {
    let ty = ctype::param(of, p).expect("checked");
    match ty.strip_prefix("*mut ") {
        Some(to) if !ctype::is_memory(of, to) => format!("crate::interfaces::Place<{to}>"),
        _ => ty,
    }
}

/// The structures that bodies get their arguments in, called like the functions.
fn argument_structures(of: &Interface, out: &mut String) {
    out.push_str("    /// Arguments of the functions.\n    pub mod arg {\n    use super::*;\n");
    for f in of.function.iter().filter(|f| !f.params.is_empty()) {
        let field = |p: &Param| format!("        pub {}: {},\n", ident(&p.name), argument(of, p));
        let fields: String = f.params.iter().map(field).collect();
        line!(
            out,
            "    /// Arguments of `{0}`.\n    #[derive(Clone, Copy)]\n    pub struct {0} {{\n{fields}    }}",
            f.name
        );
    }
    out.push_str("    }\n");
}

/// The call of a body.
fn body_call(of: &Interface, f: &Function) -> String {
    let path = format!("crate::{}::functions::{}", of.interface.name, f.body());
    if f.params.is_empty() {
        return format!("{path}(cx)");
    }
    let field = |p: &Param| {
        let name = ident(&p.name);
        if argument(of, p).starts_with("crate::interfaces::Place<") {
            format!("{name}: crate::interfaces::Place::new({name})")
        } else {
            name
        }
    };
    let fields: Vec<String> = f.params.iter().map(field).collect();
    format!("{path}(cx, arg::{} {{ {} }})", f.name, fields.join(", "))
}

/// The arguments that an error names, as a term that makes a string of them.
fn shown(of: &Interface, f: &Function) -> String {
    let param = |name: &String| f.params.iter().find(|p| &p.name == name).expect("checked");
    let named = |name: &str| of.types.iter().find(|t| t.name == name);
    let hexadecimal = |p: &Param| {
        let ty = named(&p.ctype)?;
        let alias = ty.of.as_deref().and_then(named);
        Some(ty.hexadecimal || alias.is_some_and(|alias| alias.hexadecimal))
    };
    let text = |p: &Param| {
        let format = if hexadecimal(p) == Some(true) { ":#x" } else { "" };
        format!("{}={{{format}}}", p.name)
    };
    let params: Vec<&Param> = f.shown.iter().map(param).collect();
    let texts: Vec<String> = params.iter().map(|p| text(p)).collect();
    let values: String = params.iter().map(|p| format!(", {}", ident(&p.name))).collect();
    format!("format!({:?}{values})", texts.join(", "))
}

fn entries(of: &Interface, interface: usize, out: &mut String) {
    for (number, f) in of.function.iter().enumerate() {
        let param = |p: &Param| format!("{}: {}", ident(&p.name), ctype::param(of, p).expect("checked"));
        let params: Vec<String> = f.params.iter().map(param).collect();
        let result = ctype::result(of, &f.result).expect("checked");
        line!(
            out,
            "    #[unsafe(no_mangle)]\n    pub unsafe extern \"C\" fn {0}({1}){result} {{\n        \
             crate::interfaces::enter(\"{0}\", ({interface}, {number}), #[inline(always)] |cx| unsafe {{\n            \
             crate::interfaces::Answer::told({2}, cx, \"{0}\", || {3})\n        }})\n    }}",
            f.name,
            params.join(", "),
            body_call(of, f),
            shown(of, f)
        );
    }
}
