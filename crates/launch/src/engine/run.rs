//! Running another launcher: it is watched like a rank of a job of one, so that signals, time limits and deaths on either side
//! end everything.

use super::job::{Agents, Command, Engine, EngineKind, Job};
use super::{hydra, prterun, srun};
use crate::environment::c_pair;
use crate::options::{Options, Stdin};
use crate::plan::{PlannedJob, PreparedApp};
use crate::refusal::Refusal;
use crate::spawn::Strings;
use crate::{front, hosts, program};
use std::ffi::{CString, OsStr};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Hand the job to `engine` and return mpiexec's exit code.
///
/// # Errors
/// A host or a program does not exist, or the launcher cannot do what is asked.
pub fn start(mut options: Options, engine: &Engine) -> Result<i32, Refusal> {
    own_name_for_loopback(&mut options);
    names_for_addresses(&mut options);
    let named = options.apps.iter().flat_map(|a| &a.hosts);
    let here = named.clone().count() == 0 || named.clone().any(|h| hosts::is_here(&h.name));
    let own: Vec<_> = std::env::vars_os().collect();
    let agents = Agents::wanted(&options, own.iter().cloned(), crate::agents::app)?;
    let job = Job::new(&options, agents.as_ref(), own.into_iter(), here)?;
    check_hosts(&job, engine)?;
    let command = match engine.kind {
        EngineKind::Srun => srun::command(engine, &job)?,
        EngineKind::Prterun => prterun::command(engine, &job),
        EngineKind::Hydra => hydra::command(engine, &job)?,
    };
    for warning in &command.warnings {
        eprintln!("mpiexec: {warning}");
    }
    if !options.quiet {
        eprintln!("mpiexec: {}", sentence(&job, engine));
    }
    if options.verbose {
        let words: Vec<_> = command.args.iter().map(|a| a.to_string_lossy()).collect();
        eprintln!("mpiexec: {}", words.join(" "));
    }
    let prepared = prepare(&command, engine)?;
    // What the launcher does itself is not done here again.
    let run = Options {
        stdin: match options.stdin {
            Stdin::Nobody => Stdin::Nobody,
            _ => Stdin::Rank(0),
        },
        merge: options.merge,
        timeout: options.timeout,
        waits_signal: options.waits_signal,
        quiet: options.quiet,
        verbose: options.verbose,
        ..Options::default()
    };
    let planned = PlannedJob {
        apps: vec![prepared],
        app_of: vec![0],
        roles: farpost_job::Roles::default(),
        cpus: vec![Vec::new()],
        own_cores: false,
        bound_by_default: false,
        host: farpost_job::host_name(),
        engine: Some(engine.kind.program()),
    };
    let code = front::launch(run, planned)?;
    // Hydra names a process and its host at best, and nothing when a whole host is gone.
    if code != 0 && engine.kind == EngineKind::Hydra && !options.quiet && job.hosts().len() > 1 {
        eprintln!(
            "mpiexec: {} exited with code {code}; {}",
            engine.kind.program(),
            places(&job)
        );
    }
    Ok(code)
    // The command's files stay open until here.
}

fn no_address(host: &str, kind: EngineKind) -> Refusal {
    refusal!(
        usage: "host {host}: {} does not take IPv6 addresses, and no name belongs to this one; give it a name, in /etc/hosts if need be",
        kind.program()
    )
}

/// Which ranks were where.
fn places(job: &Job<'_>) -> String {
    const SHOWN: usize = 8;
    let blocks: Vec<_> = job.programs().iter().flat_map(|p| &p.blocks).collect();
    let mut first = 0;
    let mut text = Vec::new();
    for block in &blocks {
        let last = first + block.ranks.saturating_sub(1);
        text.push(match block.ranks {
            1 => format!("rank {first} was on host {}", block.host),
            _ => format!("ranks {first} to {last} were on host {}", block.host),
        });
        first += block.ranks;
    }
    let more = text.len().saturating_sub(SHOWN);
    text.truncate(SHOWN);
    if more > 0 {
        text.push(format!("and so on for {more} more"));
    }
    text.join(", ")
}

/// "localhost" beside other hosts is this host, by a name that those may know.
fn own_name_for_loopback(options: &mut Options) {
    for host in options.apps.iter_mut().flat_map(|a| &mut a.hosts) {
        let loopback = host
            .name
            .parse::<std::net::IpAddr>()
            .is_ok_and(|a| a.is_loopback());
        if loopback || host.name.starts_with("localhost") && hosts::is_here(&host.name) {
            host.name = farpost_job::host_name();
        }
    }
}

/// No launcher takes addresses with colons: the names that belong to them, where there are any.
fn names_for_addresses(options: &mut Options) {
    for host in options.apps.iter_mut().flat_map(|a| &mut a.hosts) {
        if !host.name.contains(':') {
            continue;
        }
        let user = host.name.split_once('@').map(|(user, _)| format!("{user}@"));
        if let Some(name) = hosts::name_of(hosts::without_user(&host.name)) {
            host.name = user.unwrap_or_default() + &name;
        }
    }
}

/// Every host must be known, and there must be a way to it. Slurm knows its own hosts and ways.
fn check_hosts(job: &Job<'_>, engine: &Engine) -> Result<(), Refusal> {
    if engine.kind == EngineKind::Srun {
        return match job.hosts().into_iter().find(|h| h.contains(['@', ':'])) {
            Some(host) if host.contains('@') => refuse!(
                usage: "host {host}: srun starts all ranks as the user who has the allocation; leave the user's name out"
            ),
            Some(host) => Err(no_address(host, engine.kind)),
            None => Ok(()),
        };
    }
    let away: Vec<_> = job.hosts().into_iter().filter(|h| !hosts::is_here(h)).collect();
    for host in &away {
        if host.contains(':') {
            return Err(no_address(host, engine.kind));
        }
        let host = &hosts::without_user(host);
        match (*host, 9).to_socket_addrs() {
            Err(e) => {
                let why = e.to_string();
                let why = why.rsplit(": ").next().unwrap_or_default();
                return refuse!(usage: "host {host}: there is no such host ({why})");
            }
            Ok(addresses) => {
                let addresses: Vec<_> = addresses.collect();
                if let Some(why) = no_route(&addresses) {
                    return refuse!(
                        usage: "host {host}: no network of this host leads to {} ({why}); `ip route` shows where they lead",
                        addresses[0].ip()
                    );
                }
            }
        }
    }
    // Sites may have told the launcher another way.
    let told = [
        "HYDRA_LAUNCHER",
        "PRTE_MCA_plm",
        "OMPI_MCA_plm",
        "SLURM_JOB_ID",
        "PBS_JOBID",
        "LSB_JOBID",
    ];
    let told = job
        .environment
        .keys()
        .any(|n| told.iter().any(|t| n.as_bytes().starts_with(t.as_bytes())));
    if !away.is_empty() && !told {
        let shell = job.options.far.remote_shell.as_deref().unwrap_or("ssh");
        let program = shell.split_whitespace().next().unwrap_or_default();
        let there = match program.contains('/') {
            true => Path::new(program).is_file(),
            false => program::along_path(OsStr::new(program)).is_some(),
        };
        if !there {
            return refuse!(
                system: "host {}: {} reaches other hosts with {program}, which is not installed; install it (on Debian and Ubuntu: \
                 openssh-client), or name another remote shell with --rsh-agent or FARPOST_RSH",
                away[0], engine.kind.program()
            );
        }
    }
    Ok(())
}

/// Why none of these can be reached, as far as this host's own routing table tells: nothing is sent.
fn no_route(addresses: &[SocketAddr]) -> Option<std::io::Error> {
    let mut why = None;
    for address in addresses {
        let any = SocketAddr::new(
            match address {
                SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            },
            0,
        );
        match UdpSocket::bind(any).and_then(|socket| socket.connect(address)) {
            Ok(()) => return None,
            Err(e) => match e.kind() {
                ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => why = Some(e),
                // Nothing that tells of the way.
                _ => return None,
            },
        }
    }
    why
}

/// What is done, in one line.
fn sentence(job: &Job<'_>, engine: &Engine) -> String {
    const SHOWN: usize = 6;
    let ranks = match job.programs().iter().map(|p| p.ranks).sum::<u32>() {
        1 => "1 rank".to_owned(),
        n => format!("{n} ranks"),
    };
    let hosts = job.hosts();
    let on = match hosts.len() {
        0 => String::new(),
        n if n <= SHOWN => format!(" on {}", hosts.join(" ")),
        n => format!(" on {} and {} more hosts", hosts[..SHOWN].join(" "), n - SHOWN),
    };
    let agents = if job.agents { ", with Portals agents" } else { "" };
    format!(
        "{ranks}{on}{agents}, started by {} (-q: do not say so)",
        engine.path.display()
    )
}

fn prepare(command: &Command, engine: &Engine) -> Result<PreparedApp, Refusal> {
    let c = |s: &OsStr| CString::new(s.as_bytes()).map_err(|_| refusal!(usage: "a zero byte in an argument"));
    let file = c(engine.path.as_os_str())?;
    let args = command.args.iter().map(|a| c(a)).collect::<Result<Vec<_>, _>>()?;
    let shell_args = [c"sh".to_owned(), file.clone()]
        .into_iter()
        .chain(args[1..].iter().cloned());
    Ok(PreparedApp {
        file,
        shell_args: Strings::new(shell_args.collect()),
        args: Strings::new(args),
        variables: command.environment.iter().map(|(n, v)| c_pair(n, v)).collect(),
        directory: None,
    })
}
