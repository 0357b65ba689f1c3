//! Where a benchmark's results go: a table, JSON, plots.

use crate::bench_args::Common;
use crate::output;
use farpost_bench::Result;
use farpost_bench::chart::{self, Chart};
use farpost_bench::report::write_json;
use serde_json::Value;
use std::path::Path;

/// The table: at once line by line, or, where a progress bar is drawn meanwhile, at the end.
pub struct Output {
    shown: bool,
    streaming: bool,
    kept: String,
}

impl Output {
    pub fn new(common: &Common, streaming: bool) -> Self {
        Self {
            shown: common.json.as_deref() != Some(Path::new("-")),
            streaming,
            kept: String::new(),
        }
    }

    pub fn line(&mut self, line: &str) {
        if self.shown && self.streaming {
            output::out(&format!("{line}\n"));
        } else if self.shown {
            self.kept.push_str(line);
            self.kept.push('\n');
        }
    }

    pub fn flush(&mut self) {
        if !self.streaming {
            output::out(&self.kept);
        }
        self.kept.clear();
    }
}

pub fn finish(common: &Common, json: impl FnOnce() -> Value, chart: impl Fn() -> Chart) -> Result<()> {
    if let Some(file) = &common.json {
        write_json(file, &json())?;
        if file != Path::new("-") {
            eprintln!("wrote {}", file.display());
        }
    }
    for file in &common.plot {
        chart::write(&chart(), file)?;
        eprintln!("wrote {}", file.display());
    }
    Ok(())
}
