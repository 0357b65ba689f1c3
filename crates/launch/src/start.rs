//! The guardian starts the processes of a job.

use crate::guardian::{Guardian, Rank};
use crate::options::{Files, Stdin, expand_pattern};
use crate::report::{End, Failure};
use crate::spawn::{self, Start, Strings};
use crate::{cores, environment};
use farpost_job::lifeline::Lifeline;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

impl Guardian<'_> {
    pub(crate) fn start_all(&mut self, errors: OwnedFd, lifeline: &Lifeline) {
        let lifeline = lifeline.path();
        let plan = self.plan;
        // Of files, this process may open as many as any may; the ranks get the limit that was there.
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: limit.maximum,
            ..limit
        };
        let file_limit = setrlimit(Resource::Nofile, raised).is_ok().then_some(limit);
        let null = File::open("/dev/null").ok();
        let size = plan.job.app_of.len() as u32;
        // Another launcher's ranks have a job memory of their own.
        let job_fd = plan.job.engine.is_none().then(|| plan.memory.fd());
        let job_id = plan.memory.id();
        let mut files: HashMap<PathBuf, OwnedFd> = HashMap::new();
        for rank in 0..size {
            let number = plan.job.app_of[rank as usize];
            let app = &plan.job.apps[number as usize];
            plan.memory.set_appnum(rank, number);
            let mut variables = app.variables.clone();
            if let Some(job_fd) = job_fd {
                let ranks = plan.job.ranks() as u32;
                for (name, value) in environment::for_rank(rank, ranks, job_fd.as_raw_fd(), &job_id) {
                    variables.push(environment::c_pair(name.as_ref(), value.as_ref()));
                }
                if plan.job.roles.services() > 0 {
                    let roles = plan.job.roles.to_string();
                    variables.push(environment::c_pair(
                        farpost_job::PROCESSES.as_ref(),
                        roles.as_ref(),
                    ));
                }
            } else {
                let name = farpost_job::HANDED_BY.as_ref();
                variables.push(environment::c_pair(name, job_id.as_ref()));
            }
            let mut writers: Vec<OwnedFd> = Vec::new();
            let stdio = match self.outputs(rank, &mut files, &mut writers) {
                Ok([out, err]) => {
                    let input = plan.stdin[rank as usize].as_ref().map(AsRawFd::as_raw_fd);
                    let input = input
                        .or((!self.reads_directly(rank))
                            .then_some(null.as_ref().map_or(0, |n| n.as_raw_fd())));
                    [input, out, err]
                }
                Err(text) => return self.cannot_start(rank, size, text),
            };
            let cpus = cores::cpu_set(&plan.job.cpus[rank as usize]);
            let env = Strings::new(variables);
            let started = spawn::start(&Start {
                rank,
                file: &app.file,
                args: &app.args,
                shell_args: &app.shell_args,
                env: &env,
                directory: app.directory.as_deref(),
                stdio,
                job_fd,
                lifeline: &lifeline,
                cpus: cpus.as_ref(),
                session: plan.job.own_cores,
                errors: errors.as_fd(),
                default_signals: &plan.default_signals,
                mask: &plan.mask,
                file_limit: file_limit.as_ref(),
            });
            match started {
                Ok(pid) => {
                    plan.memory.started(rank, pid.as_raw_pid() as u32, number);
                    self.by_pid.insert(pid, rank);
                    self.ranks.push(Rank {
                        pid: Some(pid),
                        end: None,
                    });
                    if plan.options.verbose {
                        let file = app.file.to_string_lossy().into_owned();
                        self.say(&match plan.job.engine {
                            Some(engine) => format!("{engine} is process {pid}"),
                            None => format!("{} is process {pid}: {file}", plan.job.name(rank)),
                        });
                    }
                }
                Err(e) => return self.cannot_start(rank, size, format!("could not start a process: {e}")),
            }
        }
    }

    /// Rank `rank` reads mpiexec's own standard input.
    fn reads_directly(&self, rank: u32) -> bool {
        matches!(self.plan.options.stdin, Stdin::Rank(r) if r == rank)
            && self.plan.stdin[rank as usize].is_none()
    }

    fn cannot_start(&mut self, rank: u32, size: u32, text: String) {
        for _ in self.ranks.len()..size as usize {
            self.ranks.push(Rank {
                pid: None,
                end: Some(End::Exit(0)),
            });
        }
        self.fail(Failure {
            rank,
            what: text,
            code: 1,
            ends_job: true,
            weight: 0,
        });
    }

    /// Where descriptors 1 and 2 of a rank go; `None`: mpiexec's own. Reading ends become streams, writing ends
    /// are left in `writers` until the process is started.
    fn outputs(
        &mut self,
        rank: u32,
        files: &mut HashMap<PathBuf, OwnedFd>,
        writers: &mut Vec<OwnedFd>,
    ) -> Result<[Option<RawFd>; 2], String> {
        let options = &self.plan.options;
        let service = self.plan.job.is_service(rank).then_some("portals agent");
        let mut targets = [None, None];
        match options.files.as_ref().filter(|_| service.is_none()) {
            Some(Files::Directory(directory)) => {
                let directory = directory.join(format!("rank.{rank}"));
                std::fs::create_dir_all(&directory)
                    .map_err(|e| format!("could not make directory {}: {e}", directory.display()))?;
                targets = [Some(directory.join("stdout")), Some(directory.join("stderr"))];
            }
            Some(Files::Patterns(out, err)) => {
                let name = |p: &OsString| expand_pattern(p, rank, &self.plan.job.host);
                targets = [out.as_ref().map(name), err.as_ref().map(name)];
            }
            None => {}
        }
        // A job of one writes where mpiexec would: no copy, and a terminal stays one.
        let direct = self.plan.job.ranks() == 1 && options.marks.none() && service.is_none();
        let mut fds = [None, None];
        for (i, target) in targets.into_iter().enumerate() {
            if i == 1 && options.merge {
                fds[1] = Some(fds[0].unwrap_or(1));
                continue;
            }
            if let Some(path) = target {
                if !files.contains_key(&path) {
                    let file = OpenOptions::new()
                        .create(true)
                        .write(true)
                        .truncate(true)
                        .open(&path)
                        .and_then(|_| OpenOptions::new().append(true).open(&path));
                    let file = file.map_err(|e| format!("could not open {}: {e}", path.display()))?;
                    files.insert(path.clone(), file.into());
                }
                fds[i] = Some(files[&path].as_raw_fd());
            } else if !direct {
                let writer = self
                    .io
                    .open(rank, i, service)
                    .map_err(|e| format!("could not make a pipe for its output: {e}"))?;
                fds[i] = Some(writer.as_raw_fd());
                writers.push(writer);
            }
        }
        Ok(fds)
    }
}
