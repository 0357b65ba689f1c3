//! Finding the program to run, before any process is started.

use crate::options::App;
use crate::refusal::Refusal;
use rustix::fs::{Access, access};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The file to execute for an app. A name with a slash is taken as it is, seen from the app's directory;
/// another is looked for in `-path`, in `PATH`, and last in the app's directory.
///
/// # Errors
/// There is no such file (exit code 127), or it cannot be executed (126), or there is no such directory.
pub fn find(app: &App, path: Option<&OsStr>) -> Result<CString, Refusal> {
    if let Some(directory) = &app.directory
        && !directory.is_dir()
    {
        return refuse!(usage: "-wdir {}: no such directory", directory.display());
    }
    let here = app.directory.clone().unwrap_or_else(|| PathBuf::from("."));
    let name = Path::new(&app.program);
    let c = |p: PathBuf| {
        CString::new(p.into_os_string().into_vec()).map_err(|_| refusal!(usage: "a zero byte in a name"))
    };
    let shown = name.display();
    if app.program.as_bytes().contains(&b'/') {
        let seen = if name.is_absolute() {
            name.to_owned()
        } else {
            here.join(name)
        };
        return match usable(&seen) {
            Ok(()) => c(name.to_owned()),
            Err(why) => Err(Refusal {
                text: format!("program {shown}: {}", why.text),
                ..why
            }),
        };
    }
    let mut unusable = None;
    let given = app.path.iter().flat_map(std::env::split_paths);
    let usual = path.into_iter().flat_map(std::env::split_paths);
    for directory in given.chain(usual).chain([here.clone()]) {
        let directory = if directory.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            directory
        };
        let file = directory.join(name);
        match usable(&file) {
            // After the change of directory the way there must still hold.
            Ok(()) if file.is_relative() => return c(std::fs::canonicalize(&file).unwrap_or(file)),
            Ok(()) => return c(file),
            Err(why) if why.code == 126 => unusable = Some((file, why)),
            Err(_) => {}
        }
    }
    match unusable {
        Some((file, why)) => Err(Refusal {
            text: format!("program {}: {}", file.display(), why.text),
            ..why
        }),
        None => Err(Refusal {
            text: format!(
                "program {shown}: not found, neither along PATH nor in {}",
                here.display()
            ),
            code: 127,
        }),
    }
}

/// A program along this process's PATH.
pub fn along_path(name: &OsStr) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|d| d.is_absolute())
        .map(|d| d.join(name))
        .find(|f| usable(f).is_ok())
}

fn usable(file: &Path) -> Result<(), Refusal> {
    let refuse = |text: &str, code| {
        Err(Refusal {
            text: text.into(),
            code,
        })
    };
    match std::fs::metadata(file) {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => refuse("permission denied", 126),
        Err(_) => refuse("no such file", 127),
        Ok(m) if m.is_dir() => refuse("is a directory", 126),
        Ok(_) if access(file, Access::EXEC_OK).is_err() => refuse("not executable", 126),
        Ok(_) => Ok(()),
    }
}
