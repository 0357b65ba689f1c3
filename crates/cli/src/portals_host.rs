//! `farpost portals-host`: the agent of a host, of processes that need not be of one job.

use crate::output;
use farpost_node::{HostAgent, host_agent, start_host_agent};
use std::io::Write;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Options {
    /// Users, by their numbers, whose processes may come beside this user's
    #[arg(long, value_delimiter = ',', value_name = "UID,...")]
    allow: Vec<u32>,
    /// End a second after the last process has left
    #[arg(long)]
    while_used: bool,
    /// Start one apart from this process, which ends when that is ready; as programs do that find none
    #[arg(long, hide = true)]
    start: bool,
}

pub fn run(options: Options) -> ExitCode {
    if options.start {
        return match start_host_agent() {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => output::fail(&why),
        };
    }
    let apart = options.while_used;
    let agent = HostAgent {
        allowed: options.allow,
        while_used: options.while_used,
    };
    let say = |what: &str| {
        let mut out = std::io::stdout();
        // Who started it may not want to know.
        let _ = writeln!(out, "{what}").and_then(|()| out.flush());
    };
    match host_agent(agent, || say("ready")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            if apart {
                say(&why);
            }
            output::fail(&why)
        }
    }
}
