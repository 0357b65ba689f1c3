//! C types as the tables write them, and what they are in Rust.

use super::{Interface, Param, TypeKind};

/// Of the C types that Rust has under another name.
fn scalar(c: &str) -> Option<&'static str> {
    Some(match c {
        "void" => "core::ffi::c_void",
        "char" => "core::ffi::c_char",
        "signed char" => "core::ffi::c_schar",
        "unsigned char" => "core::ffi::c_uchar",
        "short" => "core::ffi::c_short",
        "unsigned short" => "core::ffi::c_ushort",
        "int" => "core::ffi::c_int",
        "unsigned" | "unsigned int" => "core::ffi::c_uint",
        "long" => "core::ffi::c_long",
        "unsigned long" => "core::ffi::c_ulong",
        "long long" => "core::ffi::c_longlong",
        "unsigned long long" => "core::ffi::c_ulonglong",
        "float" => "f32",
        "double" => "f64",
        "int8_t" => "i8",
        "uint8_t" => "u8",
        "int16_t" => "i16",
        "uint16_t" => "u16",
        "int32_t" => "i32",
        "uint32_t" => "u32",
        "int64_t" => "i64",
        "uint64_t" => "u64",
        "size_t" | "uintptr_t" => "usize",
        "ssize_t" | "intptr_t" | "ptrdiff_t" => "isize",
        "off_t" => "libc::off_t",
        // Handles of mpi.h, which are pointers.
        "MPI_Comm" | "MPI_Group" | "MPI_Request" => "usize",
        "struct pollfd" => "libc::pollfd",
        _ => return None,
    })
}

/// A C type taken apart: the type without stars, whether that is constant, and per star whether the pointer is.
struct Parts {
    base: String,
    constant: bool,
    stars: Vec<bool>,
}

fn parts(c: &str) -> Result<Parts, String> {
    let spaced = c.replace('*', " * ");
    let (mut base, mut constant, mut stars) = (Vec::new(), false, Vec::new());
    for word in spaced.split_whitespace() {
        match (word, stars.last_mut()) {
            ("*", _) => stars.push(false),
            ("const", None) => constant = true,
            // Rust has it at the access, not in the type.
            ("volatile", None) => {}
            ("const", Some(last)) => *last = true,
            (word, None) => base.push(word),
            (word, Some(_)) => return Err(format!("C type {c:?}: {word} after a star")),
        }
    }
    if base.is_empty() {
        return Err(format!("C type {c:?}: no type"));
    }
    let base = base.join(" ");
    Ok(Parts {
        base,
        constant,
        stars,
    })
}

/// The Rust type of a C type. Types of the table keep their names.
///
/// # Errors
/// Not known, or of a kind that is used through pointers only.
pub fn rust(of: &Interface, c: &str) -> Result<String, String> {
    let Parts {
        base,
        constant,
        stars,
    } = parts(c)?;
    let mut stars = stars.as_slice();
    let mut pointee_const = constant;
    let mut out = match scalar(&base) {
        Some("core::ffi::c_void") if stars.is_empty() => return Err("void is no type of a value".into()),
        Some(known) => known.to_owned(),
        None if of.enums.iter().any(|e| e.name.as_deref() == Some(base.as_str())) => base,
        None => match of.types.iter().find(|t| t.name == base).map(|t| t.kind) {
            None => {
                return Err(format!(
                    "C type {c:?}: {base} is no type of the table, and none that is known"
                ));
            }
            Some(TypeKind::Opaque) if stars.is_empty() => {
                return Err(format!(
                    "C type {c:?}: an opaque type is used through pointers only"
                ));
            }
            Some(TypeKind::Function) => {
                let [first, rest @ ..] = stars else {
                    return Err(format!("C type {c:?}: a function is passed as `{base} *`"));
                };
                (stars, pointee_const) = (rest, *first);
                format!("Option<{base}>")
            }
            Some(TypeKind::Callback) => format!("Option<{base}>"),
            Some(_) => base,
        },
    };
    for constant in stars {
        out = format!("*{} {out}", if pointee_const { "const" } else { "mut" });
        pointee_const = *constant;
    }
    Ok(out)
}

/// Whether a pointer to this Rust type is to memory that is no value of the table's: bytes, characters, an opaque type.
pub fn is_memory(of: &Interface, pointee: &str) -> bool {
    let opaque = |t: &super::Type| t.name == pointee && t.kind == TypeKind::Opaque;
    matches!(pointee, "core::ffi::c_void" | "core::ffi::c_char") || of.types.iter().any(opaque)
}

/// ` -> T` of a result, nothing for `void`.
///
/// # Errors
/// Those of [`rust`].
pub fn result(of: &Interface, c: &str) -> Result<String, String> {
    match c {
        "void" => Ok(String::new()),
        c => Ok(format!(" -> {}", rust(of, c)?)),
    }
}

/// The Rust type of a parameter. Of variadic arguments one is read, which the calling conventions of Linux pass like
/// an ordinary one if it is an integer or a pointer.
///
/// # Errors
/// Those of [`rust`]; `...` without `as`.
pub fn param(of: &Interface, p: &Param) -> Result<String, String> {
    match (p.ctype.as_str(), &p.read_as) {
        ("...", Some(c)) => match rust(of, c)? {
            float if matches!(float.as_str(), "f32" | "f64") => {
                Err("as: only integers and pointers can be read of ...".into())
            }
            other => Ok(other),
        },
        ("...", None) => Err("... needs `as`, the type of the one argument that is read".into()),
        (_, Some(_)) => Err("`as` goes with ... only".into()),
        (c, None) => rust(of, c),
    }
}

/// A C declaration: type and name with the stars at the name.
pub fn declare(c: &str, name: &str) -> String {
    if c == "..." {
        return c.into();
    }
    let stars = c.len() - c.trim_end_matches('*').len();
    let (plain, stars) = c.split_at(c.len() - stars);
    let blank = if plain.ends_with(' ') { "" } else { " " };
    format!("{plain}{blank}{stars}{name}")
}

/// `(int a, char *b)`, `(void)`.
pub fn list(params: &[Param]) -> String {
    let each: Vec<String> = params.iter().map(|p| declare(&p.ctype, &p.name)).collect();
    if each.is_empty() {
        "(void)".into()
    } else {
        format!("({})", each.join(", "))
    }
}
