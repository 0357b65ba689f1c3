//! Machines made of parts of others.

use farpost_sim::machine::{Machine, MachineError};

/// The machine of that name with today's adapters in place of its own.
pub fn with_rdma(name: &str) -> Result<Machine, MachineError> {
    let part = |name: &str, after: bool| {
        let text = Machine::built_in(name).unwrap_or_default();
        let (before, adapter) = text.split_once("[adapter.").unwrap_or((text, ""));
        if after {
            format!("[adapter.{adapter}")
        } else {
            before.to_string()
        }
    };
    // What follows a number of the adapter that is gone stands by itself.
    let text: String = (part(name, false) + &part("cluster-100g", true))
        .lines()
        .map(|line| match line.split_once("follows = \"adapter.") {
            Some((before, after)) => {
                let rest = after.split_once("\", ").map_or("", |(_, rest)| rest);
                format!("{before}{rest}\n")
            }
            None => format!("{line}\n"),
        })
        .collect();
    Machine::parse(&format!("{name} with RDMA"), &text)
}
