//! `docs/reference/NAME.md`.

use super::{Function, Interface, Param, Type, TypeKind, Value, ctype};

/// The whole page.
pub fn page(of: &Interface) -> String {
    let about = &of.interface;
    let name = &about.name;
    let mut out = format!(
        "# {}\n\nGenerated from `api/{name}.toml`; do not edit.\n\nSource: {}\n\n{}\n\n\
         ```sh\ncc program.c $(pkg-config --cflags --libs farpost-{name})   # or mpicc program.c\nmpiexec -n 2 ./a.out\n```\n\n\
         ```c\n#include <{}>\n```\n",
        about.title,
        one_line(&about.source),
        about.doc.trim(),
        about.header
    );
    if !of.choice.is_empty() {
        out.push_str("\n## What the source leaves open\n\n| Question | Here | Why |\n|---|---|---|\n");
        for c in &of.choice {
            let cells = [&c.open, &c.choice, &c.reason].map(|text| cell(text));
            line!(out, "| {} |", cells.join(" | "));
        }
    }
    let constants = of
        .constant
        .iter()
        .map(|g| (format!("`{}`", g.ctype), &g.doc, &g.values));
    let enums = of.enums.iter().map(|e| {
        let title = e
            .name
            .as_ref()
            .map_or("`int`".into(), |name| format!("`enum {name}`"));
        (title, &e.doc, &e.values)
    });
    let groups: Vec<_> = constants.chain(enums).collect();
    if !groups.is_empty() {
        out.push_str("\n## Constants\n");
        for (title, doc, group) in groups {
            text!(out, "\n{} ({title})\n\n", doc.trim());
            values(group, &mut out);
        }
    }
    for group in &of.alias {
        text!(
            out,
            "\n{} (`#define`)\n\n| Name | Stands for | |\n|---|---|---|\n",
            group.doc.trim()
        );
        for a in &group.names {
            line!(out, "| `{}` | `{}` | {} |", a.name, a.of, cell(&a.doc));
        }
    }
    if !of.types.is_empty() {
        out.push_str("\n## Types\n");
        of.types.iter().for_each(|t| one_type(t, &mut out));
    }
    if !of.variable.is_empty() {
        out.push_str("\n## Variables\n\n| Variable | |\n|---|---|\n");
        for v in &of.variable {
            line!(
                out,
                "| `{}` | {} |",
                ctype::declare(&v.ctype, &v.name),
                cell(&v.doc)
            );
        }
    }
    for group in of.groups() {
        text!(out, "\n## {group}\n");
        of.function
            .iter()
            .filter(|f| f.group == group)
            .for_each(|f| function(f, &mut out));
    }
    out
}

fn values(group: &[Value], out: &mut String) {
    out.push_str("| Name | Value | |\n|---|---|---|\n");
    for v in group {
        // Large ones are sets of bits.
        let number = if v.value >= 0x1_0000 {
            format!("{:#x}", v.value)
        } else {
            v.value.to_string()
        };
        line!(out, "| `{}` | {number} | {} |", v.name, cell(&v.doc));
    }
}

fn one_type(t: &Type, out: &mut String) {
    let name = &t.name;
    let of = t.of.as_deref().unwrap_or_default();
    let declaration = match t.kind {
        TypeKind::Opaque => format!("`{name}`, seen through pointers only"),
        TypeKind::Handle => format!("`{name}`, a handle"),
        TypeKind::Alias => format!("`{name}`, `{of}`"),
        TypeKind::Struct => format!("`struct {name}`"),
        TypeKind::Union => format!("`union {name}`"),
        TypeKind::Function | TypeKind::Callback => {
            let star = if t.kind == TypeKind::Callback { "*" } else { "" };
            let result = t.result.as_deref().unwrap_or_default();
            format!(
                "`{}{}`",
                ctype::declare(result, &format!("({star}{name})")),
                ctype::list(&t.params)
            )
        }
    };
    text!(out, "\n### {declaration}\n\n{}\n", t.doc.trim());
    if !t.fields.is_empty() {
        out.push_str("\n| Field | |\n|---|---|\n");
        for f in &t.fields {
            let array = f.array.map(|n| format!("[{n}]")).unwrap_or_default();
            line!(
                out,
                "| `{}{array}` | {} |",
                ctype::declare(&f.ctype, &f.name),
                cell(&f.doc)
            );
        }
    }
    params(&t.params, out);
}

fn params(params: &[Param], out: &mut String) {
    if params.iter().any(|p| !p.doc.is_empty()) {
        out.push('\n');
        for p in params {
            line!(out, "- `{}`: {}", p.name, one_line(&p.doc));
        }
    }
}

fn function(f: &Function, out: &mut String) {
    text!(
        out,
        "\n### {}\n\n```c\n{}{};\n```\n\n{}",
        f.name,
        ctype::declare(&f.result, &f.name),
        ctype::list(&f.params),
        f.doc.trim()
    );
    if !f.section.is_empty() {
        text!(out, " ({})", f.section);
    }
    out.push('\n');
    params(&f.params, out);
    if !f.returns.is_empty() {
        text!(out, "\nReturns {}\n", f.returns.trim());
    }
    if !f.errors.is_empty() {
        out.push_str("\n| Error | When |\n|---|---|\n");
        for e in &f.errors {
            line!(out, "| `{}` | {} |", e.code, cell(&e.when));
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    one_line(text).replace('|', "\\|")
}
