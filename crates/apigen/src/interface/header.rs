//! `farpost/NAME.h`: C99 and C++17.

use std::fmt::Write;

use super::{Interface, Type, TypeKind, Value, ctype};

/// Width of comments.
const LINE: usize = 110;

/// The whole header.
pub fn header(of: &Interface) -> String {
    let about = &of.interface;
    let guard = format!("FARPOST_{}_H", about.name.to_uppercase());
    let mut out = format!(
        "/*\n * {} of Farpost {}: {}.\n * Generated from api/{}.toml; do not edit. SPDX-License-Identifier: Apache-2.0 OR MIT\n",
        about.header,
        env!("CARGO_PKG_VERSION"),
        about.title,
        about.name
    );
    for line in wrapped(&format!("Source: {}\n\n{}", about.source, about.doc), LINE - 3) {
        out.push_str(format!(" * {line}").trim_end());
        out.push('\n');
    }
    text!(out, " */\n#ifndef {guard}\n#define {guard}\n\n");
    for include in &about.includes {
        line!(out, "#include <{include}>");
    }
    out.push_str("\n#if defined(__cplusplus)\nextern \"C\" {\n#endif\n");
    constants(of, &mut out);
    enums(of, &mut out);
    aliases(of, &mut out);
    types(of, &mut out);
    for v in &of.variable {
        comment(&v.doc, &mut out);
        line!(out, "extern {};", ctype::declare(&v.ctype, &v.name));
    }
    for group in of.groups() {
        line!(out, "\n/* ---- {group} ---- */");
        for f in of.function.iter().filter(|f| f.group == group) {
            comment(&notes(f), &mut out);
            let line = format!(
                "{}{};",
                ctype::declare(&f.result, &f.name),
                ctype::list(&f.params)
            );
            out.push_str(&broken(&line));
        }
    }
    text!(
        out,
        "\n#if defined(__cplusplus)\n}}\n#endif\n\n#endif /* {guard} */\n"
    );
    out
}

/// What is said of a function.
fn notes(f: &super::Function) -> String {
    let mut text = f.doc.trim().to_owned();
    if !f.section.is_empty() {
        text!(text, " ({})", f.section);
    }
    for p in f.params.iter().filter(|p| !p.doc.is_empty()) {
        text!(text, "\n- {}: {}", p.name, p.doc.trim());
    }
    if !f.returns.is_empty() {
        text!(text, "\nReturns {}", f.returns.trim());
    }
    for e in &f.errors {
        text!(text, "\n- {}: {}", e.code, e.when.trim());
    }
    text
}

fn constants(of: &Interface, out: &mut String) {
    for group in &of.constant {
        comment(&group.doc, out);
        for v in &group.values {
            let value = match group.ctype.as_str() {
                "int" if v.value < 0 => format!("({})", v.value),
                "int" => v.value.to_string(),
                c => format!("(({c}){})", v.value),
            };
            line!(out, "#define {:<36} {value}{}", v.name, aside(v));
        }
    }
}

fn enums(of: &Interface, out: &mut String) {
    for e in &of.enums {
        comment(&e.doc, out);
        out.push_str(if e.name.is_some() {
            "typedef enum {\n"
        } else {
            "enum {\n"
        });
        for (at, v) in e.values.iter().enumerate() {
            let comma = if at + 1 == e.values.len() { "" } else { "," };
            line!(out, "    {:<36} = {}{comma}{}", v.name, v.value, aside(v));
        }
        match &e.name {
            Some(name) => writeln!(out, "}} {name};"),
            None => writeln!(out, "}};"),
        }
        .expect("writing to a String");
    }
}

fn aliases(of: &Interface, out: &mut String) {
    for group in &of.alias {
        comment(&group.doc, out);
        for a in &group.names {
            line!(out, "#define {:<36} {}{}", a.name, a.of, remark(&a.doc));
        }
    }
}

fn aside(v: &Value) -> String {
    remark(&v.doc)
}

fn remark(doc: &str) -> String {
    let text = doc.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        text
    } else {
        format!(" /* {text} */")
    }
}

fn types(of: &Interface, out: &mut String) {
    // Types may point to each other in any order.
    let tagged = |t: &&Type| matches!(t.kind, TypeKind::Opaque | TypeKind::Struct | TypeKind::Union);
    let mut first = true;
    for t in of.types.iter().filter(tagged) {
        if std::mem::take(&mut first) {
            out.push('\n');
        }
        let word = if t.kind == TypeKind::Union {
            "union"
        } else {
            "struct"
        };
        line!(out, "typedef {word} {0} {0};", t.name);
    }
    for t in &of.types {
        comment(&t.doc, out);
        let name = &t.name;
        match t.kind {
            TypeKind::Opaque => out.push_str(&format!("struct {name};\n")),
            TypeKind::Handle => {
                out.push_str(&format!(
                    "typedef struct {} *{name};\n",
                    t.tag.as_deref().unwrap_or_default()
                ));
            }
            TypeKind::Alias => {
                out.push_str(&format!(
                    "typedef {};\n",
                    ctype::declare(t.of.as_deref().unwrap_or_default(), name)
                ));
            }
            TypeKind::Struct | TypeKind::Union => {
                let word = if t.kind == TypeKind::Union {
                    "union"
                } else {
                    "struct"
                };
                line!(out, "{word} {name} {{");
                for f in &t.fields {
                    if !f.doc.is_empty() {
                        for line in wrapped(&f.doc, LINE - 7) {
                            line!(out, "    /* {line} */");
                        }
                    }
                    let array = f.array.map(|n| format!("[{n}]")).unwrap_or_default();
                    line!(out, "    {}{array};", ctype::declare(&f.ctype, &f.name));
                }
                out.push_str("};\n");
            }
            TypeKind::Function | TypeKind::Callback => {
                let star = if t.kind == TypeKind::Callback { "*" } else { "" };
                let result = t.result.as_deref().unwrap_or_default();
                let line = format!(
                    "typedef {}{};",
                    ctype::declare(result, &format!("({star}{name})")),
                    ctype::list(&t.params)
                );
                out.push_str(&broken(&line));
            }
        }
    }
}

/// A comment of its own lines, after an empty one.
fn comment(text: &str, out: &mut String) {
    let lines = wrapped(text, LINE - 3);
    if let [line] = &lines[..]
        && line.len() < LINE - 6
    {
        line!(out, "\n/* {line} */");
        return;
    }
    out.push_str("\n/*\n");
    for line in lines {
        out.push_str(format!(" * {line}").trim_end());
        out.push('\n');
    }
    out.push_str(" */\n");
}

/// Paragraphs, items that begin with "- " and lines of indented code, broken at blanks.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.trim().lines() {
        if line.trim().is_empty() || line.starts_with("    ") || line.starts_with("```") {
            out.push(line.trim_end().to_owned());
            open = false;
            continue;
        }
        let item = line.starts_with("- ") || line.starts_with("Returns ");
        for (at, word) in line.split_whitespace().enumerate() {
            match out.last_mut() {
                Some(last) if (open && !item || at > 0) && last.len() + 1 + word.len() <= width => {
                    last.push(' ');
                    last.push_str(word);
                }
                _ => out.push(word.to_owned()),
            }
        }
        open = true;
    }
    out
}

/// A declaration, broken after commas.
fn broken(line: &str) -> String {
    let (mut out, mut width) = (String::new(), 0);
    for (at, piece) in line.split_inclusive(", ").enumerate() {
        if at > 0 && width + piece.trim_end().len() > LINE {
            out.truncate(out.trim_end().len());
            out.push_str("\n    ");
            width = 4;
        }
        out.push_str(piece);
        width += piece.len();
    }
    out.push('\n');
    out
}
