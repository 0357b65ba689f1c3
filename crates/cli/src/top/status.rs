//! Refusals and status registers: what the interfaces of each process have refused, and what they have recorded.

use super::{heading, here};
use farpost_fabric::{Peer, Register};
use farpost_job::JobMemory;
use farpost_shm::Watch;
use serde_json::{Map, Value, json};
use std::fmt::Write;
use strum::IntoEnumIterator;

/// What Portals calls its register.
const DROP_COUNT: &str = "PTL_SR_DROP_COUNT";

/// Portals' status register of a process: what was dropped for whatever reason, by itself or by its agent.
fn drop_count(value: impl Fn(Register) -> u64) -> u64 {
    let dropped = Register::iter().filter(|register| Register::DROPPED.contains(register));
    dropped.map(value).sum()
}

/// What a code of RSM's register means (section 2.7 of the Sun Fire Link paper).
fn cause(code: u64) -> &'static str {
    match code {
        0 => "none",
        2 => "translation violation",
        8 => "interrupt busy",
        9 => "invalid transaction",
        10 => "read time-out",
        12 => "write time-out",
        _ => "unknown",
    }
}

pub fn as_table(job: &JobMemory, watch: &Watch) -> String {
    let mut t = heading(job, "refusals and status registers that are not 0");
    let _ = writeln!(t, "{:>5} {:>8} {:>12}  what", "rank", "layer", "count");
    let mut none = true;
    for rank in here(job) {
        let rows = rows(|register| watch.register(Peer(rank), register));
        none &= rows.is_empty();
        for (interface, value, what) in rows {
            let _ = writeln!(t, "{rank:>5} {interface:>8} {value:>12}  {what}");
        }
    }
    if none {
        t += "  nothing was refused here\n";
    }
    t
}

fn rows(value: impl Fn(Register) -> u64) -> Vec<(&'static str, u64, String)> {
    let mut rows = Vec::new();
    for register in Register::iter() {
        match (register, value(register)) {
            (_, 0) => {}
            (Register::RsmCesr, code) => rows.push((
                register.interface(),
                code,
                format!("{}: {}", register.text(), cause(code)),
            )),
            (_, count) => rows.push((register.interface(), count, register.text().to_owned())),
        }
    }
    match drop_count(value) {
        0 => {}
        count => rows.push(("portals", count, DROP_COUNT.to_owned())),
    }
    rows
}

pub fn as_json(watch: &Watch, rank: u32) -> Value {
    let value = |register| watch.register(Peer(rank), register);
    let all = Register::iter().map(|register| (register.key().to_owned(), json!(value(register))));
    let mut all: Map<String, Value> = all.collect();
    all.insert(DROP_COUNT.to_lowercase(), json!(drop_count(value)));
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_dropped_makes_the_register_and_causes_have_names() {
        let value = |register| match register {
            Register::PortalsNoMatch => 3,
            Register::PortalsAgentDropped => 4,
            // They come again, so they are not dropped.
            Register::PortalsAgentRefused | Register::PortalsRefusals => 100,
            Register::RsmCesr => 12,
            _ => 0,
        };
        let rows = rows(value);
        assert_eq!(rows.last(), Some(&("portals", 7, "PTL_SR_DROP_COUNT".to_owned())));
        assert!(
            rows.iter().any(|(layer, code, what)| *layer == "rsm"
                && *code == 12
                && what.ends_with("write time-out"))
        );
        assert_eq!(rows.len(), 6);
        assert!(super::rows(|_| 0).is_empty());
    }
}
