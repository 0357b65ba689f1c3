//! Splitting a line of a configuration file into words: blanks separate, quotes and backslashes keep together,
//! `#` begins a comment.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The words of a line.
///
/// # Errors
/// A quote is not closed.
pub fn split(line: &[u8]) -> Result<Vec<OsString>, String> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = line.iter().copied();
    while let Some(b) = bytes.next() {
        match (quote, b) {
            (Some(q), b) if q == b => quote = None,
            (Some(b'\''), b) => word.get_or_insert_default().push(b),
            (_, b'\\') => word.get_or_insert_default().extend(bytes.next()),
            (Some(_), b) => word.get_or_insert_default().push(b),
            (None, b'\'' | b'"') => {
                quote = Some(b);
                word.get_or_insert_default();
            }
            (None, b'#') if word.is_none() => break,
            (None, b' ' | b'\t' | b'\r') => words.extend(word.take()),
            (None, b) => word.get_or_insert_default().push(b),
        }
    }
    if let Some(q) = quote {
        return Err(format!("the quote {} is not closed", q as char));
    }
    words.extend(word);
    Ok(words.into_iter().map(OsString::from_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_backslashes_and_comments() {
        let s = |t: &str| split(t.as_bytes()).unwrap();
        assert_eq!(
            s("-n 2  prog 'a b' \"c\\\"d\" e\\ f # rest"),
            ["-n", "2", "prog", "a b", "c\"d", "e f"]
        );
        assert_eq!(s("# only a comment"), [] as [&str; 0]);
        assert_eq!(s("a#b '' x"), ["a#b", "", "x"]);
        assert!(split(b"'open").is_err());
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(words in proptest::collection::vec("[^'\n\0]{0,12}", 0..6)) {
            let line: Vec<String> = words.iter().map(|w| format!("'{w}'")).collect();
            let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            prop_assert_eq!(split(line.join(" ").as_bytes()).unwrap(), words);
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = split(&bytes);
        }
    }
}
