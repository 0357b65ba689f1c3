//! Output that a closed pipe (`farpost info | head`) ends quietly.

use std::io::Write;
use std::process::ExitCode;

/// Write `text` to standard output.
pub fn out(text: &str) -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => fail(&format!("writing to standard output: {e}")),
    }
}

/// One line on standard error, and the exit code to return.
pub fn fail(message: &str) -> ExitCode {
    error(message);
    ExitCode::FAILURE
}

/// One line on standard error, in one piece: ranks share it.
pub fn error(message: &str) {
    let line = format!("farpost: {message}\n");
    // Nobody is left to tell if this fails.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
