//! `farpost top` of simulated machines: counters and registers of their adapters, as the coordinator publishes them.

use farpost_sim::time::Ps;
use farpost_sim::trace::Snapshot;
use serde_json::json;
use std::fmt::Write;

/// The machine below the job of this launcher. `None`: that job is not simulated.
fn below(launcher: u32) -> Option<Snapshot> {
    // The coordinator is the launcher's parent.
    let status = std::fs::read_to_string(format!("/proc/{launcher}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    let snapshot = Snapshot::published_by(parent.trim().parse().ok()?)?;
    (snapshot.launcher == launcher).then_some(snapshot)
}

/// The launcher, where `pid` is a coordinator (`farpost sim`); else `pid`.
pub fn launcher_of(pid: u32) -> u32 {
    Snapshot::published_by(pid).map_or(pid, |snapshot| snapshot.launcher)
}

/// What is to be shown of the machine below a job; nothing, where it is not simulated.
pub fn show(launcher: u32, as_json: bool) -> String {
    match below(launcher) {
        None => String::new(),
        Some(snapshot) if as_json => json_of(&snapshot),
        Some(snapshot) => table_of(&snapshot),
    }
}

/// Hosts in lines, registers in columns.
fn table_of(snapshot: &Snapshot) -> String {
    let mut text = format!(
        "# simulated machine {} at {} of virtual time: counters and registers of its adapters\n",
        snapshot.machine,
        Ps(snapshot.time)
    );
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in snapshot.adapters.iter().flat_map(|adapter| &adapter.registers) {
        if !names.contains(&&**name) {
            names.push(name);
        }
    }
    let _ = write!(text, "{:>5} {:>8}", "host", "adapter");
    for name in &names {
        let _ = write!(text, " {name:>10}");
    }
    text.push('\n');
    for adapter in &snapshot.adapters {
        let _ = write!(text, "{:>5} {:>8}", adapter.host, adapter.adapter);
        for name in &names {
            let value = adapter
                .registers
                .iter()
                .find(|(of, _)| of == name)
                .map_or(0, |it| it.1);
            let _ = write!(text, " {value:>width$}", width = name.len().max(10));
        }
        text.push('\n');
    }
    text
}

fn json_of(snapshot: &Snapshot) -> String {
    let adapters: Vec<_> = snapshot
        .adapters
        .iter()
        .map(|it| {
            let registers: serde_json::Map<_, _> = it
                .registers
                .iter()
                .map(|(name, value)| (name.clone(), (*value).into()))
                .collect();
            json!({ "host": it.host, "adapter": it.adapter, "registers": registers })
        })
        .collect();
    let all = json!({ "launcher": snapshot.launcher, "machine": snapshot.machine,
                      "virtual_seconds": Ps(snapshot.time).secs(), "adapters": adapters });
    format!("{all}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use farpost_sim::trace::AdapterState;

    fn snapshot() -> Snapshot {
        let state = |host, received| AdapterState {
            host,
            adapter: "seastar".into(),
            registers: vec![("messages_received".into(), received), ("panicked".into(), 0)],
        };
        Snapshot {
            machine: "xt3".into(),
            launcher: 9,
            ranks: 2,
            time: 5_390_000,
            adapters: vec![state(0, 12), state(1, 7)],
        }
    }

    #[test]
    fn each_host_has_a_line_and_each_register_a_column() {
        let text = table_of(&snapshot());
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert!(
            text.starts_with("# simulated machine xt3 at 5.390 us of virtual time"),
            "{text}"
        );
        assert_eq!(lines[1], ["host", "adapter", "messages_received", "panicked"]);
        assert_eq!(lines[2], ["0", "seastar", "12", "0"]);
        assert_eq!(lines[3], ["1", "seastar", "7", "0"]);
    }

    #[test]
    fn json_has_them_by_name() {
        let value: serde_json::Value = serde_json::from_str(&json_of(&snapshot())).expect("a line of JSON");
        assert_eq!(value["adapters"][1]["registers"]["messages_received"], 7);
        assert_eq!(
            (&value["launcher"], &value["machine"]),
            (&json!(9), &json!("xt3"))
        );
    }

    #[test]
    fn a_process_without_a_machine_shows_nothing() {
        let me = std::process::id();
        assert_eq!(show(me, false), "");
        assert_eq!(launcher_of(me), me);
    }
}
