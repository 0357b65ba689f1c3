//! The names of MPI-1 that the standard removed (`api/mpi1.toml`): inline functions in `mpi.h`, so that programs compiled with
//! it need no symbol outside of the standard, and exported functions for programs compiled with another library's header.

use toml::{Table, Value};

use crate::checks::{Passage, passage};
use crate::lines::wrap;
use crate::model::{Api, Dir, Function};

/// A removed name.
pub struct Removed {
    pub name: String,
    /// The function that replaced it.
    of: String,
    /// What is given of the results of [`of`](Self::of), as a term of their names; `None`: the arguments are the same.
    gives: Option<String>,
}

/// What the table says.
pub struct Mpi1 {
    pub functions: Vec<Removed>,
    /// Name, C type, value.
    constants: Vec<(String, String, i64)>,
    /// Second names of types: name, of.
    aliases: Vec<(String, String)>,
}

fn entries<'a>(table: &'a Table, key: &str) -> impl Iterator<Item = &'a Value> {
    table.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn text(entry: &Value, key: &str) -> Option<String> {
    entry.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn needed(entry: &Value, key: &str) -> String {
    text(entry, key).unwrap_or_else(|| panic!("api/mpi1.toml: an entry lacks {key}: {entry:?}"))
}

impl Mpi1 {
    /// The table of this repository, compiled in.
    ///
    /// # Panics
    /// When the table is wrong; the message names the entry.
    pub fn builtin() -> Mpi1 {
        let table: Table = include_str!("../../../api/mpi1.toml")
            .parse()
            .unwrap_or_else(|e| panic!("api/mpi1.toml: {e}"));
        Mpi1 {
            functions: entries(&table, "function")
                .map(|e| Removed {
                    name: needed(e, "name"),
                    of: needed(e, "of"),
                    gives: text(e, "gives"),
                })
                .collect(),
            constants: entries(&table, "constant")
                .map(|e| {
                    let value = e.get("value").and_then(Value::as_integer);
                    let value = value.unwrap_or_else(|| panic!("api/mpi1.toml: no value: {e:?}"));
                    (needed(e, "name"), needed(e, "type"), value)
                })
                .collect(),
            aliases: entries(&table, "alias")
                .map(|e| (needed(e, "name"), needed(e, "of")))
                .collect(),
        }
    }
}

fn modern<'a>(api: &'a Api, removed: &Removed) -> &'a Function {
    let found = api.functions.iter().find(|f| f.name == removed.of);
    found.unwrap_or_else(|| panic!("api/mpi1.toml: {}: there is no {}", removed.name, removed.of))
}

/// The part of `mpi.h`.
pub fn header(api: &Api) -> String {
    let table = Mpi1::builtin();
    let mut out = String::from(
        "\n/* Names of MPI-1 that the standard has removed. They are not of the ABI: a program that uses them needs the functions that\n   \
         replaced them, and, for MPI_LB and MPI_UB, a library that knows these. Define FARPOST_NO_MPI1 to do without. */\n\
         #if !defined(FARPOST_NO_MPI1)\n\n",
    );
    for (name, ctype, value) in &table.constants {
        let value = if ctype == "int" {
            format!("({value})")
        } else {
            format!("(({ctype})0x{value:x})")
        };
        line!(out: "#define {name:<36} {value}");
    }
    for (name, of) in &table.aliases {
        line!(out: "typedef {of} {name};");
    }
    for prefix in ["", "P"] {
        for removed in &table.functions {
            inline(api, prefix, removed, &mut out);
        }
    }
    out.push_str("#endif /* FARPOST_NO_MPI1 */\n");
    out
}

fn inline(api: &Api, prefix: &str, removed: &Removed, out: &mut String) {
    let f = modern(api, removed);
    let (name, of) = (&removed.name, &removed.of);
    let Some(term) = &removed.gives else {
        let params: Vec<String> = f.params_of(false).map(|p| p.c_declaration(false)).collect();
        let args: Vec<&str> = f.params_of(false).map(|p| p.name.as_str()).collect();
        let (params, args) = (params.join(", "), args.join(", "));
        wrap(&format!("FARPOST_INLINE int {prefix}{name}({params})"), out);
        line!(out: "{{\n    return {prefix}{of}({args});\n}}");
        return;
    };
    let (given, results) = split(f);
    let types: Vec<String> = f
        .params_of(false)
        .map(|p| p.c_type(false).trim_end_matches('*').to_owned())
        .collect();
    let declared: Vec<String> = results.iter().map(|r| format!("{r} = 0")).collect();
    let passed: Vec<String> = results
        .iter()
        .enumerate()
        .map(|(at, r)| {
            // An error of the function behind: it says that an address is needed.
            if at == 0 {
                format!("result ? &{r} : 0")
            } else {
                format!("&{r}")
            }
        })
        .collect();
    line!(out: "FARPOST_INLINE int {prefix}{name}({} {given}, {} *result)\n{{\n    {} {};\n    int code = {prefix}{of}({given}, {});\n    \
         if (code == MPI_SUCCESS && result) *result = {term};\n    return code;\n}}",
        types[0],
        types[1],
        types[1],
        declared.join(", "),
        passed.join(", ")
    );
}

/// The one argument of a function and its results, by name.
fn split(f: &Function) -> (&str, Vec<&str>) {
    let names = |dir: Dir| {
        f.params
            .iter()
            .filter(move |p| p.dir == dir)
            .map(|p| p.name.as_str())
    };
    let given = names(Dir::In).next();
    let given = given.unwrap_or_else(|| panic!("api/mpi1.toml: {} takes nothing", f.name));
    (given, names(Dir::Out).collect())
}

/// The exported functions: each calls the `PMPI_` name of the one that replaced it, which no tool takes the place of.
pub fn source(api: &Api) -> String {
    let mut out = String::new();
    for removed in Mpi1::builtin().functions {
        let f = modern(api, &removed);
        let passages: Vec<Passage> = f.params_of(false).map(|p| passage(api, f, p)).collect();
        let params: Vec<String> = f
            .params_of(false)
            .zip(&passages)
            .map(|(p, passage)| format!("{}: {}", p.name, passage.c[0]))
            .collect();
        for prefix in ["", "P"] {
            let name = format!("{prefix}{}", removed.name);
            let of = format!("P{}", removed.of);
            let (params, body) = match &removed.gives {
                None => {
                    let args: Vec<&str> = f.params_of(false).map(|p| p.name.as_str()).collect();
                    (
                        params.join(", "),
                        format!("unsafe {{ {of}({}) }}", args.join(", ")),
                    )
                }
                Some(term) => {
                    let (given, results) = split(f);
                    let zeros: String = results.iter().map(|r| format!("let mut {r} = 0; ")).collect();
                    let first = format!(
                        "if result.is_null() {{ core::ptr::null_mut() }} else {{ &raw mut {} }}",
                        results[0]
                    );
                    let rest: String = results[1..].iter().map(|r| format!(", &raw mut {r}")).collect();
                    (
                        format!("{}, result: {}", params[0], passages[1].c[0]),
                        format!(
                            "{zeros}let code = unsafe {{ {of}({given}, {first}{rest}) }};\n    \
                             if code == 0 {{ unsafe {{ result.write({term}) }} }}\n    code"
                        ),
                    )
                }
            };
            line!(out: "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({params}) -> c_int {{\n    {body}\n}}"
            );
        }
    }
    out
}
