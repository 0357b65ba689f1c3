//! Lines of C and Rust.

/// Add text to a `String`, formatted as by [`format!`].
macro_rules! text {
    ($out:expr, $($text:tt)+) => {{
        use std::fmt::Write as _;
        write!($out, $($text)+).expect("writing to a String");
    }};
}

/// Add a line to a `String`, formatted as by [`format!`].
macro_rules! line {
    ($out:expr) => { $out.push('\n') };
    ($out:expr, $($line:tt)+) => {{
        text!($out, $($line)+);
        $out.push('\n')
    }};
}

const LINE: usize = 110;

/// Writes a declaration, broken after commas.
pub fn wrap(line: &str, out: &mut String) {
    let mut width = 0;
    for (at, piece) in line.split_inclusive(", ").enumerate() {
        if at > 0 && width + piece.trim_end().len() > LINE {
            out.truncate(out.trim_end_matches(' ').len());
            out.push_str("\n    ");
            width = 4;
        }
        out.push_str(piece);
        width += piece.len();
    }
    out.push('\n');
}
