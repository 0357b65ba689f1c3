//! Joins the job it is started in, puts a value, and prints who is where and what the others put. For trying launchers:
//!
//! ```text
//! cargo build -p farpost-job --example show
//! mpiexec.hydra -n 4 target/debug/examples/show [late SECONDS RANK | abort CODE RANK | quiet]
//! ```
//!
//! `late`: the rank joins some seconds after the others. `abort`: it aborts the job. `quiet`: only rank 0 prints.

use farpost_job::{Job, RankState};

fn main() {
    if let Err(error) = show() {
        // In one piece: a launcher that ends the job may cut off what comes later.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("show: {error}\n").as_bytes());
        farpost_job::abandon(1);
        std::process::exit(1);
    }
}

/// As large as what a fabric publishes about itself may be.
fn card(rank: u32) -> Vec<u8> {
    (0..700u32).map(|i| (i * 7 + rank) as u8).collect()
}

fn show() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mode = arguments.first().map_or("", String::as_str);
    let number = |i: usize| arguments.get(i).and_then(|a| a.parse::<u32>().ok()).unwrap_or(0);
    let begun = std::time::Instant::now();
    let mut opening = Job::begin(&|name: &str| std::env::var(name).ok())?;
    if mode == "late" && opening.rank() == number(2) {
        std::thread::sleep(std::time::Duration::from_secs(number(1).into()));
    }
    let told = opening.hosts_known().is_some();
    opening.put("card", &card(opening.rank()))?;
    let job = opening.finish()?;
    let joined = begun.elapsed();
    job.set_state(RankState::Initialised);
    if mode == "abort" && job.rank() == number(2) {
        job.abort(number(1) as i32, "as asked");
    }
    for rank in 0..job.size() {
        let got = job
            .get_from(rank, "card")?
            .ok_or(format!("rank {rank} put no card"))?;
        if got != card(rank) {
            return Err(format!(
                "rank {rank} put a card of {} bytes that came back changed",
                got.len()
            )
            .into());
        }
    }
    job.put("secret", &job.secret()[..8])?;
    job.fence()?;
    for rank in 0..job.size() {
        if job.get_from(rank, "secret")?.as_deref() != Some(&job.secret()[..8]) {
            return Err(format!("rank {rank} has another secret").into());
        }
    }
    let local: Vec<_> = job.local_ranks().iter().map(|r| job.pid(*r)).collect();
    if local.iter().any(|pid| matches!(pid, None | Some(0))) {
        return Err(format!("processes of this host: {local:?}").into());
    }
    if mode != "quiet" || job.rank() == 0 {
        let hosts: Vec<String> = (0..job.size())
            .map(|rank| Ok(format!("{rank}@{}", job.host_name_of(rank)?)))
            .collect::<Result<_, farpost_job::JobError>>()?;
        println!(
            "rank {} of {} by {:?}{}: {} on {} hosts, here {:?}, app {}, {:?}; joined in {} us",
            job.rank(),
            job.size(),
            job.origin(),
            if told { "" } else { " (places not told)" },
            hosts.join(" "),
            job.hosts(),
            job.local_ranks(),
            job.appnum(),
            job.placement(),
            joined.as_micros()
        );
    }
    job.fence()?;
    job.set_state(RankState::Finalised);
    Ok(())
}
