//! Tables of the interfaces beside MPI: mistakes are named, pages are up to date.

use std::path::Path;

use farpost_apigen::{Interface, interface};

const ABOUT: &str = r#"
[interface]
name = "x"
title = "X"
header = "farpost/x.h"
prefix = ["X_"]
source = "a paper"
description = "X on Farpost"
doc = "What X is."
"#;

fn function(params: &str) -> String {
    format!(
        "[[function]]\nname = \"X_f\"\nresult = \"int\"\ngroup = \"G\"\ndoc = \"d\"\nparams = [{params}]\n"
    )
}

#[test]
fn wrong_tables_are_refused_by_name() {
    for (table, complaint) in [
        ("[[functoin]]\nname = \"X_f\"\n".to_owned(), "functoin"),
        (
            function("{ type = \"flaot\", name = \"a\" }"),
            "X_f: a: C type \"flaot\"",
        ),
        (function("{ type = \"void\", name = \"a\" }"), "void is no type"),
        (function("{ type = \"...\", name = \"a\" }"), "needs `as`"),
        (
            function("").replace("X_f", "f"),
            "f begins with none of the prefixes",
        ),
        (function("") + &function(""), "X_f is there twice"),
        (function("").replace("\"d\"", "\"a */ b\""), "ends a comment"),
        (
            "[[type]]\nname = \"S\"\nkind = \"struct\"\ndoc = \"s\"\n".to_owned(),
            "type S: fields is missing",
        ),
        (
            "[[alias]]\ndoc = \"a\"\nnames = [{ name = \"X_A\", of = \"X_B\" }]\n".to_owned(),
            "X_A stands for X_B",
        ),
    ] {
        let error = Interface::parse("x", &(ABOUT.to_owned() + &table))
            .err()
            .expect(&table);
        assert!(
            error.starts_with("api/x.toml: ") && error.contains(complaint),
            "{error}"
        );
    }
    let error = Interface::parse("y", ABOUT).err().expect("another name");
    assert!(error.contains("must be \"y\""), "{error}");
}

/// Every kind of type, as C and as Rust.
#[test]
fn types_become_c_and_rust() {
    let table = ABOUT.to_owned()
        + r#"
[[enum]]
name = "colour"
doc = "Colours."
values = [{ name = "RED", value = 0 }, { name = "BLUE", value = 5, doc = "the other" }]

[[constant]]
type = "unsigned"
doc = "Flags."
values = [{ name = "X_ALL", value = 0xFFFFFFFF }]

[[alias]]
doc = "Old names."
names = [{ name = "X_EVERY", of = "X_ALL", doc = "of 1.0" }, { name = "X_NONE", of = "NULL" }]

[[type]]
name = "stream"
kind = "opaque"
doc = "A stream."

[[type]]
name = "handler"
kind = "function"
result = "int"
params = [{ type = "stream *", name = "from" }]
doc = "Consumes."

[[type]]
name = "pair"
kind = "struct"
fields = [{ type = "const char *", name = "name" }, { type = "pair *", name = "next", array = 2, doc = "others" }, { type = "volatile int", name = "turns" }]
doc = "Two."

[[function]]
name = "X_f"
result = "const void **"
group = "G"
section = "section 3"
doc = "Does it."
params = [
    { type = "handler *", name = "h", doc = "who consumes" },
    { type = "const pair *const *", name = "in" },
    { type = "...", name = "value", as = "uintptr_t" },
]
errors = [{ code = "EBAD", when = "bad" }]
"#;
    let of = Interface::parse("x", &table).expect("a good table");
    let header = interface::header::header(&of);
    for line in [
        "#define X_ALL                                ((unsigned)4294967295)",
        "#define X_EVERY                              X_ALL /* of 1.0 */",
        "#define X_NONE                               NULL",
        "    volatile int turns;",
        "typedef struct stream stream;",
        "typedef int (handler)(stream *from);",
        "    const char *name;",
        "    pair *next[2];",
        "const void **X_f(handler *h, const pair *const *in, ...);",
    ] {
        assert!(header.contains(line), "{line} in {header}");
    }
    let all = [of];
    let rust = interface::rust::source(&all) + &interface::rust::entry_points(&all);
    for line in [
        "pub const BLUE: colour = 5_i64 as colour;",
        "pub type handler = unsafe extern \"C\" fn(*mut stream) -> core::ffi::c_int;",
        "pub next: [*mut pair; 2],",
        "pub turns: core::ffi::c_int,",
        "fn X_f(h: Option<handler>, r#in: *const *const pair, value: usize) -> *mut *const core::ffi::c_void",
        "crate::x::functions::x_f(cx, arg::X_f { h, r#in, value })",
    ] {
        assert!(rust.contains(line), "{line} in {rust}");
    }
}

#[test]
fn reference_pages_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for of in Interface::all() {
        let page = format!("docs/reference/{}.md", of.interface.name);
        let committed = std::fs::read_to_string(root.join(&page)).unwrap_or_default();
        assert!(
            committed == interface::page::page(&of),
            "{page} is out of date: run `make docs` and commit it"
        );
    }
}
