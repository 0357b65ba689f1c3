//! Which cores this job may use, and which of them each rank is bound to when binding is asked for. What is bound
//! without being asked for is in [`domains`](crate::domains).

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::collections::BTreeMap;

/// What a rank is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bind {
    /// Nothing.
    None,
    /// Hardware threads.
    HwThread,
    /// Cores, all their hardware threads.
    Core,
    /// Sockets.
    Socket,
    /// Memory nodes.
    Numa,
}

/// In which order cores are given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Map {
    /// One after the other.
    Core,
    /// From a different socket each time.
    Socket,
    /// From a different memory node each time.
    Numa,
}

/// A `--map-by` value.
#[derive(Debug, PartialEq, Eq)]
pub struct ParsedMap {
    pub map: Map,
    /// `PE=n`
    pub cores_per_rank: Option<u32>,
    /// `ppr:n:node`
    pub per_node: Option<u32>,
    /// `node`: with several hosts, consecutive ranks are on different ones.
    pub cyclic: bool,
}

impl Bind {
    pub const ALLOWED: &'static str = "none, core, hwthread, socket, numa, core:N, hwthread:N";

    /// Read a `--bind-to` value; `N` in `core:N` replaces the cores per rank.
    pub fn parse(text: &str, cores_per_rank: u32) -> Option<(Bind, u32)> {
        let mut words = text.split(':');
        let bind = match words.next()?.to_ascii_lowercase().as_str() {
            "none" | "node" | "board" | "machine" | "off" => Bind::None,
            "core" => Bind::Core,
            "hwthread" => Bind::HwThread,
            "socket" | "package" => Bind::Socket,
            "numa" => Bind::Numa,
            _ => return None,
        };
        let mut cores = cores_per_rank;
        for word in words {
            match word.parse::<u32>() {
                Ok(n) if n > 0 && matches!(bind, Bind::Core | Bind::HwThread) => cores = n,
                _ if ["overload-allowed", "if-supported", "no-overload"].contains(&word) => {}
                _ => return None,
            }
        }
        Some((bind, cores))
    }
}

impl Map {
    pub const ALLOWED: &'static str =
        "slot, hwthread, core, socket, numa, node, each with :PE=N if wanted, or ppr:N:node";

    /// Read a `--map-by` value.
    pub fn parse(text: &str) -> Option<ParsedMap> {
        let lower = text.to_ascii_lowercase();
        let mut words = lower.split(':').peekable();
        let mut per_node = None;
        if words.peek() == Some(&"ppr") {
            words.next();
            per_node = Some(words.next()?.parse::<u32>().ok().filter(|n| *n > 0)?);
        }
        let first = words.next()?;
        let map = match first {
            "core" | "hwthread" | "slot" | "node" | "board" | "machine" | "seq" => Map::Core,
            "socket" | "package" | "l3cache" => Map::Socket,
            "numa" => Map::Numa,
            "" if per_node.is_none() => Map::Core,
            _ => return None,
        };
        let mut cores_per_rank = None;
        for word in words {
            match word.strip_prefix("pe=") {
                Some(n) => cores_per_rank = Some(n.parse::<u32>().ok().filter(|n| *n > 0)?),
                None if [
                    "oversubscribe",
                    "nooversubscribe",
                    "span",
                    "nolocal",
                    "hwtcpus",
                    "corecpus",
                ]
                .contains(&word) => {}
                None => return None,
            }
        }
        Some(ParsedMap {
            map,
            cores_per_rank,
            per_node,
            cyclic: first == "node" && per_node.is_none(),
        })
    }
}

/// One hardware thread and where it sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    pub id: usize,
    /// The lowest thread of its core names the core.
    pub core: usize,
    pub socket: usize,
    pub numa: usize,
}

/// Parse the kernel's lists, as in `0-3,8`.
pub fn parse_list(text: &str) -> Vec<usize> {
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(low), Ok(high)) = (low.parse::<usize>(), high.parse::<usize>())
            && high < 1 << 16
        {
            all.extend(low..=high);
        }
    }
    all
}

/// Write a list as the kernel does.
pub fn show_list(cpus: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, high)) if *high + 1 == cpu => *high = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let text = parts
        .iter()
        .map(|(l, h)| if l == h { l.to_string() } else { format!("{l}-{h}") });
    text.collect::<Vec<_>>().join(",")
}

/// Hardware threads this process may run on.
pub fn allowed() -> Vec<usize> {
    allowed_to(0).unwrap_or_else(|| (0..farpost_job::allowed_cores() as usize).collect())
}

/// Hardware threads that another process, or for 0 this one, may run on.
pub fn allowed_to(pid: u32) -> Option<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(pid as i32)).ok()?;
    Some((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// The kernel's form of a list of processors; `None` for an empty one.
pub fn cpu_set(cpus: &[usize]) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    let known = cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU);
    known.for_each(|cpu| set.set(*cpu));
    (!cpus.is_empty()).then_some(set)
}

/// Where the allowed hardware threads sit, from sysfs. What sysfs does not tell counts as one socket, one node,
/// a core each.
pub fn topology(allowed: &[usize]) -> Vec<Cpu> {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    let mut numa = BTreeMap::new();
    for node in parse_list(&read("/sys/devices/system/node/online".into())) {
        for cpu in parse_list(&read(format!("/sys/devices/system/node/node{node}/cpulist"))) {
            numa.insert(cpu, node);
        }
    }
    let cpu = |&id: &usize| {
        let dir = format!("/sys/devices/system/cpu/cpu{id}/topology");
        let siblings = parse_list(&read(format!("{dir}/thread_siblings_list")));
        Cpu {
            id,
            core: siblings.into_iter().min().unwrap_or(id),
            socket: read(format!("{dir}/physical_package_id"))
                .trim()
                .parse()
                .unwrap_or(0),
            numa: numa.get(&id).copied().unwrap_or(0),
        }
    };
    allowed.iter().map(cpu).collect()
}

/// What was decided: for each rank the hardware threads it may use (all lists empty: nothing is bound), and
/// whether each rank has its own.
#[derive(Debug, PartialEq, Eq)]
pub struct Binding {
    pub cpus: Vec<Vec<usize>>,
    pub exclusive: bool,
}

/// Give out cores to `ranks` ranks. With more ranks than cores, it begins again from the first.
pub fn assign(ranks: usize, bind: Bind, map: Map, cores_per_rank: usize, cpus: &[Cpu]) -> Binding {
    if bind == Bind::None || cpus.is_empty() {
        return Binding {
            cpus: vec![Vec::new(); ranks],
            exclusive: false,
        };
    }
    // Units that are bound to, each with where it sits, in the order they are given out.
    let mut units: BTreeMap<(usize, usize), Vec<Cpu>> = BTreeMap::new();
    for cpu in cpus {
        let unit = match bind {
            Bind::HwThread => (cpu.core, cpu.id),
            Bind::Core | Bind::None => (cpu.core, 0),
            Bind::Socket => (cpu.socket, 0),
            Bind::Numa => (cpu.numa, 0),
        };
        units.entry(unit).or_default().push(*cpu);
    }
    let mut groups: BTreeMap<usize, Vec<Vec<usize>>> = BTreeMap::new();
    for unit in units.into_values() {
        let group = match map {
            Map::Core => 0,
            Map::Socket => unit[0].socket,
            Map::Numa => unit[0].numa,
        };
        groups
            .entry(group)
            .or_default()
            .push(unit.iter().map(|c| c.id).collect());
    }
    // One from each group in turn, `cores_per_rank` at a time.
    let width = if matches!(bind, Bind::Core | Bind::HwThread) {
        cores_per_rank.max(1)
    } else {
        1
    };
    let mut chunks: Vec<_> = groups
        .into_values()
        .map(|units| {
            units
                .chunks(width)
                .map(<[_]>::concat)
                .collect::<Vec<_>>()
                .into_iter()
        })
        .collect();
    let mut order = Vec::new();
    loop {
        let before = order.len();
        order.extend(chunks.iter_mut().filter_map(Iterator::next));
        if order.len() == before {
            break;
        }
    }
    let given = (0..ranks).map(|rank| {
        let mut cpus = order[rank % order.len()].clone();
        cpus.sort_unstable();
        cpus
    });
    Binding {
        cpus: given.collect(),
        exclusive: ranks <= order.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two sockets of two cores of two threads; threads of a core are 4 apart.
    fn machine() -> Vec<Cpu> {
        (0..8)
            .map(|id| Cpu {
                id,
                core: id % 4,
                socket: id % 4 / 2,
                numa: id % 4 / 2,
            })
            .collect()
    }

    fn cpus(ranks: usize, bind: Bind, map: Map, per: usize) -> Vec<String> {
        assign(ranks, bind, map, per, &machine())
            .cpus
            .iter()
            .map(|c| show_list(c))
            .collect()
    }

    #[test]
    fn cores_are_given_out_in_the_order_asked_for() {
        assert_eq!(cpus(3, Bind::Core, Map::Core, 1), ["0,4", "1,5", "2,6"]);
        assert_eq!(cpus(3, Bind::Core, Map::Socket, 1), ["0,4", "2,6", "1,5"]);
        assert_eq!(
            cpus(3, Bind::Core, Map::Core, 2),
            ["0-1,4-5", "2-3,6-7", "0-1,4-5"]
        );
        assert_eq!(cpus(3, Bind::HwThread, Map::Core, 1), ["0", "4", "1"]);
        assert_eq!(
            cpus(3, Bind::Socket, Map::Core, 1),
            ["0-1,4-5", "2-3,6-7", "0-1,4-5"]
        );
        assert_eq!(cpus(2, Bind::None, Map::Core, 1), ["", ""]);
        assert!(assign(4, Bind::Core, Map::Core, 1, &machine()).exclusive);
        assert!(!assign(5, Bind::Core, Map::Core, 1, &machine()).exclusive);
    }

    #[test]
    fn spellings() {
        assert_eq!(Bind::parse("core:overload-allowed", 1), Some((Bind::Core, 1)));
        assert_eq!(Bind::parse("core:2", 1), Some((Bind::Core, 2)));
        assert_eq!(Bind::parse("corn", 1), None);
        assert_eq!(Map::parse("ppr:2:node").unwrap().per_node, Some(2));
        assert_eq!(Map::parse("socket:PE=4").unwrap().cores_per_rank, Some(4));
        assert!(Map::parse("ppr:0:node").is_none() && Map::parse("moon").is_none());
    }

    #[test]
    fn this_machine_has_a_topology() {
        let allowed = allowed();
        assert!(!allowed.is_empty());
        assert_eq!(topology(&allowed).len(), allowed.len());
    }

    proptest! {
        #[test]
        fn lists_survive_the_round_trip(set in proptest::collection::btree_set(0usize..300, 0..40)) {
            let list: Vec<usize> = set.into_iter().collect();
            prop_assert_eq!(parse_list(&show_list(&list)), list);
        }

        #[test]
        fn every_rank_gets_cores(ranks in 1usize..40, per in 1usize..5) {
            for bind in [Bind::Core, Bind::HwThread, Bind::Socket, Bind::Numa] {
                let b = assign(ranks, bind, Map::Socket, per, &machine());
                prop_assert!(b.cpus.len() == ranks && b.cpus.iter().all(|c| !c.is_empty()));
            }
        }
    }
}
