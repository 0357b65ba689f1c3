//! What is known of processes that have ended: by the launcher, who waits for them, and by the kernel.
//!
//! Cost class: set-up path; asked while nothing moves.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use farpost_fabric::Peer;
use farpost_job::{End, Job, Origin, RankState};
use farpost_shm::{Seen, Word};

/// Time after which the end of a process is told without the launcher's word, which comes within moments.
const PATIENCE: Duration = Duration::from_millis(500);

/// For the host's memory: how peers ended.
pub(crate) fn word(job: &Rc<Job>) -> Word {
    let job = Rc::clone(job);
    let host = farpost_job::host_name();
    let asked: RefCell<HashMap<u32, Instant>> = RefCell::default();
    Box::new(move |peer: Peer, seen: Seen| {
        let how = match (seen, job.ended(peer.0)) {
            (Seen::Left, _) => "has left the job".into(),
            (Seen::Ended(Some(status)), _) => End::of(status).to_string(),
            (Seen::Ended(None), Some(end)) => end.to_string(),
            (Seen::Ended(None), None) => {
                let mut asked = asked.borrow_mut();
                let first = asked.entry(peer.0).or_insert_with(Instant::now);
                if job.origin() == Origin::Launcher && first.elapsed() < PATIENCE {
                    return None;
                }
                "has ended".into()
            }
            // One that was started and has never been here; what the launcher started for others may have been a shell.
            (Seen::Alive, Some(end)) if job.state(peer.0) == Some(RankState::Started) => {
                format!("{end} before it joined the job")
            }
            (Seen::Alive, _) => return None,
        };
        let who = if peer.0 < job.size() {
            format!("rank {}", peer.0)
        } else {
            "the Portals agent".into()
        };
        Some(farpost_fabric::End {
            why: format!("{who} on host {host} {how}"),
            in_order: seen == Seen::Left,
        })
    })
}
