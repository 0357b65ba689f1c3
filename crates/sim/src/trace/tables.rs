//! Tables: what each resource has done, and the registers of each adapter.

use crate::core::Core;
use crate::net::Resource;
use std::io::{self, Write};

/// Hosts whose registers are shown each.
const MOST_HOSTS: usize = 64;

/// Lines of columns, the first to the left and the others to the right.
fn table(out: &mut impl Write, rows: &[Vec<String>]) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            line += &match column {
                0 => format!("{cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            };
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Which share of a time something was busy, in percent.
pub(super) fn share(core: &Core, resource: &Resource) -> f64 {
    match core.elapsed().0 {
        0 => 0.0,
        elapsed => 100.0 * resource.usage.busy.0 as f64 / elapsed as f64,
    }
}

/// Write what each link, bus and other resource has done, the busiest first. Those that did nothing are counted only.
///
/// # Errors
/// It cannot be written.
pub fn utilisation(core: &Core, out: &mut impl Write) -> io::Result<()> {
    let mut used: Vec<_> = core
        .kernel
        .net
        .resources()
        .filter(|(_, resource)| resource.usage.packets > 0)
        .collect();
    let unused = core.kernel.net.resources().count() - used.len();
    used.sort_by_key(|(id, resource)| (std::cmp::Reverse(resource.usage.busy), *id));
    let head = [
        "resource",
        "busy",
        "packets",
        "bytes",
        "longest queue",
        "waited",
        "each",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for (_, resource) in used {
        let usage = &resource.usage;
        rows.push(vec![
            resource.spec.name.clone(),
            format!("{:.1} %", share(core, resource)),
            usage.packets.to_string(),
            usage.bytes.to_string(),
            usage.longest.to_string(),
            usage.waited.to_string(),
            crate::time::Ps(usage.waited.0 / usage.packets).to_string(),
        ]);
    }
    writeln!(out, "Of {} of virtual time:", core.elapsed())?;
    table(out, &rows)?;
    if unused > 0 {
        writeln!(out, "{unused} more did nothing.")?;
    }
    Ok(())
}

/// Write the counters and registers of each host's adapter, and their sums. Of many hosts the first ones only.
///
/// # Errors
/// It cannot be written.
pub fn registers(core: &Core, out: &mut impl Write) -> io::Result<()> {
    let mut names: Vec<String> = Vec::new();
    let mut values: Vec<(String, Vec<u64>)> = Vec::new();
    for (host, adapter) in core.adapters() {
        let mut row = vec![0; names.len()];
        for (name, value) in adapter.registers() {
            let column = names.iter().position(|it| *it == name).unwrap_or_else(|| {
                names.push(name);
                row.push(0);
                names.len() - 1
            });
            row[column] = value;
        }
        values.push((format!("{} of host {}", adapter.name(), host.0), row));
    }
    let mut rows = vec![
        std::iter::once("adapter".to_owned())
            .chain(names.iter().cloned())
            .collect(),
    ];
    let cells = |name: &str, row: &[u64]| {
        let value = |column: usize| row.get(column).copied().unwrap_or(0).to_string();
        std::iter::once(name.to_owned())
            .chain((0..names.len()).map(value))
            .collect::<Vec<_>>()
    };
    rows.extend(values.iter().take(MOST_HOSTS).map(|(name, row)| cells(name, row)));
    let sum = |column: usize| {
        let all = values.iter().filter_map(|(_, row)| row.get(column));
        all.fold(0u64, |sum, value| sum.wrapping_add(*value))
    };
    let sums: Vec<u64> = (0..names.len()).map(sum).collect();
    rows.push(cells(&format!("sum of {} hosts", values.len()), &sums));
    table(out, &rows)?;
    if values.len() > MOST_HOSTS {
        writeln!(
            out,
            "The first {MOST_HOSTS} of {} hosts; the sum is of all.",
            values.len()
        )?;
    }
    Ok(())
}
