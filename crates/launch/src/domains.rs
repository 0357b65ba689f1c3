//! Binding without being asked: every rank gets a domain, its share of the cores.
//!
//! Ranks of one job then never meet on a core while another is idle, which the scheduler does let happen: ranks that wait
//! for each other look light beside a busy stranger. A domain is as wide as the cores allow, so that a rank's threads, and the scheduler
//! within it, have room. What is busy already is shared out last, so that jobs beside each other, or beside
//! strangers, begin on different cores.
//!
//! Nothing is bound where cores are scarce: more processes than cores (or than the cgroup's quota), or more
//! threads asked for than a share has cores.

use crate::cores::Cpu;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Variables that say how many threads a program will have.
const THREADS: [&str; 6] = [
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "JULIA_NUM_THREADS",
    "RAYON_NUM_THREADS",
];

/// A core is busy when so much more waits on it than on the quietest one, in processes.
const BUSY: f64 = 0.5;

/// The threads that a rank with these variables will have, as far as they say.
pub fn threads_wanted(variables: &BTreeMap<OsString, OsString>) -> usize {
    let asked = |name: &&str| -> Option<usize> {
        let text = variables.get(std::ffi::OsStr::new(*name))?.to_str()?;
        // Levels of nesting are separated by commas.
        text.split(',').next()?.trim().parse().ok()
    };
    THREADS.iter().filter_map(asked).max().unwrap_or(1)
}

/// The hardware threads of each of `ranks` ranks, or `None` where nothing is to be bound: of `processes` processes in
/// all, `quota` cores that the system lets them use at a time, and `threads` in each rank. `load` tells how much runs on a
/// hardware thread.
pub fn domains(
    ranks: usize,
    processes: usize,
    quota: usize,
    threads: usize,
    cpus: &[Cpu],
    load: impl Fn(usize) -> f64,
) -> Option<Vec<Vec<usize>>> {
    let mut cores: BTreeMap<(usize, usize, usize), Vec<usize>> = BTreeMap::new();
    for cpu in cpus {
        cores
            .entry((cpu.numa, cpu.socket, cpu.core))
            .or_default()
            .push(cpu.id);
    }
    let cores: Vec<Vec<usize>> = cores.into_values().collect();
    if ranks < 2 || processes > cores.len().min(quota) {
        return None;
    }
    let load: Vec<f64> = cores
        .iter()
        .map(|core| core.iter().map(|cpu| load(*cpu)).sum())
        .collect();
    let quietest = load.iter().copied().fold(f64::INFINITY, f64::min);
    let (busy, idle): (Vec<usize>, Vec<usize>) =
        (0..cores.len()).partition(|core| load[*core] >= quietest + BUSY);
    let mut given: Vec<Vec<usize>> = vec![Vec::new(); ranks];
    if idle.len() >= ranks {
        // Neighbours stay together.
        for part in [idle, busy] {
            for (index, core) in part.iter().enumerate() {
                given[index * ranks / part.len()].push(*core);
            }
        }
    } else {
        for (index, core) in idle.into_iter().chain(busy).enumerate() {
            given[index % ranks].push(core);
        }
    }
    let domains: Vec<Vec<usize>> = given
        .into_iter()
        .map(|part| {
            let mut cpus: Vec<usize> = part.into_iter().flat_map(|core| cores[core].clone()).collect();
            cpus.sort_unstable();
            cpus
        })
        .collect();
    domains.iter().all(|d| d.len() >= threads).then_some(domains)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::show_list;
    use proptest::prelude::*;

    /// `n` cores of one thread, in two sockets.
    fn machine(n: usize) -> Vec<Cpu> {
        let cpu = |id| Cpu {
            id,
            core: id,
            socket: id * 2 / n,
            numa: id * 2 / n,
        };
        (0..n).map(cpu).collect()
    }

    fn given(ranks: usize, cores: usize, busy: &[usize]) -> String {
        let load = |cpu| if busy.contains(&cpu) { 1.0 } else { 0.0 };
        match domains(ranks, ranks, cores, 1, &machine(cores), load) {
            None => "none".into(),
            Some(domains) => domains.iter().map(|d| show_list(d)).collect::<Vec<_>>().join(" "),
        }
    }

    #[test]
    fn every_rank_gets_its_share() {
        assert_eq!(given(2, 2, &[]), "0 1");
        assert_eq!(given(2, 8, &[]), "0-3 4-7");
        assert_eq!(given(3, 4, &[]), "0-1 2 3");
        assert_eq!(given(1, 8, &[]), "none", "its share is everything");
        assert_eq!(given(3, 2, &[]), "none");
    }

    #[test]
    fn what_is_busy_comes_last() {
        assert_eq!(given(2, 4, &[0, 1]), "0,2 1,3", "one idle core each");
        assert_eq!(given(2, 4, &[0]), "0-2 3");
        assert_eq!(given(2, 2, &[0]), "1 0");
        assert_eq!(given(2, 8, &[0, 1, 2]), "0-1,3-5 2,6-7");
        assert_eq!(given(2, 2, &[0, 1]), "0 1", "nothing is quieter than the rest");
        // A job of two ranks bound to half of four cores each holds half of each of them.
        let half = |_| 0.5;
        assert!(domains(2, 2, 4, 1, &machine(4), half).is_some());
    }

    #[test]
    fn nothing_is_bound_where_cores_are_scarce() {
        let all = |ranks, processes, quota, threads| {
            domains(ranks, processes, quota, threads, &machine(8), |_| 0.0).is_some()
        };
        assert!(all(2, 2, 8, 4));
        assert!(!all(2, 2, 8, 5), "more threads than a share has cores");
        assert!(!all(8, 9, 8, 1), "a service needs a core too");
        assert!(!all(4, 4, 2, 1), "a quota of two cores");
        assert!(all(2, 2, 2, 1));
    }

    #[test]
    fn variables_say_how_many_threads() {
        let of = |pairs: &[(&str, &str)]| {
            threads_wanted(&pairs.iter().map(|(n, v)| (n.into(), v.into())).collect())
        };
        assert_eq!(of(&[]), 1);
        assert_eq!(of(&[("OMP_NUM_THREADS", "4,2"), ("MKL_NUM_THREADS", "2")]), 4);
        assert_eq!(of(&[("OMP_NUM_THREADS", "many")]), 1);
    }

    proptest! {
        #[test]
        fn domains_are_disjoint_and_everything_is_given_out(
            ranks in 2usize..12, cores in 2usize..40, busy in proptest::collection::btree_set(0usize..40, 0..20))
        {
            let load = |cpu| if busy.contains(&cpu) { 1.0 } else { 0.0 };
            match domains(ranks, ranks, cores, 1, &machine(cores), load) {
                None => prop_assert!(ranks > cores),
                Some(domains) => {
                    prop_assert_eq!(domains.len(), ranks);
                    let mut all: Vec<usize> = domains.concat();
                    all.sort_unstable();
                    prop_assert_eq!(all, (0..cores).collect::<Vec<_>>());
                    let idle = |d: &Vec<usize>| d.iter().filter(|cpu| !busy.contains(cpu)).count();
                    let in_all: usize = domains.iter().map(idle).sum();
                    // Who shares a core does so only where there is not one for each.
                    prop_assert!(in_all < ranks || domains.iter().all(|d| idle(d) > 0));
                }
            }
        }
    }
}
