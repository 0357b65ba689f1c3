//! Lines of C and Rust.

/// Adds to a string as `format!` says.
macro_rules! text {
    ($out:ident: $($text:tt)*) => { $out.push_str(&format!($($text)*)) };
}

/// As [`text`], and ends the line.
macro_rules! line {
    ($out:ident: $($text:tt)*) => {{ text!($out: $($text)*); $out.push('\n') }};
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
