//! Rails: what each process exchanges with other hosts by each interface of its own, and how its connections there are.

use super::{heading, here};
use farpost_fabric::{Peer, RailFigures};
use farpost_job::JobMemory;
use farpost_shm::Watch;
use serde_json::{Value, json};
use std::fmt::Write;

pub fn as_table(job: &JobMemory, watch: &Watch) -> String {
    let mut t = heading(
        job,
        "by rail: connections, frames or messages, MB with headers, times that what was under way had to go another way",
    );
    let _ = writeln!(
        t,
        "{:>5} {:>16} {:>7} {:>5} {:>5} {:>12} {:>10} {:>12} {:>10} {:>10}",
        "rank", "rail", "state", "up", "down", "sent", "MB", "received", "MB", "re-routes"
    );
    let mut none = true;
    for rank in here(job) {
        for rail in watch.rails(Peer(rank)) {
            none = false;
            let _ = writeln!(t, "{rank:>5} {}", row(&rail));
        }
    }
    if none {
        t += "  no rank here has sent anything to another host\n";
    }
    t
}

fn row(rail: &RailFigures) -> String {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    format!(
        "{:>16} {:>7} {:>5} {:>5} {:>12} {:>10.1} {:>12} {:>10.1} {:>10}",
        rail.name,
        rail.state(),
        rail.up,
        rail.down,
        rail.sent,
        mb(rail.sent_bytes),
        rail.received,
        mb(rail.received_bytes),
        rail.reroutes
    )
}

pub fn as_json(watch: &Watch, rank: u32) -> Value {
    let each = watch.rails(Peer(rank)).into_iter().map(|rail| {
        json!({ "rail": rail.name, "state": rail.state(), "up": rail.up, "down": rail.down,
                "sent": rail.sent, "sent_bytes": rail.sent_bytes,
                "received": rail.received, "received_bytes": rail.received_bytes, "reroutes": rail.reroutes })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rail_that_is_partly_down_says_so() {
        let rail = RailFigures {
            name: "r0".into(),
            up: 2,
            down: 1,
            sent: 30,
            sent_bytes: 4_500_000,
            received: 20,
            received_bytes: 100_000,
            reroutes: 1,
        };
        let row = row(&rail);
        let words: Vec<_> = row.split_whitespace().collect();
        assert_eq!(words, ["r0", "partly", "2", "1", "30", "4.5", "20", "0.1", "1"]);
    }
}
