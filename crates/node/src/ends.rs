//! How processes ended: what the launcher, which waits for them, and the kernel report.
//!
//! Cost class: set-up path; asked while nothing moves.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use farpost_fabric::Peer;
use farpost_job::{End, Job, Origin, RankState};
use farpost_shm::{EndReport, PeerProcess};

/// Time after which the end of a process is reported without the launcher's report, which usually comes at once.
const PATIENCE: Duration = Duration::from_millis(500);

/// The launcher's reports, for the shared-memory fabric.
pub(crate) fn end_report(job: &Rc<Job>) -> EndReport {
    let job = Rc::clone(job);
    let host = farpost_job::host_name();
    let asked: RefCell<HashMap<u32, Instant>> = RefCell::default();
    Box::new(move |peer: Peer, seen: PeerProcess| {
        let how = match (seen, job.ended(peer.0)) {
            (PeerProcess::Left, _) => "has left the job".into(),
            (PeerProcess::Ended(Some(status)), _) => End::of(status).to_string(),
            (PeerProcess::Ended(None), Some(end)) => end.to_string(),
            (PeerProcess::Ended(None), None) => {
                let mut asked = asked.borrow_mut();
                let first = asked.entry(peer.0).or_insert_with(Instant::now);
                if job.origin() == Origin::Launcher && first.elapsed() < PATIENCE {
                    return None;
                }
                "has ended".into()
            }
            // One that was started and has never been here; what the launcher started for others may have been a shell.
            (PeerProcess::Alive, Some(end)) if job.state(peer.0) == Some(RankState::Started) => {
                format!("{end} before it joined the job")
            }
            (PeerProcess::Alive, _) => return None,
        };
        let who = if peer.0 < job.size() {
            format!("rank {}", peer.0)
        } else {
            "the Portals agent".into()
        };
        Some(farpost_fabric::End {
            why: format!("{who} on host {host} {how}"),
            // One that rests says at its end that it leaves, if it comes to that.
            in_order: seen == PeerProcess::Left || job.state(peer.0) == Some(RankState::Finalised),
        })
    })
}
