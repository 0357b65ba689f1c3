//! Attaching, in each of the ways a process can be started.

use super::*;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;

fn attach(vars: &[(&str, String)]) -> Result<Job, JobError> {
    let map: HashMap<String, String> = vars.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
    Job::attach(&|name| map.get(name).cloned())
}

fn memory(size: u32) -> JobMemory {
    let launcher = std::process::id();
    JobMemory::create(&NewJob {
        size,
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
    ] {
        let text = attach(&vars).unwrap_err().to_string();
        assert!(text.contains(name) && !text.contains('\n'), "{name}: {text}");
    }
}

/// A PMI-1 server for `size` ranks, each a thread of this process.
fn pmi_job<T: Send + 'static>(size: u32, rank_main: fn(Job) -> T) -> Vec<Result<T, String>> {
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
                        "get_maxes" => "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024".into(),
                        "get_my_kvsname" => "cmd=my_kvsname kvsname=k".into(),
                        "get_appnum" => "cmd=appnum appnum=0".into(),
                        "put" => {
                            kvs.lock().unwrap().insert(word("key"), word("value"));
                            "cmd=put_result rc=0 msg=success".into()
                        }
                        "get" => format!("cmd=get_result rc=0 value={}", kvs.lock().unwrap()[&word("key")]),
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
                attach(&[
                    ("PMI_FD", fd),
                    ("PMI_RANK", rank.to_string()),
                    ("PMI_SIZE", size.to_string()),
                ])
                .map(rank_main)
                .map_err(|e| e.to_string())
            })
        })
        .collect();
    ranks.into_iter().map(|r| r.join().unwrap()).collect()
}

#[test]
fn under_pmi_1() {
    let seen = pmi_job(3, |job| {
        assert_eq!(job.origin(), Origin::Pmi1);
        job.put("who", &[job.rank() as u8]).unwrap();
        job.fence().unwrap();
        let all: Vec<u8> = (0..3)
            .map(|r| job.get_from(r, "who").unwrap().unwrap()[0])
            .collect();
        job.fence().unwrap();
        job.set_state(RankState::Finalised);
        (job.rank(), all)
    });
    for (rank, got) in seen.into_iter().enumerate() {
        assert_eq!(got.unwrap(), (rank as u32, vec![0, 1, 2]));
    }
}

#[test]
fn abort_codes_stay_nonzero() {
    assert_eq!(
        [0, 1, 7, 255, 256, 512, 257, -1, i32::MIN].map(exit_status),
        [0, 1, 7, 255, 1, 1, 1, 255, 1]
    );
}
