//! `farpost doctor --hosts`: how the hosts of a job reach each other over TCP, and why so.
//!
//! It is a job of its own, a process per host: each publishes where it is reached, says which interfaces it would use
//! to each other and why, and sends a packet that way. Only what came back counts as reached.

use crate::output;
use farpost_fabric::{ErrorStatus, Fabric, PacketQueue, Peer, Port, Priority};
use farpost_job::Job;
use farpost_net::{AddressBook, NetConfig};
use farpost_tcp::{Listening, Tcp, TcpSettings};
use std::collections::HashSet;
use std::ffi::OsString;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Key of the cards in the job's exchange.
const CARD: &str = "farpost-doctor";

/// Most characters of a line: it goes through the launcher's exchange.
const LINE: usize = 600;

/// What comes after the last line.
const END: &str = ".";

/// How long to try to reach a peer.
const PATIENCE: Duration = Duration::from_secs(10);

/// After everybody was reached: time for the last answers to leave.
const GRACE: Duration = Duration::from_millis(200);

/// After everybody was reached: time for rails that are not up yet; an attempt to connect may take a second.
const RAILS: Duration = Duration::from_millis(2500);

/// Start a process on each of `hosts`, or be one of them.
pub fn run(hosts: &str) -> ExitCode {
    let part = || -> Result<Option<bool>, String> {
        let mut opening = Job::begin(&|name: &str| std::env::var(name).ok()).map_err(|e| e.to_string())?;
        if opening.size() == 1 {
            return Ok(None);
        }
        let listening = Listening::open(settings()?).map_err(|e| e.to_string())?;
        opening.put(CARD, listening.card()).map_err(|e| e.to_string())?;
        let job = Rc::new(opening.finish().map_err(|e| e.to_string())?);
        report(&job, listening).map(Some)
    };
    match part() {
        Ok(Some(true)) => ExitCode::SUCCESS,
        // What is wrong was said.
        Ok(Some(false)) => ExitCode::FAILURE,
        Ok(None) if hosts.is_empty() => output::fail(
            "doctor --hosts: which hosts? Name them (--hosts a,b), or start it as a job (mpiexec --host a,b farpost doctor \
             --hosts)",
        ),
        Ok(None) => launch(hosts),
        Err(why) => output::fail(&format!("doctor --hosts: {why}")),
    }
}

fn launch(hosts: &str) -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(program) => program.into_os_string(),
        Err(e) => return output::fail(&format!("doctor --hosts: finding this program: {e}")),
    };
    let mut arguments: Vec<OsString> = ["-ppn", "1", "--host", hosts].map(OsString::from).to_vec();
    arguments.push(program);
    arguments.extend(["doctor", "--hosts"].map(OsString::from));
    crate::run::run(arguments)
}

/// The settings of the environment that concern TCP.
fn settings() -> Result<TcpSettings, String> {
    let mut settings = TcpSettings::default();
    for (name, value) in std::env::vars_os() {
        if let (Some(name), Some(value)) = (name.to_str(), value.to_str())
            && name.starts_with("FARPOST_")
        {
            settings.set(name, value)?;
        }
    }
    Ok(settings)
}

/// What the others have published.
struct Cards(Rc<Job>);

impl AddressBook for Cards {
    fn card(&self, peer: Peer) -> Result<Vec<u8>, String> {
        let card = self.0.get_from(peer.0, CARD).map_err(|e| e.to_string())?;
        card.ok_or_else(|| "it has not published where it is reached".to_owned())
    }
}

/// The lowest rank of each host.
fn firsts(host_of: &[u32]) -> Vec<u32> {
    let mut seen = HashSet::new();
    (0u32..)
        .zip(host_of)
        .filter(|(_, host)| seen.insert(**host))
        .map(|(rank, _)| rank)
        .collect()
}

/// True: all were reached on all rails.
fn report(job: &Rc<Job>, listening: Listening) -> Result<bool, String> {
    let me = job.rank();
    if job.hosts() == 1 {
        if me == 0 {
            output::out("all ranks are on this host: their messages go through its memory\n");
        }
        return Ok(true);
    }
    let tcp = listening
        .start(NetConfig {
            me: Peer(me),
            size: job.processes(),
            host_of: job.host_map().into(),
            cores: 1,
            processes: 1,
            secret: job.secret(),
            book: Box::new(Cards(Rc::clone(job))),
        })
        .map_err(|e| e.to_string())?;
    let firsts = firsts(job.host_map());
    let mut good = true;
    let mine = if firsts.contains(&me) {
        let others: Vec<u32> = firsts.iter().copied().filter(|r| *r != me).collect();
        let reached = reach(&tcp, &others);
        let mut text = String::new();
        for (peer, error) in others.iter().zip(reached) {
            good &= error.is_none() && tcp.rails_up(Peer(*peer)).iter().all(Result::is_ok);
            text.push_str(&about(job, &tcp, *peer, error));
        }
        text
    } else {
        String::new()
    };
    // Rank 0 prints all, so that the table is in order.
    for (number, line) in mine.lines().enumerate() {
        put(job, number, line)?;
    }
    put(job, mine.lines().count(), END)?;
    job.fence().map_err(|e| e.to_string())?;
    if me == 0 {
        let mut text = String::new();
        for rank in firsts {
            for number in 0.. {
                let line = job.get_from(rank, &key(number)).map_err(|e| e.to_string())?;
                match line {
                    Some(line) if line != END.as_bytes() => {
                        text.push_str(&String::from_utf8_lossy(&line));
                        text.push('\n');
                    }
                    _ => break,
                }
            }
        }
        output::out(&text);
    }
    job.fence().map_err(|e| e.to_string())?;
    Ok(good)
}

/// Key of a line of a rank's report.
fn key(number: usize) -> String {
    format!("{CARD}-{number}")
}

fn put(job: &Job, number: usize, line: &str) -> Result<(), String> {
    let line: String = line.chars().take(LINE).collect();
    job.put(&key(number), line.as_bytes()).map_err(|e| e.to_string())
}

/// A packet to each of `others`, and one from each: by peer, why none came.
fn reach(tcp: &Tcp, others: &[u32]) -> Vec<Option<String>> {
    let mut missing: Vec<Option<String>> = vec![Some("no answer".to_owned()); others.len()];
    let mut lost = HashSet::new();
    let began = Instant::now();
    for peer in others {
        // Full is not possible: it is the first.
        let _ = tcp.try_send(Peer(*peer), Port::Postbox, Priority::High, b"doctor");
    }
    let mut done_at = None;
    loop {
        tcp.progress();
        while tcp.poll_packet(Port::Postbox, |from, _, _| {
            if let Some(at) = others.iter().position(|p| *p == from.0) {
                missing[at] = None;
            }
        }) {}
        for fault in tcp.take_faults().0 {
            if let Some(at) = others.iter().position(|p| *p == fault.peer.0)
                && missing[at].is_some()
            {
                missing[at] = Some(fault.error.to_string());
                lost.insert(at);
            }
        }
        let now = Instant::now();
        if done_at.is_none() && missing.iter().filter(|m| m.is_some()).count() == lost.len() {
            done_at = Some(now);
        }
        let all_up = || {
            others
                .iter()
                .all(|p| tcp.rails_up(Peer(*p)).iter().all(Result::is_ok))
        };
        let done = |at| now > at + RAILS || (now > at + GRACE && all_up());
        if now > began + PATIENCE || done_at.is_some_and(done) {
            return missing;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The lines about one peer.
fn about(job: &Job, tcp: &Tcp, peer: u32, error: Option<String>) -> String {
    let name = |rank| {
        let host = job.host_name_of(rank).unwrap_or_else(|_| "?".to_owned());
        format!("{host} ({rank})")
    };
    let (me, other) = (name(job.rank()), name(peer));
    let plan = match tcp.rail_plan(Peer(peer)) {
        Ok(plan) => plan,
        Err(why) => return format!("{me} to {other}: not reached: {why}\n"),
    };
    let up = tcp.rails_up(Peer(peer));
    let mut text = String::new();
    for (number, line) in plan.lines(&me, &other).iter().enumerate() {
        let state = match (&error, up.get(number)) {
            (Some(why), _) => format!("NOT REACHED: {why}"),
            (None, Some(Err(why))) if why.is_empty() => "not connected yet".to_owned(),
            (None, Some(Err(why))) => format!("NOT CONNECTED: {why}"),
            (None, _) => "reached".to_owned(),
        };
        text.push_str(&format!("{line}: {state}\n"));
    }
    for note in &plan.notes {
        // The rails are said above.
        if !note.starts_with("rail ") {
            text.push_str(&format!("    {note}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rank_of_each_host() {
        assert_eq!(firsts(&[0, 0, 1, 0, 2, 1]), [0, 2, 4]);
        assert_eq!(firsts(&[]), [0u32; 0]);
    }
}
