//! Runs programs, and makes short what fails.

use crate::backends::{Backend, draw};
use farpost_generate::{Limits, Plan, c, generate};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What is to be done.
pub struct Options {
    pub compiler: PathBuf,
    pub backends: Vec<Backend>,
    /// Numbers of ranks to draw from.
    pub ranks: Vec<usize>,
    pub seed: u64,
    /// Programs to make, and time to go on making: whichever ends first.
    pub programs: u64,
    pub time: Duration,
    /// Programs of one file.
    pub batch: u64,
    /// Each file runs so often on each way: once as the library is, then with limits drawn.
    pub rounds: u64,
    /// Seconds that one program may take.
    pub seconds: u32,
    /// Where files, findings and the state go.
    pub out: PathBuf,
    /// Goes on where it was: the next seed is kept in `out`.
    pub resume: bool,
    /// Names of the library's settings, as `farpost info --tunables` prints them.
    pub known: String,
    /// Without what other libraries get wrong.
    pub for_others: bool,
    /// Runs that may be spent on making one finding short.
    pub shrink: usize,
    /// Runs this C program instead of programs of seeds.
    pub file: Option<PathBuf>,
}

/// How long a job that was asked to end may take: mpiexec prints its roll-call meanwhile.
const GRACE: Duration = Duration::from_secs(20);

/// How a job ended.
enum End {
    Right,
    /// The seed of the program that failed, where one can be named, and what was said.
    Wrong {
        seed: Option<u64>,
        text: String,
    },
}

#[derive(Default)]
struct Count {
    programs: u64,
    jobs: u64,
    findings: u64,
}

struct Batch {
    file: PathBuf,
    seeds: std::ops::Range<u64>,
    ranks: usize,
    compiler: Child,
}

pub struct Driver {
    options: Options,
    rng: fastrand::Rng,
    counts: BTreeMap<String, Count>,
    /// Sentences of findings without their numbers, and how often each was seen.
    seen: BTreeMap<String, u64>,
    began: Instant,
    told: Instant,
    programs: u64,
}

impl Driver {
    pub fn new(options: Options) -> Self {
        let now = Instant::now();
        let mut driver = Self {
            rng: fastrand::Rng::with_seed(options.seed),
            options,
            counts: BTreeMap::new(),
            seen: BTreeMap::new(),
            began: now,
            told: now,
            programs: 0,
        };
        if driver.options.resume
            && let Ok(state) = fs::read_to_string(driver.state())
            && let Some(next) = state
                .lines()
                .find_map(|line| line.strip_prefix("next ")?.parse().ok())
        {
            driver.options.seed = next;
            driver.rng = fastrand::Rng::with_seed(next);
        }
        driver
    }

    fn limits(&self, ranks: usize) -> Limits {
        Limits {
            for_others: self.options.for_others,
            ..Limits::of(ranks)
        }
    }

    fn state(&self) -> PathBuf {
        self.options.out.join("state")
    }

    /// Make programs and run them. False: something was found.
    pub fn run(&mut self) -> Result<bool, String> {
        fs::create_dir_all(&self.options.out).map_err(|e| format!("{}: {e}", self.options.out.display()))?;
        println!("seeds from {} on", self.options.seed);
        let mut ready = Some(self.compile(0)?);
        let mut number = 1;
        while let Some(mut batch) = ready.take() {
            let done = batch.compiler.wait().map_err(|e| e.to_string())?;
            // The next file is compiled while this one runs.
            if self.goes_on() {
                ready = Some(self.compile(number % 2)?);
                number += 1;
            }
            if !done.success() {
                return Err(format!("{} does not compile", batch.file.display()));
            }
            self.run_batch(&batch);
            self.remember(batch.seeds.end)?;
            if ready.is_some() && self.began.elapsed() >= self.options.time {
                // What is being compiled is left.
                if let Some(batch) = &mut ready {
                    let _ = batch.compiler.kill();
                    let _ = batch.compiler.wait();
                }
                break;
            }
        }
        println!("{}", self.line());
        for (what, often) in &self.seen {
            println!("{often} times: {what}");
        }
        Ok(self.seen.is_empty())
    }

    /// Run a program that is there already, as often as rounds are wanted on each way. The driver alone looks at the time. False:
    /// something was found.
    pub fn run_file(&mut self, source: &Path) -> Result<bool, String> {
        let text = fs::read_to_string(source).map_err(|e| format!("{}: {e}", source.display()))?;
        let file = self.options.out.join("file");
        let mut compiler = self.start_compiler(&file, &text)?;
        if !compiler.wait().is_ok_and(|status| status.success()) {
            return Err(format!("{} does not compile", source.display()));
        }
        for round in 0..self.options.rounds {
            for backend in self.options.backends.clone() {
                let ranks = self.options.ranks[self.rng.usize(0..self.options.ranks.len())];
                let settings = match backend.foreign || round == 0 {
                    true => Vec::new(),
                    false => draw(&mut self.rng, &self.options.known),
                };
                let longest = Duration::from_secs(u64::from(self.options.seconds));
                let child = backend.command(ranks, &settings, None, &file);
                let (code, text) = self.ended(child, &backend, longest)?;
                if code == Some(0) {
                    continue;
                }
                let name = format!("{}-{ranks}-file", backend.name);
                let sentence = backend.sentence(ranks, &settings);
                println!("FOUND {name}: {}\n      {sentence}", how_ended(code));
                let note = self.options.out.join(format!("{name}.txt"));
                fs::write(&note, format!("{sentence}\n{}\n{text}", how_ended(code)))
                    .map_err(|e| format!("{}: {e}", note.display()))?;
                *self.seen.entry(how_ended(code)).or_default() += 1;
            }
        }
        Ok(self.seen.is_empty())
    }

    fn goes_on(&self) -> bool {
        self.programs < self.options.programs && self.began.elapsed() < self.options.time
    }

    fn compile(&mut self, slot: u64) -> Result<Batch, String> {
        let ranks = self.options.ranks[self.rng.usize(0..self.options.ranks.len())];
        let batch = self
            .options
            .batch
            .min(self.options.programs - self.programs)
            .max(1);
        let first = self.options.seed + self.programs;
        let seeds = first..first + batch;
        self.programs += batch;
        let file = self.options.out.join(format!("batch{slot}"));
        let programs: Vec<_> = seeds
            .clone()
            .map(|seed| generate(seed, self.limits(ranks)).lower())
            .collect();
        let compiler = self.start_compiler(&file, &c::write_file(&programs, ""))?;
        Ok(Batch {
            file,
            seeds,
            ranks,
            compiler,
        })
    }

    fn start_compiler(&self, file: &Path, source: &str) -> Result<Child, String> {
        let name = file.with_extension("c");
        fs::write(&name, source).map_err(|e| format!("{}: {e}", name.display()))?;
        Command::new(&self.options.compiler)
            .args(["-w", "-O0", "-o"])
            .arg(file)
            .arg(&name)
            .arg("-lpthread")
            .spawn()
            .map_err(|e| format!("{}: {e}", self.options.compiler.display()))
    }

    fn run_batch(&mut self, batch: &Batch) {
        for round in 0..self.options.rounds {
            for at in 0..self.options.backends.len() {
                if self.began.elapsed() > self.options.time + Duration::from_secs(30) {
                    return;
                }
                let backend = self.options.backends[at].clone();
                let settings = if backend.foreign || round == 0 && self.rng.bool() {
                    Vec::new()
                } else {
                    draw(&mut self.rng, &self.options.known)
                };
                let many = batch.seeds.end - batch.seeds.start;
                let end = self.job(&backend, batch.ranks, &settings, &batch.file, None, many as u32);
                let count = self.counts.entry(backend.name.clone()).or_default();
                count.jobs += 1;
                count.programs += many;
                if let End::Wrong { seed, text } = end {
                    self.found(&backend, batch, &settings, seed, &text);
                }
                if self.told.elapsed() > Duration::from_secs(60) {
                    self.told = Instant::now();
                    println!("{}", self.line());
                }
            }
        }
    }

    /// One line of what was done.
    fn line(&self) -> String {
        let minutes = self.began.elapsed().as_secs() / 60;
        let (mut programs, mut findings, mut each) = (0, 0, String::new());
        for (backend, count) in &self.counts {
            programs += count.programs;
            findings += count.findings;
            let _ = write!(each, " {backend} {}", count.programs);
        }
        let next = self.options.seed + self.programs;
        format!("{minutes} min: {programs} programs ran, {findings} failed, next seed {next};{each}")
    }

    fn remember(&self, next: u64) -> Result<(), String> {
        if !self.options.resume {
            return Ok(());
        }
        // Totals over all runs stand in a file of their own, a line a run.
        let name = self.state();
        let part = name.with_extension("part");
        fs::write(&part, format!("next {next}\n{}\n", self.line()))
            .and_then(|()| fs::rename(&part, &name))
            .map_err(|e| format!("{}: {e}", name.display()))
    }

    /// Run one job to its end, which comes.
    fn job(
        &self,
        backend: &Backend,
        ranks: usize,
        settings: &[(String, String)],
        file: &Path,
        only: Option<u64>,
        programs: u32,
    ) -> End {
        // The program's own watchdog rings first, then mpiexec's, then ours.
        let seconds = self.options.seconds * if programs > 1 { 2 } else { 1 } + programs * 2 + 15;
        let mut all = settings.to_vec();
        all.push(("LEGAL_SECONDS".into(), self.options.seconds.to_string()));
        if let Some(seed) = only {
            all.push(("LEGAL_SEED".into(), seed.to_string()));
        }
        let longest = Duration::from_secs(u64::from(seconds) + 15);
        let (code, text) = match self.ended(
            backend.command(ranks, &all, Some(seconds), file),
            backend,
            longest,
        ) {
            Ok(ended) => ended,
            Err(text) => return End::Wrong { seed: None, text },
        };
        if code == Some(0) && text.contains("all right") {
            return End::Right;
        }
        let named = |line: &str| {
            let rest = line.split_once("program ")?.1;
            rest.split(|c: char| !c.is_ascii_digit())
                .next()?
                .parse::<u64>()
                .ok()
        };
        let told = text
            .lines()
            .find(|l| l.starts_with("FAIL program") || l.starts_with("HANG program"))
            .and_then(named);
        let last = text
            .lines()
            .rev()
            .find(|l| l.starts_with("program "))
            .and_then(named);
        End::Wrong {
            seed: told.or(last).or(only),
            text: format!("{}\n{text}", how_ended(code)),
        }
    }

    /// Run a command to its end, which comes: its exit code, if it ended by itself, and what it said.
    fn ended(
        &self,
        mut command: Command,
        backend: &Backend,
        longest: Duration,
    ) -> Result<(Option<i32>, String), String> {
        let log = self.options.out.join("log");
        let files = File::create(&log).and_then(|out| Ok((out.try_clone()?, out)));
        let (out, err) = files.map_err(|e| format!("{}: {e}", log.display()))?;
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
        let mut child = child.map_err(|e| format!("{}: {e}", backend.launch[0]))?;
        let code = wait(&mut child, longest, GRACE);
        let text = fs::read(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        Ok((code, String::from_utf8_lossy(&text).into_owned()))
    }

    fn found(
        &mut self,
        backend: &Backend,
        batch: &Batch,
        settings: &[(String, String)],
        seed: Option<u64>,
        text: &str,
    ) {
        let what = text
            .lines()
            .find(|l| l.starts_with("FAIL") || l.starts_with("HANG"))
            .or_else(|| text.lines().filter(|l| !l.starts_with("program ")).nth(1))
            .unwrap_or("no word")
            .to_string();
        let count = self.counts.entry(backend.name.clone()).or_default();
        count.findings += 1;
        let kind: String = what.chars().filter(|c| !c.is_ascii_digit()).collect();
        let often = self.seen.entry(kind).or_default();
        *often += 1;
        let often = *often;
        let name = format!("{}-{}-{}", backend.name, batch.ranks, seed.unwrap_or(0));
        println!(
            "FOUND {name}: {what}\n      {}",
            backend.sentence(batch.ranks, settings)
        );
        let note = self.options.out.join(format!("{name}.txt"));
        let _ = fs::write(
            &note,
            format!("{}\n{text}", backend.sentence(batch.ranks, settings)),
        );
        let Some(seed) = seed.filter(|_| often <= 2) else {
            return;
        };
        let plan = generate(seed, self.limits(batch.ranks));
        // First alone, as it is.
        let trial = self.options.out.join("trial");
        let mut runs = 0;
        let mut last_words = text.to_string();
        while runs < 4 {
            runs += 1;
            if let Some(words) = self.fails(&plan, backend, settings, &trial) {
                last_words = words;
                break;
            }
            if runs == 4 {
                println!("      not again in {runs} runs alone; see {}", note.display());
                let _ = fs::copy(batch.file.with_extension("c"), note.with_extension("batch.c"));
                return;
            }
        }
        let began = Instant::now();
        let short = plan.shrink(self.options.shrink, |plan| {
            // What fails now and then gets some chances.
            began.elapsed() < Duration::from_secs(600)
                && (0..runs * 2).any(|_| match self.fails(plan, backend, settings, &trial) {
                    Some(words) => {
                        last_words = words;
                        true
                    }
                    None => false,
                })
        });
        let about = format!(
            "Seed {seed} with {} ranks, made short: mpicc this file, then\n{}\n\n{}",
            batch.ranks,
            backend.sentence(batch.ranks, settings),
            last_words
                .lines()
                .filter(|l| !l.starts_with("program "))
                .take(30)
                .collect::<Vec<_>>()
                .join("\n")
        );
        let file = note.with_extension("c");
        let _ = fs::write(&file, c::write_file(&[short.lower()], &about));
        println!(
            "      {} events of {}: {}",
            short.events.len(),
            plan.events.len(),
            file.display()
        );
    }

    /// What is said when this program fails.
    fn fails(
        &self,
        plan: &Plan,
        backend: &Backend,
        settings: &[(String, String)],
        trial: &Path,
    ) -> Option<String> {
        let source = c::write_file(&[plan.lower()], "");
        let compiled = self
            .start_compiler(trial, &source)
            .is_ok_and(|mut c| c.wait().is_ok_and(|s| s.success()));
        if !compiled {
            return None;
        }
        match self.job(backend, plan.ranks, settings, trial, Some(plan.seed), 1) {
            End::Right => None,
            End::Wrong { text, .. } => Some(text),
        }
    }
}

fn how_ended(code: Option<i32>) -> String {
    code.map_or("no end, it was stopped".into(), |code| {
        format!("exit code {code}")
    })
}

/// The exit code of `child`; none if it took longer. Then it is asked to end, so that a launcher can say where its job is and
/// take it along, and killed if that takes longer than `grace`. A launcher that is killed takes its job along as well.
fn wait(child: &mut Child, longest: Duration, grace: Duration) -> Option<i32> {
    if let Some(status) = ends_in(child, longest) {
        return status.code();
    }
    let pid = child.id().to_string();
    let _ = Command::new("sh")
        .args(["-c", "kill -TERM \"$0\"", &pid])
        .stderr(Stdio::null())
        .status();
    if ends_in(child, grace).is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    None
}

fn ends_in(child: &mut Child, longest: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + longest;
    let mut pause = Duration::from_millis(2);
    while Instant::now() < until {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read};

    /// A shell that runs `script`, and waits until that has said "ready"; what it says from then on.
    fn shell(script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut said = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        (child, said)
    }

    fn is_there(child: &Child) -> bool {
        Path::new(&format!("/proc/{}", child.id())).exists()
    }

    #[test]
    fn what_ends_has_its_code() {
        let (mut child, _) = shell("echo ready; exit 7");
        assert_eq!(wait(&mut child, GRACE, GRACE), Some(7));
    }

    #[test]
    fn what_takes_too_long_is_asked_to_end_and_says_its_last_words() {
        let script = "trap 'echo roll-call; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
        let (mut child, mut said) = shell(script);
        assert_eq!(wait(&mut child, Duration::from_millis(200), GRACE), None);
        let mut words = String::new();
        said.read_to_string(&mut words).expect("its words");
        assert_eq!(words, "roll-call\n");
        assert!(!is_there(&child));
    }

    #[test]
    fn what_does_not_want_to_end_is_killed() {
        let (mut child, _) = shell("trap '' TERM; echo ready; while :; do sleep 0.05; done");
        let short = Duration::from_millis(200);
        let began = Instant::now();
        assert_eq!(wait(&mut child, short, short), None);
        assert!(!is_there(&child));
        assert!(began.elapsed() >= 2 * short);
    }
}
