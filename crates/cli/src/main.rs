//! `farpost`: run jobs, measure, ask what is there, and find out why something is slow.
#![forbid(unsafe_code)]

mod bench;
mod bench_args;
mod bench_cilk;
mod bench_everyday;
mod bench_goals;
mod bench_job;
mod bench_layers;
mod bench_output;
mod bench_pairs;
mod bench_plot;
mod bench_portals;
mod doctor;
mod info;
mod output;
mod paper;
mod portals_host;
mod reach;
mod run;
mod sim;
mod top;
mod top_sim;
mod tune;
mod tune_choose;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "farpost",
    version,
    about = "MPI on one host: run jobs, measure, diagnose",
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start an MPI job: `mpiexec` by another name, with its options
    #[command(disable_help_flag = true)]
    Run {
        /// What mpiexec takes, e.g. -n 4 ./program
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, num_args = 0..)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Measure the MPI library: Farpost's, or any libmpi_abi.so.1 that LD_LIBRARY_PATH names
    #[command(subcommand)]
    Bench(bench_args::Bench),
    /// What this installation has: version, features, MPI functions, tunables
    Info(info::Options),
    /// Check this host for what makes jobs fast or slow
    Doctor {
        /// How the hosts of a job reach each other, and why so: of these hosts (a,b,c), or under mpiexec without a list
        #[arg(long, num_args = 0..=1, default_missing_value = "", value_name = "A,B,...")]
        hosts: Option<String>,
    },
    /// Measure the switch points on this machine, and write what is best here as a file of settings
    Tune(tune::Options),
    /// The four papers' experiments on their machines, simulated: row by row what the paper says and what comes out
    Paper(paper::Options),
    /// Run a program on a simulated machine, in virtual time: one of the papers', or one described in a file
    Sim(sim::Options),
    /// What the ranks of running jobs send and receive
    Top(top::Options),
    /// Be a host's Portals agent; mpiexec starts it where FARPOST_PORTALS asks for it
    #[command(hide = true)]
    PortalsAgent,
    /// Be this user's Portals agent on this host, through which processes of any job reach each other (PTL_IFACE_HOST), until it is killed
    PortalsHost(portals_host::Options),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    let mut arguments = std::env::args();
    // Before anything else is touched: these are the programs that are measured.
    use farpost_bench::measure::{everyday, fm_memory, pair, startup};
    let measured = match arguments.nth(1).as_deref() {
        Some(startup::PROBE) => Some(startup::probe(arguments)),
        Some(pair::PROBE) => Some(pair::probe(arguments)),
        Some(everyday::PROBE) => Some(everyday::probe(arguments)),
        Some(everyday::STRANGER) => Some(everyday::stranger()),
        Some(fm_memory::PROBE) => Some(fm_memory::probe()),
        _ => None,
    };
    match measured {
        Some(Ok(())) => return ExitCode::SUCCESS,
        Some(Err(e)) => return output::fail(&e.to_string()),
        None => {}
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return refuse(&e),
    };
    match cli.command {
        Command::Run { arguments } => run::run(arguments),
        Command::Bench(options) => bench::run(options),
        Command::Info(options) => info::run(&options),
        Command::Doctor { hosts: None } => doctor::run(),
        Command::Doctor { hosts: Some(hosts) } => reach::run(&hosts),
        Command::Tune(options) => tune::run(&options),
        Command::Paper(options) => paper::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::Top(options) => top::run(&options),
        Command::PortalsAgent => match farpost_node::serve_portals() {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                let said = output::fail(&format!(
                    "Portals agent on host {}: {why}",
                    farpost_job::host_name()
                ));
                farpost_job::abandon(1);
                said
            }
        },
        Command::PortalsHost(options) => portals_host::run(options),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "farpost", &mut script);
            output::out(&String::from_utf8_lossy(&script))
        }
    }
}

/// Help goes to standard output; a mistake is one line on standard error.
fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return output::out(&error.render().to_string());
    }
    let text = error.render().to_string();
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let command = format!("farpost {}", words.join(" "));
        eprintln!(
            "farpost: a command is missing; `{} --help` lists them",
            command.trim()
        );
        return ExitCode::from(2);
    }
    let useful = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with("Usage:") && !l.starts_with("For more information"));
    let line = useful.collect::<Vec<_>>().join(" ");
    output::error(line.trim_start_matches("error: "));
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn run_passes_everything_on() {
        let cli = Cli::try_parse_from(["farpost", "run", "-n", "2", "--help", "--", "x"]).unwrap();
        let Command::Run { arguments } = cli.command else {
            panic!("not run")
        };
        assert_eq!(arguments[..3], ["-n", "2", "--help"]);
    }
}
