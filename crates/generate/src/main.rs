//! Makes and runs random legal MPI programs: `scripts/test-generated.sh` and `make soak` call it.

#![forbid(unsafe_code)]

mod backends;
mod drive;

use backends::{Backend, NAMES};
use drive::{Driver, Options};
use farpost_generate::{Limits, c, generate};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

const USAGE: &str = "usage: farpost-generate c SEED RANKS            print the program of a seed as C
       farpost-generate run --prefix DIR [options]  make programs and run them

  --prefix DIR       the installed tree whose mpicc and mpiexec are used
  --backends A,B         where: shm fm jam portals tcp ofi tcp-fm ... mpich (default shm)
  --ranks 2,3,4      numbers of ranks to draw from (default 2,3,4)
  --seed N           the first seed (default 1); --programs N: how many (default 50); --time S: seconds at most
  --batch N          programs of one job (default 10); --rounds N: jobs of each on each backend (default 1)
  --seconds N        longest time of one program (default 60)
  --out DIR          where files and findings go (default build/generated)
  --resume           go on where the last run in DIR was
  --for-others       without what other libraries get wrong: to check the generator with the backend mpich
  --hosts FILE       tests/net/hosts.py, whose set has hosts h1 and h2, and --rsh FILE, what its rsh prints: for backends between hosts
  --mpich DIR        MPICH's tree, for the backend mpich
  --shrink N         trials of making a finding short (default 80)
  --file FILE        run this C program instead: a finding on all backends, --rounds times, after the first with drawn limits";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(text) => {
            eprintln!("farpost-generate: {text}");
            ExitCode::from(2)
        }
    }
}

fn number(word: &str, text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("{word} {text}: must be a number"))
}

fn run(words: &[String]) -> Result<bool, String> {
    match words.first().map(String::as_str) {
        Some("c") if words.len() == 3 => {
            let ranks = number("RANKS", &words[2])? as usize;
            let program = generate(number("SEED", &words[1])?, Limits::of(ranks)).lower();
            print!(
                "{}",
                c::write_file(&[program], &format!("Seed {}, {ranks} ranks.", words[1]))
            );
            Ok(true)
        }
        Some("run") => {
            let options = options(&words[1..])?;
            let file = options.file.clone();
            let mut driver = Driver::new(options);
            match file {
                Some(file) => driver.run_file(&file),
                None => driver.run(),
            }
        }
        _ => Err(USAGE.into()),
    }
}

fn options(words: &[String]) -> Result<Options, String> {
    let (mut prefix, mut mpich, mut hosts, mut rsh) = (None, None, None, None);
    let mut names = vec!["shm".to_string()];
    let mut options = Options {
        compiler: PathBuf::new(),
        backends: Vec::new(),
        ranks: vec![2, 3, 4],
        seed: 1,
        programs: 50,
        time: Duration::from_secs(u64::from(u32::MAX)),
        batch: 10,
        rounds: 1,
        seconds: 60,
        out: "build/generated".into(),
        resume: false,
        for_others: false,
        known: String::new(),
        shrink: 80,
        file: None,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--for-others" {
            options.for_others = true;
            continue;
        }
        if word == "--resume" {
            options.resume = true;
            continue;
        }
        let value = words
            .next()
            .ok_or_else(|| format!("{word}: a value is missing\n{USAGE}"))?;
        match word.as_str() {
            "--prefix" => prefix = Some(PathBuf::from(value)),
            "--mpich" => mpich = Some(PathBuf::from(value)),
            "--hosts" => hosts = Some(value.clone()),
            "--rsh" => rsh = Some(value.clone()),
            "--backends" => names = value.split(',').map(String::from).collect(),
            "--ranks" => {
                options.ranks = value
                    .split(',')
                    .map(|n| Ok(number(word, n)? as usize))
                    .collect::<Result<_, String>>()?
            }
            "--seed" => options.seed = number(word, value)?,
            "--programs" => options.programs = number(word, value)?,
            "--time" => options.time = Duration::from_secs(number(word, value)?),
            "--batch" => options.batch = number(word, value)?.max(1),
            "--rounds" => options.rounds = number(word, value)?,
            "--seconds" => options.seconds = number(word, value)? as u32,
            "--shrink" => options.shrink = number(word, value)? as usize,
            "--file" => options.file = Some(PathBuf::from(value)),
            "--out" => options.out = PathBuf::from(value),
            _ => return Err(format!("{word}: unknown\n{USAGE}")),
        }
    }
    if options.ranks.iter().any(|n| !(1..=16).contains(n)) {
        return Err("--ranks: 1 to 16".into());
    }
    let prefix = prefix.ok_or(format!("--prefix is missing; backends are {NAMES}"))?;
    let prefix = prefix
        .canonicalize()
        .map_err(|e| format!("{}: {e}", prefix.display()))?;
    options.compiler = prefix.join("bin/mpicc");
    std::fs::create_dir_all(&options.out).map_err(|e| format!("{}: {e}", options.out.display()))?;
    options.out = options.out.canonicalize().map_err(|e| e.to_string())?;
    let hosts = hosts.zip(rsh);
    options.backends = names
        .iter()
        .map(|name| Backend::of(name, &prefix, hosts.as_ref(), mpich.as_ref()))
        .collect::<Result<_, _>>()?;
    let known = Command::new(prefix.join("bin/farpost"))
        .args(["info", "--tunables"])
        .output();
    options.known = known
        .map(|out| String::from_utf8_lossy(&out.stdout).into_owned())
        .unwrap_or_default();
    Ok(options)
}
