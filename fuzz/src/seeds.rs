//! Writes the seeds of every target to the directory that is named: `fuzz/seeds/TARGET/NUMBER`.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let to = PathBuf::from(std::env::args_os().nth(1).unwrap_or("seeds".into()));
    for (target, seeds) in farpost_fuzz::TARGETS {
        let folder = to.join(target);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => std::fs::create_dir_all(&folder)?,
        }
        for (number, seed) in seeds().iter().enumerate() {
            std::fs::write(folder.join(number.to_string()), seed)?;
        }
    }
    Ok(())
}
