//! Lines of C.

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
