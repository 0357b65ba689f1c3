//! The words of the project: the glossary of `ARCHITECTURE.md` is short and its terms are used, words that it replaces do not
//! return, `ARCHITECTURE.md` has its length, and documents name and link to what exists.
//!
//! Retired words that are still there are counted by crate in `terms-to-do.txt`. The counts may only fall:
//! `TERMS_UPDATE=1 cargo test -p farpost-testing --test terms` writes those that have fallen.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Words of `ARCHITECTURE.md` beside tables, code and comments.
const LENGTH: std::ops::RangeInclusive<usize> = 2000..=2500;
const MOST_TERMS: usize = 40;
const TO_DO: &str = "terms-to-do.txt";

/// Words that are no parts of names any more, in any case, and what to say instead.
const PARTS: &[(&str, &str)] = &[
    ("bequeath", "admit next"),
    ("bury", "reap dead peers"),
    ("buried", "reaped"),
    ("condemn", "fail the sender"),
    ("condemned", "failed"),
    ("desk", "rendezvous slots; one line of them: rendezvous slot"),
    ("desks", "rendezvous slots"),
    ("heir", "next admitted"),
    ("nonsense", "malformed"),
    ("rooms", "buffers, slots"),
    ("stirred", "needs progress"),
    ("tailed", "eager zero-copy"),
    ("tails", "eager zero-copy"),
    ("vigil", "arm, disarm"),
];

/// Phrases, as they are written, and what to say instead. Only whole words count.
const PHRASES: &[(&str, &str)] = &[
    ("who has used them up", "a sender that has used its grant"),
    ("past the caches", "non-temporal"),
    ("FARPOST_TAIL_MIN", "FARPOST_ZCOPY_MIN"),
    ("FARPOST_TAIL_MAX", "FARPOST_ZCOPY_MAX"),
    ("KIND_TAIL", "KIND_ZCOPY"),
    ("enum Way", "route, policy, direction, backend, ..."),
    ("struct Way", "route, policy, direction, backend, ..."),
    ("enum How", "what it is a mode of"),
    ("enum From", "BodySource"),
    ("struct Kept", "ProcessCell"),
    ("trait Means", "Backend"),
    ("enum State", "the state of what"),
    ("struct State", "the state of what"),
    ("enum Kind", "the kind of what"),
    ("struct Table", "the table of what"),
    ("struct Pending", "what is pending"),
    ("crate::imp", "crate::calls"),
];

/// Names that no file has.
const FILES: &[(&str, &str)] = &[
    ("back.rs", "retransmit.rs"),
    ("bury.rs", "reap.rs"),
    ("desk.rs", "rendezvous_slots.rs"),
    ("here.rs", "generic.rs"),
    ("kept.rs", "unexpected.rs"),
    ("means.rs", "backend.rs"),
    ("now.rs", "fast_path.rs"),
    ("other.rs", "peer.rs"),
    ("own.rs", "self_send.rs"),
    ("say.rs", "output.rs"),
    ("tail.rs", "zcopy.rs"),
    ("tails.rs", "zcopy.rs"),
    ("there.rs", "accelerated.rs"),
    ("ways.rs", "routes.rs, backends.rs"),
    ("words.rs", "what the words are"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What people write: code, programs, tables, scripts and documents; not what is made from them.
fn sources() -> Vec<(PathBuf, String)> {
    const TOPS: &[&str] = &[
        "api", "bench", "crates", "docs", "examples", "fuzz", "scripts", "tests", "wrappers",
    ];
    const ENDS: &[&str] = &["rs", "toml", "md", "c", "cpp", "h", "py", "sh", "in", "txt"];
    let root = root();
    let mut files = vec![
        root.join("README.md"),
        root.join("CONTRIBUTING.md"),
        root.join("ARCHITECTURE.md"),
    ];
    let mut folders: Vec<PathBuf> = TOPS.iter().map(|top| root.join(top)).collect();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let entry = entry.unwrap();
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let name = entry.file_name();
            let made = ["target", "corpus", "artifacts", "reference"]
                .iter()
                .any(|made| name == *made);
            let ours = path.starts_with(root.join("crates/testing/tests"));
            let known = path
                .extension()
                .is_some_and(|end| ENDS.iter().any(|known| end == *known));
            if kind.is_dir() && !made && !ours {
                folders.push(path);
            } else if kind.is_file() && known {
                files.push(path);
            }
        }
    }
    files.sort();
    let text = |path: PathBuf| {
        // Not everything in corpora and tables is text.
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        (path.strip_prefix(&root).unwrap().to_path_buf(), text)
    };
    files.into_iter().map(text).collect()
}

/// The words that names and sentences consist of, in lower case: `DeskLine`, `my_desk` and `DESK_LINES` have `desk`.
fn parts(line: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = ' ';
    for c in line.chars() {
        if !c.is_ascii_alphabetic() || c.is_ascii_uppercase() && before.is_ascii_lowercase() {
            parts.push(String::new());
        }
        if c.is_ascii_alphabetic() {
            parts.last_mut().unwrap().push(c.to_ascii_lowercase());
        }
        before = c;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// How often `phrase` stands in a line by itself, not as a part of longer words.
fn phrases(line: &str, phrase: &str) -> usize {
    let in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let alone = |&(at, _): &(usize, &str)| {
        !in_word(line[..at].chars().next_back()) && !in_word(line[at + phrase.len()..].chars().next())
    };
    line.match_indices(phrase).filter(alone).count()
}

/// Where a file belongs: its crate, or its folder.
fn area(path: &Path) -> String {
    let names: Vec<_> = path.iter().map(|name| name.to_string_lossy()).collect();
    match &names[..] {
        [top, name, _, ..] if top == "crates" => name.to_string(),
        [top, _, ..] => top.to_string(),
        _ => "root".to_string(),
    }
}

/// Retired words, by area and word: how often, and where first.
fn retired() -> BTreeMap<(String, String), (usize, String)> {
    let mut found = BTreeMap::new();
    let mut note = |path: &Path, line: usize, word: &str, times: usize| {
        if times > 0 {
            let place = || (0, format!("{}:{line}", path.display()));
            found
                .entry((area(path), word.to_string()))
                .or_insert_with(place)
                .0 += times;
        }
    };
    for (path, text) in sources() {
        for (word, _) in FILES {
            note(
                &path,
                0,
                word,
                usize::from(path.file_name().is_some_and(|name| name == *word)),
            );
        }
        for (number, line) in text.lines().enumerate() {
            let parts = parts(line);
            for (word, _) in PARTS {
                let times = parts.iter().filter(|part| part == word).count();
                note(&path, number + 1, word, times);
            }
            for (phrase, _) in PHRASES {
                note(&path, number + 1, phrase, phrases(line, phrase));
            }
        }
    }
    found
}

fn instead(word: &str) -> &'static str {
    let mut all = PARTS.iter().chain(PHRASES).chain(FILES);
    all.find(|(old, _)| *old == word).expect("a word of the lists").1
}

#[test]
fn retired_words_do_not_return() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(TO_DO);
    let mut allowed = BTreeMap::new();
    for line in read(&list).lines().filter(|line| !line.starts_with('#')) {
        let [area, word, times] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{TO_DO}: {line}: area, word and count, with tabs between them");
        };
        instead(word);
        allowed.insert(
            (area.to_string(), word.to_string()),
            times.parse::<usize>().unwrap(),
        );
    }
    let found = retired();
    let mut wrong = String::new();
    for ((area, word), (times, place)) in &found {
        let most = allowed.get(&(area.clone(), word.clone())).copied().unwrap_or(0);
        if *times > most {
            let _ = writeln!(
                wrong,
                "{area}: `{word}` {times} times, {most} are left to do (one is at {place}); say: {}",
                instead(word)
            );
        }
    }
    assert!(wrong.is_empty(), "retired words:\n{wrong}");
    let fallen = |(key, most): (&(String, String), &usize)| found.get(key).map_or(0, |found| found.0) < *most;
    if allowed.iter().any(fallen) {
        if std::env::var_os("TERMS_UPDATE").is_some() {
            let mut text = String::from(
                "# Retired words that are still there (terms.rs): area, word, count. Counts may only fall.\n",
            );
            for ((area, word), (times, _)) in &found {
                let _ = writeln!(text, "{area}\t{word}\t{times}");
            }
            fs::write(&list, text).unwrap();
        } else {
            println!("{TO_DO}: some words are rarer now; TERMS_UPDATE=1 notes it");
        }
    }
}

/// The glossary's section of `ARCHITECTURE.md`, and the rest.
fn glossary() -> (Vec<String>, String) {
    let text = read(&root().join("ARCHITECTURE.md"));
    let (before, rest) = text.split_once("## Glossary\n").expect("a glossary");
    let (section, after) = rest.split_once("\n## ").expect("a section behind the glossary");
    let terms = section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .filter(|term| *term != "Term")
        .flat_map(|terms| terms.split(", "))
        .map(str::to_string)
        .collect();
    (terms, format!("{before}{after}"))
}

#[test]
fn the_glossary_is_short_and_used() {
    let (terms, rest) = glossary();
    let rows = read(&root().join("ARCHITECTURE.md"))
        .split_once("## Glossary\n")
        .and_then(|(_, rest)| rest.split_once("\n## "))
        .map_or(0, |(section, _)| {
            section.lines().filter(|line| line.starts_with("| ")).count() - 1
        });
    assert!(
        (1..=MOST_TERMS).contains(&rows),
        "{rows} terms, at most {MOST_TERMS}"
    );
    let mut sources = sources();
    sources.retain(|(path, _)| path != Path::new("ARCHITECTURE.md"));
    // As words of sentences or of names, whatever stands between them.
    let mut all: Vec<String> = sources.iter().map(|(_, text)| parts(text).join(" ")).collect();
    all.push(parts(&rest).join(" "));
    for term in terms {
        let term = parts(&term).join(" ");
        assert!(!term.is_empty());
        let used = all
            .iter()
            .any(|text| phrases(text, &term) + phrases(text, &format!("{term}s")) > 0);
        assert!(used, "the glossary has `{term}`, which nobody uses");
    }
}

#[test]
fn architecture_has_its_length() {
    let text = read(&root().join("ARCHITECTURE.md"));
    let (mut words, mut code) = (0, false);
    for line in text.lines() {
        if line.starts_with("```") {
            code = !code;
        } else if !code && !line.starts_with('|') && !line.starts_with("<!--") {
            words += line.split_whitespace().count();
        }
    }
    assert!(LENGTH.contains(&words), "{words} words; {LENGTH:?} are right");
}

#[test]
fn architecture_names_files_that_exist() {
    let (root, text) = (root(), read(&root().join("ARCHITECTURE.md")));
    let mut seen = 0;
    for name in text.split('`').skip(1).step_by(2) {
        let is_path = name.contains('/') && !name.contains(' ') && !name.contains('*');
        if !is_path || name.starts_with('/') || name.contains("NAME") {
            continue;
        }
        seen += 1;
        assert!(
            root.join(name).exists() || root.join("crates").join(name).exists(),
            "ARCHITECTURE.md names {name}"
        );
    }
    assert!(seen > 20, "{seen} names: are there no paths any more?");
}

/// The anchor that a heading is linked to by.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    let letters = heading.trim().to_lowercase();
    letters
        .chars()
        .filter(kept)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn documents_link_to_what_there_is() {
    let (root, mut seen) = (root(), 0);
    for (path, text) in sources() {
        if path.extension().is_none_or(|end| end != "md") {
            continue;
        }
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://") && !link.contains(' ')) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let to = match file {
                "" => root.join(&path),
                _ => root.join(&path).parent().unwrap().join(file),
            };
            assert!(to.exists(), "{} links to {link}", path.display());
            if !heading.is_empty() {
                let headings = read(&to);
                let found = headings
                    .lines()
                    .filter(|line| line.starts_with('#'))
                    .any(|line| anchor(line.trim_start_matches('#')) == heading);
                assert!(
                    found,
                    "{} links to {link}: there is no such heading",
                    path.display()
                );
            }
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} links: are there no links any more?");
}

#[test]
fn names_fall_into_words() {
    assert_eq!(
        parts("DeskLine my_desk DESK_LINES"),
        ["desk", "line", "my", "desk", "desk", "lines"]
    );
    assert_eq!(parts("let tails2 = 1;"), ["let", "tails"]);
    assert_eq!(phrases("enum Way enum Wayward xenum Way", "enum Way"), 1);
}
