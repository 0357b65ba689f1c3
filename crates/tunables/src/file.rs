//! Settings in a file: a line `NAME=value` each, empty lines, and lines that begin with `#`.

/// One setting in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting<'a> {
    /// The number of its line, from 1.
    pub line: usize,
    /// What is set.
    pub name: &'a str,
    /// To what; without the space around it.
    pub value: &'a str,
}

/// A line that is none of these.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It is not `NAME=value`.
    #[error("line {line}: {text:?}: expected NAME=value, or a comment that begins with #")]
    NotASetting { line: usize, text: String },
    /// The name has been set before.
    #[error("line {line}: {name} is set already, in line {before}")]
    Twice {
        line: usize,
        name: String,
        before: usize,
    },
}

/// Longest piece of a line that an error repeats.
const SHOWN: usize = 60;

/// The settings of `text`, in its order.
///
/// # Errors
/// The first line that is wrong.
pub fn settings(text: &str) -> Result<Vec<Setting<'_>>, LineError> {
    let mut found: Vec<Setting<'_>> = Vec::new();
    for (index, whole) in text.lines().enumerate() {
        let line = index + 1;
        let trimmed = whole.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let (name, value) = trimmed
            .split_once('=')
            .map(|(name, value)| (name.trim(), value.trim()))
            .filter(|(name, value)| is_name(name) && !value.is_empty())
            .ok_or_else(|| LineError::NotASetting {
                line,
                text: trimmed.chars().take(SHOWN).collect(),
            })?;
        if let Some(before) = found.iter().find(|setting| setting.name == name) {
            return Err(LineError::Twice {
                line,
                name: name.into(),
                before: before.line,
            });
        }
        found.push(Setting { line, name, value });
    }
    Ok(found)
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_comments_and_space() {
        let text = "# measured\n\n  FARPOST_ONE = 3k \r\n\t#x=y\nFARPOST_TWO=a=b\n";
        let found = settings(text).unwrap();
        let expected = [(3, "FARPOST_ONE", "3k"), (5, "FARPOST_TWO", "a=b")];
        assert_eq!(
            found,
            expected.map(|(line, name, value)| Setting { line, name, value })
        );
        assert_eq!(settings(""), Ok(vec![]));
    }

    #[test]
    fn rubbish_is_named_with_its_line() {
        for (text, words) in [
            ("A=1\nno such thing\n", ["line 2", "no such thing"]),
            ("A=\n", ["line 1", "A="]),
            ("=3", ["line 1", "=3"]),
            ("export A=3", ["line 1", "export A"]),
            ("A=1\nB=2\n\nA=3", ["line 4", "line 1"]),
            ("\u{0}\u{ff}=1", ["line 1", "NAME=value"]),
        ] {
            let error = settings(text).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{text:?}: {error}");
        }
        let long = "x".repeat(5000);
        assert!(settings(&long).unwrap_err().to_string().len() < 200);
    }
}
