//! For the fuzz targets: what reads files, lists and command lines, as a function each.

use crate::{config_line, cores, hosts, parser, spawn};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// A file of hosts. Each host that is read is read again as it was written.
pub fn host_file(text: &[u8]) {
    if let Ok(all) = hosts::parse_text(&"hosts", text) {
        for host in all {
            let again = hosts::parse(&host.name, "again");
            let again = again.unwrap_or_else(|why| panic!("{:?} is read once: {}", host.name, why.text));
            assert_eq!(again.name, host.name);
            assert!(!hosts::without_user(&host.name).is_empty());
        }
    }
}

/// A line of a configuration file, and a command line of its words. Options that name files are left out.
pub fn command_line(line: &[u8]) {
    let Ok(words) = config_line::split(line) else {
        return;
    };
    let names_a_file = |word: &OsString| {
        let bytes = word.as_bytes().to_ascii_lowercase();
        bytes.starts_with(b"-f") || bytes.starts_with(b"--f") || bytes.windows(4).any(|part| part == b"file")
    };
    if !words.iter().any(names_a_file) {
        let _ = parser::parse(words, &|_| None);
    }
}

/// Lists of cores, `--bind-to` and `--map-by`.
pub fn places(text: &str) {
    let list = cores::parse_list(text);
    if text.len() < 64 && list.windows(2).all(|two| two[0] < two[1]) {
        assert_eq!(cores::parse_list(&cores::show_list(&list)), list);
    }
    let _ = cores::Bind::parse(text, 1);
    let _ = cores::Map::parse(text);
}

/// What a child that could not become its program reports.
pub fn report(bytes: &[u8; spawn::REPORT_LEN]) {
    let (_, text, code) = spawn::read_report(bytes);
    assert!(text.starts_with("could not ") && (code == 126 || code == 127));
}
