//! Layers inside crates: what stands directly in a crate's `src`, folders and files alike, imports in no circle. Who imports is said by
//! paths that begin with `crate` or `super`; what the crate's root re-exports counts as imported from where it is. Tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Words and signs of a source, each with its line: no comments, no texts.
fn tokens(source: &str) -> Vec<(&str, usize)> {
    let bytes = source.as_bytes();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let end_of = |from: usize, what: &str| {
        source[from..]
            .find(what)
            .map_or(source.len(), |at| from + at + what.len())
    };
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 1);
    while at < bytes.len() {
        let rest = &source[at..];
        let begin = at;
        at = match bytes[at] {
            _ if rest.starts_with("//") => at + rest.find('\n').unwrap_or(rest.len()),
            _ if rest.starts_with("/*") => end_of(at, "*/"),
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at + 1
            }
            b'\'' if rest[1..].starts_with('\\') => end_of(at + 3, "'"),
            b'\'' if rest.chars().nth(2) == Some('\'') => {
                end_of(at + 1 + rest[1..].chars().next().map_or(1, char::len_utf8), "'")
            }
            byte if is_word(byte) => {
                let word = rest
                    .find(|c: char| c.is_ascii() && !is_word(c as u8))
                    .unwrap_or(rest.len());
                let (word, after) = rest.split_at(word);
                let hashes = after.len() - after.trim_start_matches('#').len();
                if matches!(word, "r" | "br" | "cr") && after[hashes..].starts_with('"') {
                    end_of(at + word.len() + hashes + 1, &format!("\"{}", "#".repeat(hashes)))
                } else {
                    tokens.push((word, line));
                    at + word.len()
                }
            }
            _ if rest.starts_with("::") => {
                tokens.push(("::", line));
                at + 2
            }
            byte if byte.is_ascii_whitespace() => at + 1,
            _ => {
                tokens.push((&rest[..1], line));
                at + 1
            }
        };
        at = at.min(source.len());
        line += source[begin..at].matches('\n').count();
    }
    tokens
}

/// The modules of a source in which `path` is: names of modules, and what it has of the crate's others.
struct Scan<'a> {
    tokens: Vec<(&'a str, usize)>,
    at: usize,
    /// The module that is read, outermost first, and for inner ones how many braces were open.
    module: Vec<String>,
    inner: Vec<usize>,
    open: usize,
    /// Paths from the crate's root, of one word or, where there are more, of two; and their lines.
    paths: Vec<(Vec<String>, usize)>,
    /// Modules in files of their own that are compiled for tests only.
    tests: Vec<Vec<String>>,
}

impl<'a> Scan<'a> {
    fn new(source: &'a str, module: &[String]) -> Self {
        let mut scan = Self {
            tokens: tokens(source),
            at: 0,
            module: module.to_vec(),
            inner: Vec::new(),
            open: 0,
            paths: Vec::new(),
            tests: Vec::new(),
        };
        scan.run();
        scan
    }

    fn word(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |(word, _)| word)
    }

    fn run(&mut self) {
        while self.at < self.tokens.len() {
            let before = self.at.checked_sub(1).map_or("", |before| self.tokens[before].0);
            match self.word(0) {
                "#" if self.is_for_tests() => self.skip_item(),
                "mod" if self.word(2) == "{" => {
                    self.module.push(self.word(1).to_string());
                    self.inner.push(self.open);
                    self.at += 2;
                }
                "{" => {
                    self.open += 1;
                    self.at += 1;
                }
                "}" => {
                    self.open = self.open.saturating_sub(1);
                    if self.inner.pop_if(|open| *open == self.open).is_some() {
                        self.module.pop();
                    }
                    self.at += 1;
                }
                "crate" | "super" if self.word(1) == "::" && !["::", "in"].contains(&before) => {
                    self.tree(self.module.clone())
                }
                _ => self.at += 1,
            }
        }
    }

    /// A path, or a tree of paths, that begins in the module `from`.
    fn tree(&mut self, mut from: Vec<String>) {
        let mut named = Vec::new();
        let line = self.tokens[self.at].1;
        loop {
            match self.word(0) {
                "crate" => from.clear(),
                "super" => _ = from.pop(),
                "self" => {}
                "{" => {
                    self.at += 1;
                    from.append(&mut named);
                    while !["}", ""].contains(&self.word(0)) {
                        if self.word(0) == "," {
                            self.at += 1;
                        } else {
                            self.tree(from.clone());
                        }
                    }
                    self.at += 1;
                    return;
                }
                name => named.push(name.to_string()),
            }
            self.at += 1;
            if self.word(0) != "::" || self.word(1) == "<" {
                break;
            }
            self.at += 1;
        }
        if self.word(0) == "as" {
            self.at += 2;
        }
        from.append(&mut named);
        self.paths.push((from, line));
    }

    /// Whether an attribute begins here that says so.
    fn is_for_tests(&self) -> bool {
        let all = ["#", "[", "cfg", "("];
        let begins = all
            .iter()
            .enumerate()
            .all(|(ahead, word)| self.word(ahead) == *word);
        begins && (self.word(4) == "test" || self.word(4) == "all" && self.word(6) == "test")
    }

    /// What the attribute here is about.
    fn skip_item(&mut self) {
        while self.word(0) == "#" {
            self.at += 1;
            self.skip_group();
        }
        let keywords = [
            "pub", "fn", "impl", "struct", "enum", "trait", "mod", "unsafe", "const", "static", "type",
            "extern", "use",
        ];
        let is_item = keywords.contains(&self.word(0));
        let is_use = self.word(0) == "use" || self.word(1) == "use";
        loop {
            match self.word(0) {
                "mod" if self.word(2) == ";" => {
                    let mut module = self.module.clone();
                    module.push(self.word(1).to_string());
                    self.tests.push(module);
                    self.at += 3;
                    return;
                }
                "" | "}" => return,
                ";" => {
                    self.at += 1;
                    return;
                }
                "," if !is_item => return,
                "{" if !is_use => {
                    self.skip_group();
                    return;
                }
                "{" | "(" | "[" => self.skip_group(),
                _ => self.at += 1,
            }
        }
    }

    /// What is between the brackets that open here.
    fn skip_group(&mut self) {
        let mut depth = 0;
        while self.at < self.tokens.len() {
            match self.word(0) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }
}

/// Who imports whom, and where.
type Imports = BTreeMap<(String, String), Vec<String>>;

/// The imports of a crate whose sources are `files`: paths below `src`, and texts.
fn imports(files: &[(String, String)]) -> Imports {
    let module = |path: &str| -> Vec<String> {
        let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
        path.split('/').map(str::to_string).collect()
    };
    let is_root = |path: &str| ["lib.rs", "main.rs"].contains(&path);
    let place = |path: &str| if is_root(path) { Vec::new() } else { module(path) };
    let scans: Vec<(&str, Scan<'_>)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), Scan::new(text, &place(path))))
        .collect();
    let tests: Vec<&Vec<String>> = scans.iter().flat_map(|(_, scan)| &scan.tests).collect();
    let tops: BTreeSet<String> = files
        .iter()
        .filter(|(path, _)| !is_root(path))
        .map(|(path, _)| module(path).swap_remove(0))
        .collect();
    // What the root has from elsewhere: its name, and where that is.
    let mut from_root: BTreeMap<&str, &str> = BTreeMap::new();
    let mut globs: Vec<&str> = Vec::new();
    for (_, text) in files.iter().filter(|(path, _)| is_root(path)) {
        for (names, top) in reexports(text) {
            match tops.get(top) {
                Some(top) if names == "*" => globs.push(top),
                Some(top) => _ = from_root.insert(names, top),
                None => {}
            }
        }
    }
    let mut imports = Imports::new();
    for (path, scan) in &scans {
        let place = place(path);
        if is_root(path) || tests.iter().any(|test| place.starts_with(test)) {
            continue;
        }
        for (to, line) in &scan.paths {
            let Some(first) = to.first() else { continue };
            let tos: Vec<&str> = match (tops.get(first), from_root.get(first.as_str())) {
                (Some(top), _) => vec![top],
                (None, Some(top)) => vec![top],
                (None, None) => globs.clone(),
            };
            for to in tos.into_iter().filter(|to| *to != place[0]) {
                let key = (place[0].clone(), to.to_string());
                imports.entry(key).or_default().push(format!("{path}:{line}"));
            }
        }
    }
    imports
}

/// What `pub use` in a crate's root gives another name: the name, or `*`, and the first word of its path.
fn reexports(root: &str) -> Vec<(&str, &str)> {
    let tokens = tokens(root);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        at += 1;
        if tokens[at - 1].0 != "use" {
            continue;
        }
        let end = tokens[at..]
            .iter()
            .position(|(word, _)| *word == ";")
            .map_or(tokens.len(), |end| at + end);
        let words: Vec<&str> = tokens[at..end].iter().map(|(word, _)| *word).collect();
        let top = words
            .iter()
            .find(|word| !["self", "crate", "::"].contains(*word))
            .copied()
            .unwrap_or("");
        for (index, word) in words.iter().enumerate() {
            let is_last = words.get(index + 1).is_none_or(|next| [",", "}"].contains(next));
            if is_last && *word != "}" && *word != "," {
                found.push((*word, top));
            }
        }
        at = end;
    }
    found
}

/// The circles among nodes with these edges: of each its nodes.
fn circles<'a>(edges: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<BTreeSet<&'a str>> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in edges {
        next.entry(from).or_default().insert(to);
    }
    let reached = |from: &'a str| {
        let mut seen = BTreeSet::new();
        let mut left = vec![from];
        while let Some(node) = left.pop() {
            left.extend(
                next.get(node)
                    .into_iter()
                    .flatten()
                    .filter(|to| seen.insert(**to)),
            );
        }
        seen
    };
    let reach: BTreeMap<&str, BTreeSet<&str>> = next.keys().map(|node| (*node, reached(node))).collect();
    let circle = |(node, reached): (&&'a str, &BTreeSet<&'a str>)| -> Option<BTreeSet<&'a str>> {
        let back = |other: &&&str| reach.get(**other).is_some_and(|back| back.contains(node));
        reached
            .contains(node)
            .then(|| reached.iter().filter(back).copied().collect())
    };
    let found: BTreeSet<BTreeSet<&str>> = reach.iter().filter_map(circle).collect();
    found.into_iter().collect()
}

/// The sources of a crate: paths below `src`, and texts.
fn sources(src: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![src.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let below = path.strip_prefix(src).unwrap().to_string_lossy().into_owned();
                files.push((below, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

fn crates() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut all: Vec<(String, PathBuf)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                entry.file_name().to_string_lossy().into_owned(),
                entry.path().join("src"),
            )
        })
        .filter(|(_, src)| src.is_dir())
        .collect();
    all.sort();
    all
}

/// The circles in a crate with these imports, as text with where they are.
fn told_circles(name: &str, imports: &Imports) -> String {
    let mut text = String::new();
    for circle in circles(imports.keys().map(|(from, to)| (from.as_str(), to.as_str()))) {
        let _ = writeln!(text, "{name}: {circle:?} import each other:");
        for ((from, to), places) in imports {
            if circle.contains(from.as_str()) && circle.contains(to.as_str()) {
                let more = match places.len() {
                    1 => String::new(),
                    all => format!(" and {} more", all - 1),
                };
                let _ = writeln!(
                    text,
                    "    {from} -> {to}    crates/{name}/src/{}{more}",
                    places[0]
                );
            }
        }
    }
    text
}

#[test]
fn folders_and_files_import_in_no_circle() {
    let (mut wrong, mut seen) = (String::new(), 0);
    for (name, src) in crates() {
        let imports = imports(&sources(&src));
        seen += imports.len();
        wrong += &told_circles(&name, &imports);
    }
    assert!(wrong.is_empty(), "circles of imports:\n{wrong}");
    assert!(seen > 200, "{seen} imports: are there none any more?");
}

#[test]
fn circles_are_found_and_nothing_else() {
    let edges = [
        ("a", "b"),
        ("b", "c"),
        ("c", "a"),
        ("c", "d"),
        ("d", "e"),
        ("e", "d"),
        ("x", "a"),
        ("e", "y"),
    ];
    let found = circles(edges.into_iter());
    assert_eq!(
        found,
        [BTreeSet::from(["a", "b", "c"]), BTreeSet::from(["d", "e"])]
    );
    assert!(circles([("a", "b"), ("a", "c"), ("b", "c")].into_iter()).is_empty());
}

/// The imports of a made-up crate.
fn imports_of(files: &[(&str, &str)]) -> Imports {
    let files = files
        .iter()
        .map(|(path, text)| (path.to_string(), text.to_string()));
    imports(&files.collect::<Vec<_>>())
}

#[test]
fn a_circle_is_told_with_its_places() {
    let made_up = imports_of(&[
        ("lib.rs", "pub mod a; pub mod b; pub mod c;"),
        ("a/mod.rs", "mod x;\n"),
        (
            "a/x.rs",
            "\nuse crate::b::B;\nuse crate::c::C;\nuse crate::b::D;\n",
        ),
        ("b.rs", "use super::a::A;\n"),
        ("c.rs", ""),
    ]);
    let right = "made: {\"a\", \"b\"} import each other:\n    a -> b    crates/made/src/a/x.rs:2 and 1 more\n    \
                 b -> a    crates/made/src/b.rs:1\n";
    assert_eq!(told_circles("made", &made_up), right);
}

#[test]
fn imports_are_read_as_the_compiler_reads_them() {
    let found = imports_of(&[
        (
            "lib.rs",
            "mod low; mod high; pub use low::{Thing, deep::Other as Named};",
        ),
        (
            "low/mod.rs",
            "mod deep;\n#[cfg(test)]\nmod cases;\nuse super::high::x;\n",
        ),
        (
            "low/deep.rs",
            "use super::super::high;\nuse super::Own;\npub(in crate::high) fn f() {}\n",
        ),
        ("low/cases.rs", "use crate::other::X;"),
        (
            "other.rs",
            "use crate::Thing;\nfn f() { crate::high::g('\"', '\\'', \"crate::low\"); }\n",
        ),
        (
            "high.rs",
            "// crate::other\nuse crate::{low::{a, b}, other as o};\nmod inner {\n use super::super::low::c;\n use super::o;\n}\n\
             #[cfg(test)]\nmod tests { use crate::third; }\nconst X: u8 = crate::third::<'a>::Y;\n",
        ),
        (
            "third.rs",
            "type T = crate::Named; /* crate::high */ const R: &str = r#\"crate::\"high\"#;",
        ),
    ]);
    let edge =
        |((from, to), places): (&(String, String), &Vec<String>)| format!("{from} {to} {}", places.join(" "));
    assert_eq!(
        found.iter().map(edge).collect::<Vec<_>>(),
        [
            "high low high.rs:2 high.rs:2 high.rs:4",
            "high other high.rs:2",
            "high third high.rs:9",
            "low high low/mod.rs:4 low/deep.rs:1",
            "other high other.rs:2",
            "other low other.rs:1",
            "third low third.rs:1",
        ]
    );
}
