//! A progress bar for the person at the terminal, drawn by rank 0.

use crate::launch::TERMINAL;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fs::OpenOptions;
use std::io::IsTerminal;
use std::os::unix::fs::OpenOptionsExt;

/// A bar of `total` steps, or none where nobody would see it.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// On rank 0, if standard error (of the person, when a bare start put a launcher between) is a terminal.
    pub fn new(rank: usize, total: usize) -> Self {
        let target = if rank != 0 {
            None
        } else if let Some(path) = std::env::var_os(TERMINAL) {
            // O_NOCTTY: drawing on a terminal must not make it this session's.
            let terminal = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NOCTTY)
                .open(path)
                .ok();
            let terminal = terminal.filter(|t| t.is_terminal());
            terminal
                .and_then(|t| Some((t.try_clone().ok()?, t)))
                .map(|(read, write)| {
                    let term = indicatif_term(read, write);
                    ProgressDrawTarget::term(term, 10)
                })
        } else if std::io::stderr().is_terminal() {
            Some(ProgressDrawTarget::stderr_with_hz(10))
        } else {
            None
        };
        Self(target.map(|target| {
            let bar = ProgressBar::with_draw_target(Some(total as u64), target);
            let style = "{msg:<28} {bar:32} {pos}/{len}  {elapsed} (about {eta} left)";
            bar.set_style(
                ProgressStyle::with_template(style)
                    .expect("a constant template")
                    .progress_chars("=> "),
            );
            bar
        }))
    }

    /// Whether a bar is drawn: lines printed meanwhile would run into it.
    pub fn is_drawn(&self) -> bool {
        self.0.is_some()
    }

    /// One step done; `what` is shown.
    pub fn step(&self, what: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(what.to_owned());
            bar.inc(1);
        }
    }

    /// Remove the bar.
    pub fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn indicatif_term(read: std::fs::File, write: std::fs::File) -> console::Term {
    console::Term::read_write_pair(read, write)
}
