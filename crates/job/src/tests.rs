//! Attaching, in each of the ways a process can be started.

use super::*;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;

fn attach(vars: &[(&str, String)]) -> Result<Job, JobError> {
    let map: HashMap<String, String> = vars.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
    Job::attach(&|name| map.get(name).cloned())
}

fn memory(size: u32) -> JobMemory {
    let launcher = std::process::id();
    JobMemory::create(&NewJob {
        size,
        services: 0,
        launcher,
        allowed_cores: 3,
        bound: true,
    })
    .unwrap()
}

fn inherited(m: &JobMemory) -> String {
    m.fd().try_clone_to_owned().unwrap().into_raw_fd().to_string()
}

#[test]
fn alone() {
    let job = attach(&[]).unwrap();
    assert_eq!(
        (job.rank(), job.size(), job.universe_size(), job.appnum()),
        (0, 1, 1, 0)
    );
    assert_eq!(job.origin(), Origin::Alone);
    assert_eq!(job.local_ranks(), [0]);
    job.put("k", b"v").unwrap();
    job.fence().unwrap();
    assert_eq!(job.get("k").unwrap().unwrap(), b"v");
    assert_eq!((job.hosts(), job.host_map(), job.host_of(0)), (1, &[0][..], 0));
    assert_eq!(job.host_name_of(0).unwrap(), host_name());
    let region = job.host_memory();
    assert_eq!(region.region_len, 2 << 20);
    assert_eq!(region.region_offset % 4096, 0);
}

#[test]
fn under_the_launcher() {
    let m = memory(2);
    m.set_appnum(1, 4);
    let vars = [(JOB_FD, inherited(&m)), (RANK, "1".into()), (JOB_ID, m.id())];
    let job = attach(&vars).unwrap();
    assert_eq!((job.rank(), job.size(), job.appnum()), (1, 2, 4));
    assert_eq!(
        job.placement(),
        Placement {
            ranks_on_host: 2,
            allowed_cores: 3,
            bound: true
        }
    );
    job.set_state(RankState::Initialised);
    assert_eq!(m.state(1), RankState::Initialised);
    assert_eq!(m.pid(1), std::process::id());
    assert_eq!(
        (job.state(1), job.pid(0)),
        (Some(RankState::Initialised), Some(0))
    );
    // What a rank puts while it joins needs no fence: whoever asks waits for it.
    let other = m.fd().try_clone_to_owned().unwrap();
    let id = m.id();
    let late = std::thread::spawn(move || {
        let vars = [
            (JOB_FD, other.into_raw_fd().to_string()),
            (RANK, "0".into()),
            (JOB_ID, id),
        ];
        let map: HashMap<&str, String> = vars.into_iter().collect();
        let mut opening = Job::begin(&|name| map.get(name).cloned()).unwrap();
        assert_eq!(opening.hosts_known(), Some(vec![0, 0]));
        opening.put("card", b"zero").unwrap();
        opening.finish().unwrap().secret()
    });
    assert_eq!(job.get_from(0, "card").unwrap().unwrap(), b"zero");
    assert_eq!(late.join().unwrap(), job.secret());
}

#[test]
fn a_closed_descriptor_is_found_again_at_the_launcher() {
    let m = memory(1);
    let job = attach(&[(JOB_FD, "999".into()), (RANK, "0".into()), (JOB_ID, m.id())]).unwrap();
    assert_eq!(job.origin(), Origin::Launcher);
    // Without the identity, or with another job's, it is an error.
    assert!(attach(&[(JOB_FD, "999".into()), (RANK, "0".into())]).is_err());
    let other = m
        .id()
        .chars()
        .map(|c| if c == 'a' { 'b' } else { c })
        .collect::<String>()
        + "0";
    assert!(attach(&[(JOB_FD, "999".into()), (RANK, "0".into()), (JOB_ID, other)]).is_err());
}

#[test]
fn bad_variables_are_refused_by_name() {
    let m = memory(2);
    for (vars, name) in [
        (
            vec![(JOB_FD, "x".to_string()), (RANK, "0".to_string())],
            "FARPOST_JOB_FD=x",
        ),
        (vec![(JOB_FD, inherited(&m))], "FARPOST_RANK="),
        (
            vec![(JOB_FD, inherited(&m)), (RANK, "-1".into())],
            "FARPOST_RANK=-1",
        ),
        (
            vec![(JOB_FD, inherited(&m)), (RANK, "2".into())],
            "FARPOST_RANK=2",
        ),
        (
            vec![
                (JOB_FD, inherited(&m)),
                (RANK, "0".into()),
                (JOB_ID, "1.2".into()),
            ],
            "FARPOST_JOB_ID=1.2",
        ),
        (
            vec![
                ("PMI_FD", "x".into()),
                ("PMI_RANK", "0".into()),
                ("PMI_SIZE", "2".into()),
            ],
            "PMI_FD=x",
        ),
        (
            vec![
                ("PMI_FD", "9".into()),
                ("PMI_RANK", "2".into()),
                ("PMI_SIZE", "2".into()),
            ],
            "PMI_RANK=2",
        ),
        (
            vec![("PMI_FD", "9".into()), ("PMI_SIZE", "2".into())],
            "PMI_RANK=",
        ),
        (
            vec![("PMI_FD", "9".into()), ("PMI_RANK", "0".into())],
            "PMI_SIZE=",
        ),
        // Half of what PMIx launchers say.
        (vec![("PMIX_NAMESPACE", "x".into())], "PMIX_RANK="),
        (vec![("PMIX_RANK", "0".into())], "PMIX_NAMESPACE="),
        (
            vec![("FARPOST_START_TIMEOUT", "no".into())],
            "FARPOST_START_TIMEOUT=no",
        ),
        (
            vec![(SECRET_FILE, "/nonexistent".into())],
            "FARPOST_SECRET_FILE=/nonexistent",
        ),
    ] {
        let text = attach(&vars).unwrap_err().to_string();
        assert!(text.contains(name) && !text.contains('\n'), "{name}: {text}");
    }
}

type Spoil = fn(&str, String) -> String;

/// How a scripted PMI-1 server differs from the usual.
#[derive(Clone, Copy)]
struct Server {
    mapping: Option<&'static str>,
    value_max: usize,
    /// Changes what is stored under a key.
    spoil: Spoil,
    /// The rank that gets no answer at the fence.
    silent: Option<u32>,
}

const SERVER: Server = Server {
    mapping: None,
    value_max: 1024,
    spoil: |_, value| value,
    silent: None,
};

/// A PMI-1 server for `size` ranks, each a thread of this process.
fn pmi_job<T: Send + 'static>(
    size: u32,
    server: Server,
    vars: &'static [(&'static str, &'static str)],
    rank_main: fn(Job) -> T,
) -> Vec<Result<T, String>> {
    let kvs = std::sync::Arc::new(Mutex::new(HashMap::<String, String>::new()));
    let barrier = std::sync::Arc::new(std::sync::Barrier::new(size as usize));
    let ranks: Vec<_> = (0..size)
        .map(|rank| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let (kvs, barrier) = (kvs.clone(), barrier.clone());
            std::thread::spawn(move || {
                let out = theirs.try_clone().unwrap();
                for line in BufReader::new(theirs).lines() {
                    let line = line.unwrap();
                    let word = |n: &str| {
                        line.split(' ')
                            .find_map(|w| w.strip_prefix(n)?.strip_prefix('='))
                            .unwrap()
                            .to_owned()
                    };
                    let answer = match word("cmd").as_str() {
                        "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".into(),
                        "get_maxes" => {
                            format!(
                                "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max={}",
                                server.value_max
                            )
                        }
                        "get_my_kvsname" => "cmd=my_kvsname kvsname=k".into(),
                        "get_appnum" => "cmd=appnum appnum=0".into(),
                        "put" => {
                            let key = word("key");
                            let value = (server.spoil)(&key, word("value"));
                            assert!(kvs.lock().unwrap().insert(key, value).is_none());
                            "cmd=put_result rc=0 msg=success".into()
                        }
                        "get" => {
                            let key = word("key");
                            let kvs = kvs.lock().unwrap();
                            match (key.as_str(), server.mapping, kvs.get(&key)) {
                                ("PMI_process_mapping", Some(value), _) => {
                                    format!("cmd=get_result rc=0 value={value}")
                                }
                                (_, _, Some(value)) => format!("cmd=get_result rc=0 value={value}"),
                                _ => "cmd=get_result rc=-1 msg=no such key".into(),
                            }
                        }
                        "barrier_in" if server.silent == Some(rank) => continue,
                        "barrier_in" => {
                            barrier.wait();
                            "cmd=barrier_out".into()
                        }
                        "finalize" => "cmd=finalize_ack".to_string(),
                        _ => break,
                    };
                    writeln!(&out, "{answer}").unwrap();
                }
            });
            std::thread::spawn(move || {
                let fd = ours.into_raw_fd().to_string();
                let mut all = vec![
                    ("PMI_FD", fd),
                    ("PMI_RANK", rank.to_string()),
                    ("PMI_SIZE", size.to_string()),
                ];
                all.extend(vars.iter().map(|(name, value)| (*name, value.to_string())));
                let map: HashMap<&str, String> = all.into_iter().collect();
                let join = || {
                    let mut opening = Job::begin(&|name| map.get(name).cloned())?;
                    assert_eq!((opening.rank(), opening.size()), (rank, size));
                    opening.put("early", &[rank as u8; 1024])?;
                    opening.finish()
                };
                join().map(rank_main).map_err(|e| e.to_string())
            })
        })
        .collect();
    ranks.into_iter().map(|r| r.join().unwrap()).collect()
}

fn exchange(job: Job) -> (u32, u32, Vec<u32>, Secret) {
    assert_eq!(job.origin(), Origin::Pmi1);
    job.put("who", &[job.rank() as u8]).unwrap();
    job.fence().unwrap();
    for rank in 0..job.size() {
        assert_eq!(job.get_from(rank, "who").unwrap().unwrap(), [rank as u8]);
        assert_eq!(job.get_from(rank, "early").unwrap().unwrap(), [rank as u8; 1024]);
        assert_eq!(job.get_from(rank, "nothing").unwrap(), None);
        assert_eq!(job.host_name_of(rank).unwrap().replace('/', "_"), host_name());
        assert_eq!(job.pid(rank).is_some(), job.is_local(rank));
        assert_eq!(job.state(rank).is_some(), job.is_local(rank));
    }
    let region = job.host_memory();
    assert_eq!((region.local_index, region.ranks), (job.rank(), job.size()));
    assert_eq!(job.placement().ranks_on_host as usize, job.local_ranks().len());
    job.fence().unwrap();
    job.set_state(RankState::Finalised);
    (job.rank(), job.hosts(), job.local_ranks(), job.secret())
}

#[test]
fn under_pmi_1() {
    let single = [0u32, 1, 2, 3];
    for (mapping, value_max, hosts, local) in [
        (None, 1024, 1, [&single[..]; 4]),
        (Some("(vector,(0,1,4))"), 1024, 1, [&single; 4]),
        (
            Some("(vector,(0,2,2))"),
            1024,
            2,
            [&[0, 1], &[0, 1], &[2, 3], &[2, 3]],
        ),
        (
            Some("(vector,(0,2,1))"),
            128,
            2,
            [&[0, 2], &[1, 3], &[0, 2], &[1, 3]],
        ),
        (Some("(vector,(0,4,1))"), 4096, 4, [&[0], &[1], &[2], &[3]]),
    ] {
        let server = Server {
            mapping,
            value_max,
            ..SERVER
        };
        let seen: Vec<_> = pmi_job(4, server, &[], exchange)
            .into_iter()
            .map(|s| s.unwrap())
            .collect();
        for (rank, (r, h, l, secret)) in seen.iter().enumerate() {
            assert_eq!((*r, *h, &l[..]), (rank as u32, hosts, local[rank]));
            assert_eq!(secret, &seen[0].3);
        }
    }
}

#[test]
fn slurm_says_of_ranks_on_a_list_of_hosts_that_each_is_alone() {
    let server = Server {
        mapping: Some("(vector,(0,4,1))"),
        ..SERVER
    };
    let listed: &[_] = &[("SLURM_DISTRIBUTION", "arbitrary")];
    for (vars, hosts) in [(listed, 1), (&[("SLURM_DISTRIBUTION", "cyclic")], 4)] {
        for seen in pmi_job(4, server, vars, exchange) {
            assert_eq!(seen.unwrap().1, hosts);
        }
    }
}

#[test]
fn ranks_that_cannot_share_a_host_are_told_why() {
    fn change(value: String, from: &str, to: &str) -> String {
        let bytes = channel::text::decode(value.split_once(':').unwrap().1).unwrap();
        let card = String::from_utf8(bytes).unwrap();
        assert!(card.contains(from), "{card}");
        let text = channel::text::encode(card.replacen(from, to, 1).as_bytes());
        format!("{}:{text}", text.len())
    }
    let cases: [(Spoil, &str); 3] = [
        (
            |key, value| match key {
                "fp-0-host" => change(value, &format!("/{}/", host_name()), "/elsewhere/"),
                _ => value,
            },
            "elsewhere",
        ),
        (
            |key, value| match key {
                "fp-0-host" => change(value, &format!("1/{}/", env!("CARGO_PKG_VERSION")), "1/0.0.1/"),
                _ => value,
            },
            "Farpost 0.0.1",
        ),
        (
            |key, value| match key {
                "fp-0-host" => "5:AAAAA".into(),
                _ => value,
            },
            "rank 0",
        ),
    ];
    for (spoil, why) in cases {
        let server = Server {
            mapping: Some("(vector,(0,1,2))"),
            spoil,
            ..SERVER
        };
        let seen = pmi_job(2, server, &[], |job| job.rank());
        assert_eq!(seen[0], Ok(0));
        let text = seen[1].as_ref().unwrap_err();
        assert!(text.contains(why) && !text.contains('\n'), "{text}");
    }
}

#[test]
fn a_malformed_process_mapping_is_refused() {
    let server = Server {
        mapping: Some("(vector,(0,x,2))"),
        ..SERVER
    };
    for seen in pmi_job(2, server, &[], |job| job.rank()) {
        let text = seen.unwrap_err();
        assert!(text.contains("process mapping"), "{text}");
    }
}

#[test]
fn a_fence_that_does_not_end_is_reported() {
    let server = Server {
        silent: Some(0),
        ..SERVER
    };
    let seen = pmi_job(2, server, &[("FARPOST_START_TIMEOUT", "1")], |job| job.rank());
    for seen in seen {
        let text = seen.unwrap_err();
        assert!(
            text.contains("fence") && text.contains(&host_name()) && text.contains("since "),
            "{text}"
        );
    }
}

#[test]
fn ranks_that_are_elsewhere_cost_no_memory() {
    let m = memory(layout::MAX_RANKS);
    let vars = [(JOB_FD, inherited(&m)), (RANK, "9999".into()), (JOB_ID, m.id())];
    let map: HashMap<&str, String> = vars.into_iter().collect();
    let mut opening = Job::begin(&|name| map.get(name).cloned()).unwrap();
    opening.put("card", &[1; 700]).unwrap();
    let job = opening.finish().unwrap();
    job.set_state(RankState::Initialised);
    assert_eq!(job.get_from(9999, "card").unwrap().unwrap(), [1; 700]);
    let file = std::fs::File::from(m.fd().try_clone_to_owned().unwrap());
    let about = file.metadata().unwrap();
    let (len, used) = (about.len(), std::os::unix::fs::MetadataExt::blocks(&about) * 512);
    assert!(len > 16 << 30 && used < 1 << 20, "{used} of {len} bytes are used");
}

#[test]
fn abort_codes_stay_nonzero() {
    assert_eq!(
        [0, 1, 7, 255, 256, 512, 257, -1, i32::MIN].map(exit_status),
        [0, 1, 7, 255, 1, 1, 1, 255, 1]
    );
}
