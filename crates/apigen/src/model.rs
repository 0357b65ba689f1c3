//! The tables as Rust values.

use std::collections::BTreeMap;
use std::fmt;

use toml::{Table, Value};

/// Everything the tables say.
pub struct Api {
    /// In the order of the reference: by chapter, then by name.
    pub functions: Vec<Function>,
    pub groups: Vec<Group>,
    pub handles: Vec<Handle>,
    pub callbacks: Vec<Callback>,
    /// Second names of callback types: (name, of).
    pub aliases: Vec<(String, String)>,
    /// Version of the standard, of the ABI.
    pub versions: [(i64, i64); 2],
    pub status_fields: Vec<String>,
    pub status_internal: i64,
}

/// One entry: a function and, when `large`, its twin.
pub struct Function {
    pub name: String,
    pub chapter: String,
    pub large: bool,
    /// The twin is exported and told to nobody: earlier headers declared it.
    pub unlisted: bool,
    /// The body wants to know which twin was called.
    pub width: bool,
    /// C type returned, `None` for an error code.
    pub returns: Option<String>,
    /// The function whose body serves this one.
    same: Option<String>,
    pub always: bool,
    /// Several threads may call it at once, as the first of all functions.
    pub threaded: bool,
    pub hot: bool,
    pub deprecated: Option<String>,
    pub params: Vec<Param>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dir {
    In,
    Out,
    InOut,
}

pub struct Param {
    pub name: String,
    pub kind: String,
    pub dir: Dir,
    /// Array length: a parameter's name or `*`.
    pub len: Option<String>,
    pub constant: bool,
    pub null: bool,
    pub at_root: bool,
    pub large_only: bool,
    /// C types of one value in the plain function and in its twin.
    pub c: String,
    pub c_large: String,
    /// The kind is a pointer by itself.
    pub pointer: bool,
}

pub struct Group {
    pub doc: String,
    pub is_enum: bool,
    pub values: Vec<Constant>,
}

pub struct Constant {
    pub name: String,
    pub value: i64,
    pub ctype: String,
    pub deprecated: Option<String>,
}

pub struct Handle {
    pub name: String,
    pub tag: String,
}

pub struct Callback {
    pub name: String,
    pub returns: String,
    pub params: String,
    pub deprecated: Option<String>,
}

/// What is wrong with a table: the entry and the reason.
#[derive(Debug)]
pub struct TableError(String);

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TableError {}

/// Chapters in the order of the reference, with their titles.
pub const CHAPTERS: &[(&str, &str)] = &[
    (
        "env",
        "Environment, versions, time and memory (chapters 9 and 20)",
    ),
    ("errors", "Errors and error handlers (chapter 9)"),
    ("p2p", "Point-to-point communication (chapter 3)"),
    ("request", "Requests, completion and status (chapters 3 and 13)"),
    ("part", "Partitioned communication (chapter 4)"),
    ("datatype", "Datatypes (chapter 5)"),
    ("coll", "Collective communication (chapter 6)"),
    ("op", "Reduction operations (chapter 6)"),
    ("group", "Groups (chapter 7)"),
    ("comm", "Communicators (chapter 7)"),
    ("attr", "Attributes (chapter 7)"),
    ("topo", "Virtual topologies (chapter 8)"),
    ("info", "Info (chapter 10)"),
    (
        "process",
        "Process creation and management, sessions (chapter 11)",
    ),
    ("rma", "One-sided communication (chapter 12)"),
    ("io", "Files (chapter 14)"),
    ("tools", "Tools (chapter 15)"),
    ("handles", "Handles as integers (chapter 20)"),
];

impl Api {
    /// The tables of this repository, compiled in.
    ///
    /// # Panics
    /// When a table is wrong; the message names the entry.
    pub fn builtin() -> Api {
        let parsed = Api::parse(
            include_str!("../../../api/mpi.toml"),
            include_str!("../../../api/kinds.toml"),
            include_str!("../../../api/constants.toml"),
        );
        parsed.unwrap_or_else(|e| panic!("{e}"))
    }

    /// Reads the three tables.
    ///
    /// # Errors
    /// Names the table or entry that is wrong.
    pub fn parse(functions: &str, kinds: &str, constants: &str) -> Result<Api, TableError> {
        let read = |text: &str, what: &str| {
            text.parse::<Table>()
                .map_err(|e| TableError(format!("api/{what}: {e}")))
        };
        let kinds = read(kinds, "kinds.toml")?;
        let table = read(functions, "mpi.toml")?;
        let constants = read(constants, "constants.toml")?;
        let mut functions = Vec::new();
        for (name, entry) in &table {
            functions.push(function(name, entry, &kinds)?);
        }
        let order: BTreeMap<&str, usize> = CHAPTERS
            .iter()
            .enumerate()
            .map(|(at, (chapter, _))| (*chapter, at))
            .collect();
        functions
            .sort_by(|a, b| (order[a.chapter.as_str()], &a.name).cmp(&(order[b.chapter.as_str()], &b.name)));
        let version = |key: &str| {
            let pair = constants["version"][key].as_array().expect("version is a pair");
            (
                pair[0].as_integer().unwrap_or(0),
                pair[1].as_integer().unwrap_or(0),
            )
        };
        Ok(Api {
            functions,
            groups: list(&constants, "group").map(group).collect::<Result<_, _>>()?,
            handles: list(&constants, "handle")
                .map(|t| {
                    Ok(Handle {
                        name: text(t, "name")?,
                        tag: text(t, "tag")?,
                    })
                })
                .collect::<Result<_, TableError>>()?,
            callbacks: list(&constants, "callback")
                .map(|t| {
                    Ok(Callback {
                        name: text(t, "name")?,
                        returns: text(t, "returns")?,
                        params: text(t, "params")?,
                        deprecated: optional(t, "deprecated"),
                    })
                })
                .collect::<Result<_, TableError>>()?,
            aliases: list(&constants, "alias")
                .map(|t| Ok((text(t, "name")?, text(t, "of")?)))
                .collect::<Result<_, TableError>>()?,
            versions: [version("standard"), version("abi")],
            status_fields: constants["status"]["fields"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|v| v.as_str().map(str::to_owned))
                .collect(),
            status_internal: constants["status"]["internal"].as_integer().unwrap_or(0),
        })
    }

    /// The `MPI_` names of the standard, with their entries and whether they are large-count twins.
    pub fn listed(&self) -> impl Iterator<Item = (String, &Function, bool)> {
        self.names().filter(|(_, f, large)| !(*large && f.unlisted))
    }

    /// Every exported `MPI_` name with its entry and whether it is the large-count twin.
    pub fn names(&self) -> impl Iterator<Item = (String, &Function, bool)> {
        self.functions.iter().flat_map(|f| {
            let twin = f.large.then(|| (format!("{}_c", f.name), f, true));
            std::iter::once((f.name.clone(), f, false)).chain(twin)
        })
    }
}

impl Function {
    /// The name of what is generated for it, and of its body: `mpi_send`.
    pub fn body(&self) -> String {
        self.name.to_lowercase()
    }

    /// The name of the body that serves it.
    pub fn served_by(&self) -> String {
        self.same.as_ref().unwrap_or(&self.name).to_lowercase()
    }

    /// The parameters of the function or of its twin.
    pub fn params_of(&self, large: bool) -> impl Iterator<Item = &Param> {
        self.params.iter().filter(move |p| large || !p.large_only)
    }

    /// Has a parameter of this name?
    pub fn has(&self, name: &str) -> bool {
        self.params.iter().any(|p| p.name == name)
    }

    /// Some parameter has this kind.
    pub fn has_kind(&self, kind: &str) -> bool {
        self.params.iter().any(|p| p.kind == kind)
    }
}

impl Param {
    /// The C type of the parameter without its name, `[]` written as `*`.
    pub fn c_type(&self, large: bool) -> String {
        let base = if large { &self.c_large } else { &self.c };
        let constant = if self.constant { "const " } else { "" };
        let star = if self.kind == "STATUS" || (!self.pointer && (self.dir != Dir::In || self.len.is_some()))
        {
            "*"
        } else {
            ""
        };
        format!("{constant}{base}{star}")
    }

    /// The C declaration of the parameter.
    pub fn c_declaration(&self, large: bool) -> String {
        if self.kind == "VARARGS" {
            return "...".into();
        }
        let base = if large { &self.c_large } else { &self.c };
        let constant = if self.constant { "const " } else { "" };
        if self.kind == "RANGE_TRIPLET" {
            return format!("{constant}{base} {}[][3]", self.name);
        }
        // Compilers warn of an array at the address that MPI_UNWEIGHTED is.
        if self.len.is_some() && !self.pointer && self.kind != "WEIGHT" {
            return format!("{constant}{base} {}[]", self.name);
        }
        let full = self.c_type(large);
        let stars = full.len() - full.trim_end_matches('*').len();
        let (plain, stars) = full.split_at(full.len() - stars);
        format!("{plain} {stars}{}", self.name)
    }
}

fn list<'a>(table: &'a Table, key: &str) -> impl Iterator<Item = &'a Value> {
    table.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn text(value: &Value, key: &str) -> Result<String, TableError> {
    optional(value, key).ok_or_else(|| TableError(format!("api: an entry lacks {key}: {value:?}")))
}

fn optional(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn group(value: &Value) -> Result<Group, TableError> {
    let shared = optional(value, "type");
    let mut values = Vec::new();
    for v in value
        .get("values")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let name = text(v, "name")?;
        let ctype = optional(v, "type").or_else(|| shared.clone());
        values.push(Constant {
            value: v
                .get("value")
                .and_then(Value::as_integer)
                .ok_or_else(|| TableError(format!("api/constants.toml: {name} has no integer value")))?,
            ctype: ctype.ok_or_else(|| TableError(format!("api/constants.toml: {name} has no type")))?,
            deprecated: optional(v, "deprecated"),
            name,
        });
    }
    Ok(Group {
        doc: text(value, "doc")?,
        is_enum: flag(value, "enum"),
        values,
    })
}

fn function(name: &str, entry: &Value, kinds: &Table) -> Result<Function, TableError> {
    let wrong = |why: String| TableError(format!("api/mpi.toml: {name}: {why}"));
    let mut params = Vec::new();
    for p in entry
        .get("params")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let kind = text(p, "kind")?;
        let dir = match p.get("dir").and_then(Value::as_str) {
            None => Dir::In,
            Some("out") => Dir::Out,
            Some("inout") => Dir::InOut,
            Some(other) => return Err(wrong(format!("dir = {other:?} is neither out nor inout"))),
        };
        let empty = Value::Table(Table::new());
        let of_kind = match kinds.get(&kind) {
            Some(of_kind) => of_kind,
            None if kind == "VARARGS" => &empty,
            None => return Err(wrong(format!("kind {kind} is not in api/kinds.toml"))),
        };
        let c = optional(of_kind, "c").unwrap_or_default();
        let len = optional(p, "len");
        let implied =
            dir == Dir::In && (len.is_some() || matches!(kind.as_str(), "BUFFER" | "STRING" | "STATUS"));
        params.push(Param {
            name: text(p, "name")?,
            dir,
            constant: p.get("const").and_then(Value::as_bool).unwrap_or(implied),
            len,
            null: flag(p, "null"),
            at_root: optional(p, "at").as_deref() == Some("root"),
            large_only: optional(p, "only").as_deref() == Some("large"),
            c_large: optional(of_kind, "large").unwrap_or_else(|| c.clone()),
            c,
            pointer: flag(of_kind, "pointer"),
            kind,
        });
    }
    for p in &params {
        if let Some(len) = &p.len
            && len != "*"
            && !params.iter().any(|q| &q.name == len)
        {
            return Err(wrong(format!("len = {len:?} of {} is no parameter", p.name)));
        }
    }
    let chapter = text(entry, "chapter")?;
    if !CHAPTERS.iter().any(|(known, _)| *known == chapter) {
        return Err(wrong(format!("unknown chapter {chapter:?}")));
    }
    Ok(Function {
        name: name.to_owned(),
        chapter,
        large: flag(entry, "large"),
        unlisted: flag(entry, "unlisted"),
        width: flag(entry, "width"),
        returns: optional(entry, "returns"),
        same: optional(entry, "same"),
        always: matches!(optional(entry, "when").as_deref(), Some("always" | "threaded")),
        threaded: optional(entry, "when").as_deref() == Some("threaded"),
        hot: flag(entry, "hot"),
        deprecated: optional(entry, "deprecated"),
        params,
    })
}
