//! `farpost top`: what the ranks of running jobs send and receive, from the counters they keep in the job's
//! memory. Looking costs the job nothing.

mod rails;
mod status;

use crate::{output, top_sim};
use clap::Args;
use farpost_fabric::{Counter, Peer};
use farpost_job::{JobMemory, RankState, watch};
use farpost_rollcall::table::{self, Rank, RollState};
use farpost_shm::Watch;
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;
use strum::IntoEnumIterator;

#[derive(Args)]
pub struct Options {
    /// A process of the job: mpiexec or a rank; every job of yours if not given
    pid: Option<u32>,
    /// Show again every so many seconds, until the job ends
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86400))]
    every: Option<u64>,
    /// By peer: what each rank has exchanged with each other
    #[arg(long, conflicts_with_all = ["waits", "rails", "status"])]
    peers: bool,
    /// By rail: what each rank has exchanged with other hosts, and how its rails are
    #[arg(long, conflicts_with_all = ["waits", "status"])]
    rails: bool,
    /// What each rank's interfaces have refused, and their status registers
    #[arg(long, conflicts_with = "waits")]
    status: bool,
    /// What each rank waits for, since when, and which ranks wait for each other in a circle
    #[arg(long)]
    waits: bool,
    /// As JSON, one line a look
    #[arg(long)]
    json: bool,
}

pub fn run(options: &Options) -> ExitCode {
    let mut looks = 0;
    loop {
        let jobs = match find(options.pid) {
            Ok(jobs) => jobs,
            // The end of what was watched is no failure.
            Err(_) if looks > 0 => return ExitCode::SUCCESS,
            Err(text) => return output::fail(&text),
        };
        let mut text = String::new();
        if options.waits {
            for job in &jobs {
                text += &if options.json {
                    waits_as_json(job)
                } else {
                    waits_as_table(job)
                };
            }
        }
        let open = |job| watch(job).map(|watch| (job, watch));
        let watched = jobs.iter().filter(|_| !options.waits).map(open);
        let watched = match of_those(options.pid.is_some(), watched) {
            Ok(watched) => watched,
            Err(text) => return output::fail(&text),
        };
        for (job, watch) in watched {
            text += &match options {
                Options { json: true, .. } => as_json(job, &watch, options),
                Options { peers: true, .. } => peers_as_table(job, &watch),
                Options { rails: true, .. } => rails::as_table(job, &watch),
                Options { status: true, .. } => status::as_table(job, &watch),
                _ => as_table(job, &watch),
            };
            text += &top_sim::show(job.launcher(), options.json);
        }
        let said = output::out(&text);
        let Some(seconds) = options.every else { return said };
        looks += 1;
        std::thread::sleep(Duration::from_secs(seconds));
    }
}

fn find(pid: Option<u32>) -> Result<Vec<JobMemory>, String> {
    let pids = pid.map_or_else(watch::launchers, |pid| vec![top_sim::launcher_of(pid)]);
    if pids.is_empty() {
        return Err("no job of yours is running on this host".into());
    }
    of_those(pid.is_some(), pids.into_iter().map(watch::job_of))
}

/// What could be looked at. Of a process that was named everything has to be; beside others a job of another version is told of, and
/// left out.
fn of_those<T, E: std::fmt::Display>(
    named: bool,
    each: impl IntoIterator<Item = Result<T, E>>,
) -> Result<Vec<T>, String> {
    let (found, not): (Vec<_>, Vec<_>) = each.into_iter().partition(Result::is_ok);
    let found: Vec<T> = found.into_iter().flatten().collect();
    for error in not.into_iter().filter_map(Result::err) {
        if named || found.is_empty() {
            return Err(error.to_string());
        }
        output::error(&error.to_string());
    }
    Ok(found)
}

/// The counters of a job.
fn watch(job: &JobMemory) -> Result<Watch, String> {
    let of = |error: farpost_fabric::FabricError| format!("job of process {}: {error}", job.launcher());
    Watch::open(job.fd(), job.layout().region as u64, job.layout().ranks).map_err(of)
}

fn state(state: RankState) -> &'static str {
    match state {
        RankState::Waiting => "waiting",
        RankState::Started => "started",
        RankState::Initialised => "running",
        RankState::Finalised => "finalised",
        RankState::Aborted => "aborted",
    }
}

/// The ranks on this host that have been started. A memory has room for all ranks of its job, on whatever host; looking
/// at the buffers of others would make them cost memory.
fn here(job: &JobMemory) -> impl Iterator<Item = u32> {
    (0..job.layout().ranks).filter(|rank| job.pid(*rank) != 0)
}

/// What the ranks on this host do. Those of other hosts are in the job's memory there.
fn look(job: &JobMemory) -> Vec<Rank> {
    let now = farpost_rollcall::now();
    let host = farpost_job::host_name();
    let ranks = job.layout().ranks - job.services();
    let rank = |number| Rank {
        number,
        host: host.clone(),
        state: match job.pid(number) {
            // Under launchers other than Farpost's a rank that has not joined is like one of another host.
            0 => RollState::Elsewhere,
            _ => farpost_launch::roll::state_of(job, number, now),
        },
        now,
    };
    (0..ranks).map(rank).collect()
}

fn waits_as_table(job: &JobMemory) -> String {
    let ranks = look(job);
    let text = table::table(&ranks).unwrap_or_else(|| "  no rank waits\n".into());
    let launcher = match job.launcher() {
        0 => String::new(),
        launcher => format!(" of process {launcher}"),
    };
    format!(
        "# job{launcher}, {} ranks: what they wait for\n{text}",
        ranks.len()
    )
}

fn waits_as_json(job: &JobMemory) -> String {
    let ranks: Vec<_> = look(job)
        .iter()
        .map(|rank| {
            let RollState::Waits(record) = &rank.state else {
                return json!({ "rank": rank.number, "host": rank.host, "state": table::does(&rank.state) });
            };
            let wants: Vec<_> = record
                .wants
                .iter()
                .map(|want| {
                    json!({ "for": format!("{:?}", want.kind).to_lowercase(), "rank": want.peer, "tag": want.tag,
                            "bytes": want.bytes, "communicator": want.communicator.name })
                })
                .collect();
            let seconds = |at: u64| rank.now.saturating_sub(at) as f64 / 1e9;
            json!({ "rank": rank.number, "host": rank.host, "state": table::does(&rank.state), "function": record.function,
                    "seconds": seconds(record.since), "quiet_seconds": seconds(record.quiet), "any": record.any,
                    "waits_for": wants, "more": record.more })
        })
        .collect();
    format!("{}\n", json!({ "launcher": job.launcher(), "ranks": ranks }))
}

/// The line above a table.
fn heading(job: &JobMemory, what: &str) -> String {
    let (launcher, services) = (job.launcher(), job.services());
    let ranks = job.layout().ranks - services;
    let beside = match services {
        0 => String::new(),
        _ => format!(" and {services} service processes"),
    };
    format!("# job of process {launcher}, {ranks} ranks{beside}; {what}\n")
}

/// The peers with which a process has exchanged something, or has failed to.
fn peers_of(job: &JobMemory, watch: &Watch, rank: u32) -> Vec<Exchange> {
    let all = (0..job.layout().ranks).map(|peer| {
        let mut counts = [0; Counter::COUNT];
        for counter in Counter::iter() {
            counts[counter as usize] = watch.counter(Peer(rank), Peer(peer), counter);
        }
        Exchange { peer, counts }
    });
    all.filter(|one| one.counts.iter().any(|count| *count != 0))
        .collect()
}

/// What one process has counted about another.
struct Exchange {
    peer: u32,
    counts: [u64; Counter::COUNT],
}

impl Exchange {
    fn n(&self, counter: Counter) -> u64 {
        self.counts[counter as usize]
    }

    fn json(&self) -> serde_json::Value {
        json!({ "peer": self.peer,
                "sent": self.n(Counter::Sent), "sent_bytes": self.n(Counter::SentBytes),
                "received": self.n(Counter::Received), "received_bytes": self.n(Counter::ReceivedBytes),
                "bulk_bytes": self.n(Counter::BulkBytes), "stalls": self.n(Counter::Stalls),
                "retries": self.n(Counter::Retries), "faults": self.n(Counter::Faults) })
    }
}

fn peers_as_table(job: &JobMemory, watch: &Watch) -> String {
    let mut t = heading(
        job,
        "by peer: messages, MB of payload, times that there was no room, sent again, refused as wrong",
    );
    let _ = writeln!(
        t,
        "{:>5} {:>5} {:>12} {:>10} {:>12} {:>10} {:>10} {:>8} {:>8} {:>7}",
        "rank", "peer", "sent", "MB", "received", "MB", "bulk MB", "stalls", "retries", "faults"
    );
    for rank in here(job) {
        for one in peers_of(job, watch, rank) {
            let mb = |counter| one.n(counter) as f64 / 1e6;
            let _ = writeln!(
                t,
                "{rank:>5} {:>5} {:>12} {:>10.1} {:>12} {:>10.1} {:>10.1} {:>8} {:>8} {:>7}",
                one.peer,
                one.n(Counter::Sent),
                mb(Counter::SentBytes),
                one.n(Counter::Received),
                mb(Counter::ReceivedBytes),
                mb(Counter::BulkBytes),
                one.n(Counter::Stalls),
                one.n(Counter::Retries),
                one.n(Counter::Faults),
            );
        }
    }
    t
}

fn as_table(job: &JobMemory, watch: &Watch) -> String {
    let ranks = job.layout().ranks - job.services();
    let mut t = heading(job, "postboxes of 64 bytes, MB of payload");
    let _ = writeln!(
        t,
        "{:>5} {:>8} {:>9} {:>12} {:>10} {:>12} {:>10} {:>10} {:>8} {:>7}",
        "rank", "process", "state", "sent", "MB", "received", "MB", "bulk MB", "stalls", "faults"
    );
    for rank in here(job) {
        let n = |counter| watch.total(Peer(rank), counter);
        let mb = |counter| n(counter) as f64 / 1e6;
        let _ = writeln!(
            t,
            "{rank:>5} {:>8} {:>9} {:>12} {:>10.1} {:>12} {:>10.1} {:>10.1} {:>8} {:>7}",
            job.pid(rank),
            if rank < ranks {
                state(job.state(rank))
            } else {
                "service"
            },
            n(Counter::Sent),
            mb(Counter::SentBytes),
            n(Counter::Received),
            mb(Counter::ReceivedBytes),
            mb(Counter::BulkBytes),
            n(Counter::Stalls),
            n(Counter::Faults),
        );
    }
    t
}

fn as_json(job: &JobMemory, watch: &Watch, options: &Options) -> String {
    let ranks: Vec<_> = here(job)
        .map(|rank| {
            let n = |counter| watch.total(Peer(rank), counter);
            let mut all = json!({ "rank": rank, "pid": job.pid(rank), "state": state(job.state(rank)),
                    "service": rank >= job.layout().ranks - job.services(),
                    "sent": n(Counter::Sent), "sent_bytes": n(Counter::SentBytes),
                    "received": n(Counter::Received), "received_bytes": n(Counter::ReceivedBytes),
                    "bulk_bytes": n(Counter::BulkBytes), "stalls": n(Counter::Stalls),
                    "retries": n(Counter::Retries), "faults": n(Counter::Faults) });
            if options.rails {
                all["rails"] = rails::as_json(watch, rank);
            }
            if options.status {
                all["status"] = status::as_json(watch, rank);
            }
            if options.peers {
                let each = peers_of(job, watch, rank);
                all["peers"] = each.iter().map(Exchange::json).collect();
            }
            all
        })
        .collect();
    format!("{}\n", json!({ "launcher": job.launcher(), "ranks": ranks }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_cannot_be_read_hides_no_other_but_is_told_where_it_was_named() {
        let (good, bad) = (Ok::<u32, &str>(1), Err::<u32, &str>("of another version"));
        assert_eq!(of_those(false, [good, bad]), Ok(vec![1]));
        assert_eq!(of_those(false, [bad, bad]), Err("of another version".into()));
        assert_eq!(of_those(true, [bad]), Err("of another version".into()));
        assert_eq!(of_those(true, [good]), Ok(vec![1]));
    }
}
