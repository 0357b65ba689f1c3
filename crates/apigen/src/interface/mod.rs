//! The interfaces beside MPI: one table each, `api/NAME.toml`.
//!
//! From a table come the header `farpost/NAME.h` (`header`), types, constants and exported entry points in Rust
//! (`rust`), the reference page (`page`), the pkg-config file and the list of exported names. CONTRIBUTING.md, "Adding
//! an interface", has the format by example; here it is as Rust values. Unknown keys are errors.

pub mod ctype;
pub mod header;
pub mod page;
pub mod rust;

use std::collections::BTreeSet;

use serde::Deserialize;

/// The tables of this repository: name and text.
const TABLES: &[(&str, &str)] = &[
    ("fm", include_str!("../../../../api/fm.toml")),
    ("jam", include_str!("../../../../api/jam.toml")),
    ("mpix", include_str!("../../../../api/mpix.toml")),
    ("portals3", include_str!("../../../../api/portals3.toml")),
    ("rsm", include_str!("../../../../api/rsm.toml")),
];

/// What one table says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    pub interface: About,
    /// What the source leaves open and how it is settled here.
    #[serde(default)]
    pub choice: Vec<Choice>,
    /// Families of constants.
    #[serde(default)]
    pub constant: Vec<Constants>,
    /// Other names of constants, for C.
    #[serde(default)]
    pub alias: Vec<Aliases>,
    /// Enumerations.
    #[serde(default, rename = "enum")]
    pub enums: Vec<Enum>,
    /// Types, in the order the header has them.
    #[serde(default, rename = "type")]
    pub types: Vec<Type>,
    /// Exported data.
    #[serde(default)]
    pub variable: Vec<Variable>,
    #[serde(default)]
    pub function: Vec<Function>,
}

/// The interface as a whole.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// Names the files: `fm`.
    pub name: String,
    pub title: String,
    /// As programs include it: `farpost/fm.h`.
    pub header: String,
    /// What exported names begin with, one of these.
    pub prefix: Vec<String>,
    /// Paper or standard.
    pub source: String,
    /// One line, for pkg-config.
    pub description: String,
    /// Headers that this one includes: `stdint.h`.
    #[serde(default)]
    pub includes: Vec<String>,
    /// Introduction, Markdown.
    pub doc: String,
}

/// Something the source leaves open.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The question.
    pub open: String,
    /// What Farpost does.
    pub choice: String,
    pub reason: String,
}

/// Constants of one kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constants {
    pub doc: String,
    /// C type; `int` constants are plain numbers that the preprocessor understands.
    #[serde(rename = "type")]
    pub ctype: String,
    pub values: Vec<Value>,
}

/// Other names, `#define`d to what they stand for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aliases {
    pub doc: String,
    pub names: Vec<Alias>,
}

/// One other name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alias {
    pub name: String,
    /// A constant of the table, or `NULL`.
    pub of: String,
    /// Whose name it is.
    #[serde(default)]
    pub doc: String,
}

/// An enumeration; without a name its values are of type `int`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enum {
    pub name: Option<String>,
    pub doc: String,
    pub values: Vec<Value>,
}

/// One constant.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    pub name: String,
    pub value: i64,
    #[serde(default)]
    pub doc: String,
}

/// A type.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Type {
    pub name: String,
    pub kind: TypeKind,
    pub doc: String,
    /// `alias`: of which C type.
    pub of: Option<String>,
    /// Errors say its values, and those of its aliases, in base 16.
    #[serde(default)]
    pub hexadecimal: bool,
    /// `handle`: the tag of the structure that nobody sees.
    pub tag: Option<String>,
    /// `struct`, `union`.
    #[serde(default)]
    pub fields: Vec<Field>,
    /// `function`, `callback`: C type of the result.
    pub result: Option<String>,
    #[serde(default)]
    pub params: Vec<Param>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum TypeKind {
    /// `typedef struct NAME NAME;`, used through pointers only.
    Opaque,
    /// `typedef struct TAG *NAME;`
    Handle,
    /// `typedef OF NAME;`
    Alias,
    Struct,
    Union,
    /// A function type: parameters of it are written `NAME *`.
    Function,
    /// A pointer to a function: parameters of it are written `NAME`.
    Callback,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    pub name: String,
    #[serde(rename = "type")]
    pub ctype: String,
    /// So many in a row.
    pub array: Option<u32>,
    #[serde(default)]
    pub doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Param {
    pub name: String,
    /// C type; `...` for the arguments of a variadic function.
    #[serde(rename = "type")]
    pub ctype: String,
    /// With `...`: the C type of the one argument that is read.
    #[serde(rename = "as")]
    pub read_as: Option<String>,
    #[serde(default)]
    pub doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    pub name: String,
    #[serde(rename = "type")]
    pub ctype: String,
    pub doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Function {
    pub name: String,
    /// C type, `void` for none.
    pub result: String,
    /// What the result means.
    #[serde(default)]
    pub returns: String,
    /// Heading in header and reference.
    pub group: String,
    /// Where the source has it.
    #[serde(default)]
    pub section: String,
    pub doc: String,
    #[serde(default)]
    pub params: Vec<Param>,
    /// Arguments that the sentence of an error names.
    #[serde(default)]
    pub shown: Vec<String>,
    #[serde(default)]
    pub errors: Vec<Failure>,
    #[serde(default)]
    pub in_child: InChild,
}

/// What a call does in a forked child, which is no part of the job.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InChild {
    /// It ends the child.
    #[default]
    Ends,
    /// Nothing: it gives back what was opened or made.
    Nothing,
    /// The interface has an error of its own for a child, which the body finds without touching anything.
    Answers,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub code: String,
    pub when: String,
}

impl Function {
    /// The name of its body in `crate::NAME::functions`.
    pub fn body(&self) -> String {
        self.name.to_lowercase()
    }
}

impl Interface {
    /// All tables of this repository, by name.
    ///
    /// # Panics
    /// When a table is wrong; the message names table and entry.
    pub fn all() -> Vec<Interface> {
        let parse = |(name, text): &(&str, &str)| Self::parse(name, text).unwrap_or_else(|e| panic!("{e}"));
        TABLES.iter().map(parse).collect()
    }

    /// Reads the table `api/NAME.toml`.
    ///
    /// # Errors
    /// Names table and entry that are wrong.
    pub fn parse(name: &str, text: &str) -> Result<Interface, String> {
        let it: Interface = toml::from_str(text).map_err(|e| format!("api/{name}.toml: {e}"))?;
        it.check(name).map_err(|why| format!("api/{name}.toml: {why}"))?;
        Ok(it)
    }

    /// Every exported function and variable.
    pub fn exported(&self) -> impl Iterator<Item = &str> {
        let functions = self.function.iter().map(|f| f.name.as_str());
        functions.chain(self.variable.iter().map(|v| v.name.as_str()))
    }

    /// Headings of the functions, in the order of the table.
    pub fn groups(&self) -> Vec<&str> {
        let mut groups = Vec::new();
        for f in &self.function {
            if !groups.contains(&f.group.as_str()) {
                groups.push(&f.group);
            }
        }
        groups
    }

    /// The contents of `farpost-NAME.pc`, for an installation that may be moved.
    pub fn pkgconfig(&self) -> String {
        let About {
            name, description, ..
        } = &self.interface;
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "prefix=${{pcfiledir}}/../..\nincludedir=${{prefix}}/include\nlibdir=${{prefix}}/lib\n\n\
             Name: farpost-{name}\nDescription: {description}\nVersion: {version}\nCflags: -I${{includedir}}\n\
             Libs: -L${{libdir}} -Wl,--enable-new-dtags -Wl,-rpath,${{libdir}} -lmpi_abi\n"
        )
    }

    fn check(&self, name: &str) -> Result<(), String> {
        let about = &self.interface;
        if about.name != name {
            return Err(format!("interface.name = {:?}: must be {name:?}", about.name));
        }
        if about.header != format!("farpost/{name}.h") {
            return Err(format!(
                "interface.header = {:?}: must be \"farpost/{name}.h\"",
                about.header
            ));
        }
        let mut names = BTreeSet::new();
        let constants = self.constant.iter().flat_map(|c| &c.values).map(|v| &v.name);
        let enums = self
            .enums
            .iter()
            .flat_map(|e| e.name.iter().chain(e.values.iter().map(|v| &v.name)));
        let types = self.types.iter().map(|t| &t.name);
        let aliases = || self.alias.iter().flat_map(|a| &a.names);
        for known in constants
            .chain(enums)
            .chain(aliases().map(|a| &a.name))
            .chain(types)
            .map(String::as_str)
            .chain(self.exported())
        {
            if !names.insert(known) {
                return Err(format!("{known} is there twice"));
            }
        }
        let is_value = |name: &str| {
            let enums = self.enums.iter().flat_map(|e| &e.values);
            let mut values = self.constant.iter().flat_map(|c| &c.values).chain(enums);
            values.any(|v| v.name == name)
        };
        if let Some(Alias { name, of, .. }) = aliases().find(|a| a.of != "NULL" && !is_value(&a.of)) {
            return Err(format!(
                "{name} stands for {of}, which is no constant of the table"
            ));
        }
        for exported in self.exported() {
            if !about.prefix.iter().any(|prefix| exported.starts_with(prefix)) {
                return Err(format!(
                    "{exported} begins with none of the prefixes {:?}",
                    about.prefix
                ));
            }
        }
        for ty in &self.types {
            self.check_type(ty)
                .map_err(|why| format!("type {}: {why}", ty.name))?;
        }
        for c in self.constant.iter() {
            ctype::rust(self, &c.ctype).map_err(|why| format!("constants of type {}: {why}", c.ctype))?;
        }
        for v in &self.variable {
            ctype::rust(self, &v.ctype).map_err(|why| format!("{}: {why}", v.name))?;
        }
        for f in &self.function {
            self.check_signature(&f.result, &f.params)
                .map_err(|why| format!("{}: {why}", f.name))?;
            if let Some(name) = f
                .shown
                .iter()
                .find(|name| f.params.iter().all(|p| p.name != **name))
            {
                return Err(format!("{}: shown {name} is no parameter", f.name));
            }
        }
        match self.comments().find(|text| text.contains("*/")) {
            Some(text) => Err(format!("\"*/\" ends a comment in the header: {text:?}")),
            None => Ok(()),
        }
    }

    fn check_type(&self, ty: &Type) -> Result<(), String> {
        let needs = |there: bool, what: &str| {
            if there {
                Ok(())
            } else {
                Err(format!("{what} is missing"))
            }
        };
        match ty.kind {
            TypeKind::Opaque => Ok(()),
            TypeKind::Handle => needs(ty.tag.is_some(), "tag"),
            TypeKind::Alias => {
                needs(ty.of.is_some(), "of")?;
                ctype::rust(self, ty.of.as_deref().unwrap_or_default()).map(drop)
            }
            TypeKind::Struct | TypeKind::Union => {
                needs(!ty.fields.is_empty(), "fields")?;
                for field in &ty.fields {
                    ctype::rust(self, &field.ctype).map_err(|why| format!("{}: {why}", field.name))?;
                }
                Ok(())
            }
            TypeKind::Function | TypeKind::Callback => {
                needs(ty.result.is_some(), "result")?;
                self.check_signature(ty.result.as_deref().unwrap_or_default(), &ty.params)
            }
        }
    }

    fn check_signature(&self, result: &str, params: &[Param]) -> Result<(), String> {
        ctype::result(self, result)?;
        for (at, p) in params.iter().enumerate() {
            if p.ctype == "..." && at + 1 != params.len() {
                return Err("... must be the last parameter".into());
            }
            ctype::param(self, p).map_err(|why| format!("{}: {why}", p.name))?;
        }
        Ok(())
    }

    /// Every text that becomes part of a comment in the header.
    fn comments(&self) -> impl Iterator<Item = &str> {
        let about = [&self.interface.doc, &self.interface.source, &self.interface.title];
        fn values(values: &[Value]) -> impl Iterator<Item = &str> {
            values.iter().map(|v| v.doc.as_str())
        }
        fn params(params: &[Param]) -> impl Iterator<Item = &str> {
            params.iter().map(|p| p.doc.as_str())
        }
        let mut all: Vec<&str> = about.into_iter().map(String::as_str).collect();
        for c in &self.constant {
            all.push(&c.doc);
            all.extend(values(&c.values));
        }
        for a in &self.alias {
            all.push(&a.doc);
            all.extend(a.names.iter().map(|a| a.doc.as_str()));
        }
        for e in &self.enums {
            all.push(&e.doc);
            all.extend(values(&e.values));
        }
        for t in &self.types {
            all.push(&t.doc);
            all.extend(t.fields.iter().map(|f| f.doc.as_str()));
            all.extend(params(&t.params));
        }
        all.extend(self.variable.iter().map(|v| v.doc.as_str()));
        for f in &self.function {
            all.extend([f.doc.as_str(), &f.returns, &f.section, &f.group]);
            all.extend(params(&f.params));
            all.extend(f.errors.iter().map(|e| e.when.as_str()));
        }
        all.into_iter()
    }
}
