//! `farpost paper`: the papers' experiments on their machines, simulated.

use crate::output;
use clap::Args;
use farpost_bench::progress::Progress;
use farpost_paper::{Committed, Effort, Here, Paper, report};
use std::path::PathBuf;
use std::process::ExitCode;
use strum::VariantArray;

#[derive(Args)]
pub struct Options {
    /// Which paper's; all, if none is given
    #[arg(value_parser = parse)]
    paper: Vec<Paper>,
    /// Draw the papers' figures as SVG and PNG into this directory
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Measure the same on this machine, between two of its processes, as a last column (half a minute at most)
    #[arg(long)]
    here: bool,
    /// Also what takes longer than a minute
    #[arg(long)]
    full: bool,
}

fn parse(name: &str) -> Result<Paper, String> {
    name.parse().map_err(|_| {
        let names: Vec<&str> = Paper::VARIANTS.iter().map(|paper| <&str>::from(*paper)).collect();
        format!("allowed are {}", names.join(", "))
    })
}

pub fn run(options: &Options) -> ExitCode {
    let papers = match &options.paper[..] {
        [] => Paper::VARIANTS,
        some => some,
    };
    let effort = if options.full { Effort::Full } else { Effort::Short };
    let committed = Committed::built_in();
    let here = match options.here.then(|| measure(papers)).transpose() {
        Ok(here) => here,
        Err(error) => return output::fail(&error),
    };
    let mut off = Vec::new();
    for (index, paper) in papers.iter().enumerate() {
        let results = paper.run(effort);
        let gap = if index > 0 { "\n" } else { "" };
        let text = format!(
            "{gap}{}",
            report::table(*paper, &results, &committed, here.as_ref())
        );
        if output::out(&text) != ExitCode::SUCCESS {
            return ExitCode::FAILURE;
        }
        off.extend(report::off(&results, &committed));
        if let Some(directory) = &options.figures {
            match report::draw(&results.figures, *paper, directory) {
                Ok(files) => files
                    .iter()
                    .for_each(|file| eprintln!("wrote {}", file.display())),
                Err(error) => return output::fail(&error),
            }
        }
    }
    if off.is_empty() {
        return ExitCode::SUCCESS;
    }
    output::fail(&format!("off: {}", off.join(", ")))
}

/// The rows of these papers on this machine.
fn measure(papers: &[Paper]) -> Result<Here, String> {
    let progress = Progress::new(0, Here::layers(papers));
    let measured = Here::measure(papers, |layer| progress.step(layer.title()));
    progress.clear();
    let here = measured?;
    let missing = here.complaints.iter();
    missing.for_each(|why| output::error(&format!("not measured here: {why}")));
    Ok(here)
}
