//! `farpost tune`: measures where one way becomes quicker than another on this machine, and writes that down.
//!
//! A setting holds for the life of a process, so each value is measured by a job of two ranks of its own: `farpost bench
//! pingpong` under the launcher, with the setting in the environment. Where a switch point separates two ways, both are
//! measured at all sizes and the point follows from the two curves; other settings are tried value by value.

use crate::output;
use crate::tune_choose::{Both, Choice, least, switch};
use clap::Args;
use farpost_bench::{launch, report};
use farpost_tunables::{Tunable, file};
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

#[derive(Args)]
#[command(
    after_help = "Set FARPOST_CONFIG=FILE to use the file, or copy it to etc/farpost.conf of the installation, where \
every job finds it. What is in the environment counts more than what is in the file.\n\n\
Settings of messages between hosts are measured with --host or --launcher, the others without. Both may be written to the \
same file, one after the other."
)]
pub struct Options {
    /// Measure between these two hosts, through mpiexec, e.g. a,b
    #[arg(long, value_name = "A,B", conflicts_with = "launcher")]
    host: Option<String>,
    /// Measure between two hosts with this command, which starts one rank of the program that follows it on each
    #[arg(long, value_name = "COMMAND")]
    launcher: Option<String>,
    /// The file to write; settings in it that are not measured stay
    #[arg(long, short, value_name = "FILE", default_value = "farpost.conf")]
    out: PathBuf,
    /// A rough measurement with few sizes
    #[arg(long)]
    short: bool,
}

/// What was found for one setting.
struct Found {
    tunable: &'static Tunable,
    choice: Choice,
    /// What was compared.
    how: String,
}

impl Found {
    fn new(tunable: &'static Tunable, choice: Choice, how: String) -> Self {
        Self { tunable, choice, how }
    }
}

/// How jobs of two ranks are started and measured.
struct Bench {
    launcher: Vec<String>,
    program: PathBuf,
    trials: u32,
    trial_ms: u32,
    /// What is compared is measured in turns, so many times.
    rounds: usize,
}

pub fn run(options: &Options) -> ExitCode {
    match tune(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => output::fail(&why),
    }
}

fn tune(options: &Options) -> Result<(), String> {
    if launch::is_launched() {
        return Err(
            "tune: started by a launcher, but it starts a job of two ranks for every measurement itself. Start it alone: \
             `farpost tune` measures within this host, `farpost tune --host a,b` between two, and `farpost tune \
             --launcher 'COMMAND'` starts the ranks with another command, e.g. --launcher 'srun -N 2 -n 2'"
                .into(),
        );
    }
    let before = existing(&options.out)?;
    let bench = Bench::new(options)?;
    let far = options.host.is_some() || options.launcher.is_some();
    let measured = if far {
        between_hosts(&bench, options.short)?
    } else {
        on_the_host(&bench, options.short)?
    };
    let place = report::host();
    std::fs::write(&options.out, as_file(&before, &measured, &place))
        .map_err(|e| format!("writing {}: {e}", options.out.display()))?;
    output::out(&as_table(&measured, &place));
    eprintln!("wrote {}", options.out.display());
    Ok(())
}

fn tunable(name: &str) -> &'static Tunable {
    let all = crate::info::tunables().into_iter().flat_map(|(_, table)| table);
    all.into_iter()
        .find(|tunable| tunable.name == name)
        .expect("a name of ours")
}

/// The settings that the file has already, so that they can stay.
fn existing(path: &Path) -> Result<Vec<(String, String)>, String> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(format!("reading {}: {e}", path.display())),
    };
    let settings = file::settings(&text).map_err(|e| format!("{}, {e}", path.display()))?;
    Ok(settings
        .iter()
        .map(|s| (s.name.to_owned(), s.value.to_owned()))
        .collect())
}

impl Bench {
    fn new(options: &Options) -> Result<Self, String> {
        let text = |e: farpost_bench::BenchError| e.to_string();
        let ours = || Ok::<_, String>(launch::mpiexec().map_err(text)?.display().to_string());
        let launcher = match (&options.host, &options.launcher) {
            (Some(hosts), _) => {
                let names: Vec<&str> = hosts.split(',').map(str::trim).collect();
                if names.len() != 2 || names.iter().any(|name| name.is_empty()) || names[0] == names[1] {
                    return Err(format!("--host {hosts}: expected two hosts, e.g. --host a,b"));
                }
                vec![ours()?, "--host".into(), names.join(","), "-n".into(), "2".into()]
            }
            (None, Some(command)) => {
                let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
                if words.is_empty() {
                    return Err("--launcher: the command is empty".into());
                }
                words
            }
            (None, None) => vec![ours()?, "-n".into(), "2".into()],
        };
        let program = std::env::current_exe().map_err(|e| format!("finding this executable: {e}"))?;
        Ok(Self {
            launcher,
            program,
            trials: if options.short { 3 } else { 9 },
            trial_ms: if options.short { 1 } else { 5 },
            rounds: if options.short { 5 } else { 3 },
        })
    }

    /// As [`times`](Self::times), for each of several settings: medians of several jobs, which take turns, so that
    /// what comes and goes on the machine is the same for all.
    fn compared(&self, sizes: &[u64], all: &[Vec<(&str, u64)>]) -> Result<Vec<Vec<f64>>, String> {
        let mut rounds = vec![Vec::new(); all.len()];
        for _ in 0..self.rounds {
            for (settings, found) in all.iter().zip(&mut rounds) {
                found.push(self.times(sizes, settings)?);
            }
        }
        Ok(rounds.iter().map(|found| medians(found)).collect())
    }

    /// Seconds of a message one way, by size, with these settings.
    fn times(&self, sizes: &[u64], settings: &[(&str, u64)]) -> Result<Vec<f64>, String> {
        let list: Vec<String> = sizes.iter().map(u64::to_string).collect();
        let mut command = Command::new(&self.launcher[0]);
        command
            .args(&self.launcher[1..])
            .arg(&self.program)
            .args(["bench", "pingpong", "--json", "-", "--sizes", &list.join(",")])
            .args(["--trials", &self.trials.to_string()])
            .args(["--trial-ms", &self.trial_ms.to_string()])
            // An empty name: no file, so that what is compared with are the defaults.
            .env("FARPOST_CONFIG", "")
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        let shown: Vec<String> = settings
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        command.envs(settings.iter().map(|(name, value)| (name, value.to_string())));
        let what = || format!("measuring with {} ({})", self.launcher.join(" "), shown.join(" "));
        let output = command.output().map_err(|e| format!("{}: {e}", what()))?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            let first = error
                .lines()
                .find(|line| !line.trim().is_empty())
                .unwrap_or("no message");
            return Err(format!("{}: {}: {first}", what(), output.status));
        }
        parse(&output.stdout, sizes).map_err(|why| format!("{}: {why}", what()))
    }

    /// Both curves, and the point between them. `below` makes all sizes go the way of small messages, `above` that of
    /// large ones.
    fn switch(
        &self,
        name: &'static str,
        sizes: &[u64],
        below: u64,
        above: u64,
        default: u64,
        fixed: &[(&str, u64)],
    ) -> Result<Choice, String> {
        let other_way = above;
        let with = |value| fixed.iter().copied().chain([(name, value)]).collect();
        let curves = self.compared(sizes, &[with(below), with(above)])?;
        let points: Vec<Both> = (sizes.iter().zip(&curves[0]).zip(&curves[1]))
            .map(|((&bytes, &below), &above)| Both { bytes, below, above })
            .collect();
        let choice = switch(&points, default);
        // Below the smallest size measured: as it was while the other way was.
        let value = choice.value.max(other_way);
        Ok(Choice { value, ..choice })
    }

    /// The best of some values, the default among them.
    fn best(
        &self,
        name: &'static str,
        values: &[u64],
        sizes: &[u64],
        fixed: &[(&str, u64)],
    ) -> Result<Choice, String> {
        let default = tunable(name).default;
        let mut all = values.to_vec();
        if !all.contains(&default) {
            all.push(default);
        }
        let with = |value: &u64| fixed.iter().copied().chain([(name, *value)]).collect();
        let settings: Vec<Vec<(&str, u64)>> = all.iter().map(with).collect();
        let times = self.compared(sizes, &settings)?;
        Ok(least(&all.into_iter().zip(times).collect::<Vec<_>>(), default))
    }
}

/// The times in the output of `farpost bench pingpong --json -`: the shortest of the trials, since all that disturbs
/// makes them longer.
fn parse(output: &[u8], sizes: &[u64]) -> Result<Vec<f64>, String> {
    let result: Value =
        serde_json::from_slice(output).map_err(|e| format!("its output is not a result: {e}"))?;
    let points = result["points"].as_array().cloned().unwrap_or_default();
    let time = |bytes: &u64| {
        let point = points
            .iter()
            .find(|point| point["bytes"].as_u64() == Some(*bytes));
        let time = point.and_then(|point| point["min_us"].as_f64());
        time.filter(|time| time.is_finite() && *time > 0.0)
            .map(|time| time * 1e-6)
            .ok_or_else(|| format!("its result has no time for {bytes} bytes"))
    };
    sizes.iter().map(time).collect()
}

/// The median of each column.
fn medians(rounds: &[Vec<f64>]) -> Vec<f64> {
    let columns = rounds.first().map_or(0, Vec::len);
    let median = |column: usize| {
        let mut all: Vec<f64> = rounds.iter().map(|round| round[column]).collect();
        all.sort_by(f64::total_cmp);
        let middle = all.len() / 2;
        match all.len() % 2 {
            0 => f64::midpoint(all[middle - 1], all[middle]),
            _ => all[middle],
        }
    };
    (0..columns).map(median).collect()
}

fn powers(from: u64, to: u64, short: bool) -> Vec<u64> {
    let all: Vec<u64> = std::iter::successors(Some(from), |size| Some(size * 2))
        .take_while(|size| *size <= to)
        .collect();
    let step = if short { 3 } else { 1 };
    all.into_iter().step_by(step).collect()
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn span(sizes: &[u64]) -> String {
    let ends = [sizes.first(), sizes.last()].map(|size| size.map_or(String::new(), |size| size.to_string()));
    format!("ping-pong of {} to {} bytes", ends[0], ends[1])
}

/// Settings of messages within a host.
fn on_the_host(bench: &Bench, short: bool) -> Result<Vec<Found>, String> {
    let mut all = Vec::new();
    let eager = tunable("FARPOST_EAGER_MAX");
    let sizes = powers(2 * KIB, 256 * KIB, short);
    let choice = bench.switch(eager.name, &sizes, eager.max, KIB, eager.default, &[])?;
    all.push(Found::new(eager, choice, span(&sizes)));
    let sizes = powers(256 * KIB, 4 * MIB, short);
    let (smallest, largest) = (tunable("FARPOST_CHUNK_MIN"), tunable("FARPOST_CHUNK_MAX"));
    let values: &[u64] = if short {
        &[64 * KIB]
    } else {
        &[16 * KIB, 64 * KIB, 128 * KIB]
    };
    let choice = bench.best(smallest.name, values, &sizes, &[])?;
    all.push(Found::new(smallest, choice, span(&sizes)));
    let values: &[u64] = if short {
        &[512 * KIB]
    } else {
        &[128 * KIB, 512 * KIB, MIB]
    };
    let fixed = [(smallest.name, choice.value)];
    let choice = bench.best(largest.name, values, &sizes, &fixed)?;
    all.push(Found::new(largest, choice, span(&sizes)));
    all.push(spin(bench)?);
    Ok(all)
}

/// To spin as long as sleeping and waking takes costs at most twice what knowing the future would.
fn spin(bench: &Bench) -> Result<Found, String> {
    let tunable = tunable("FARPOST_SPIN_US");
    let times = bench.compared(
        &[8],
        &[vec![(tunable.name, 0), ("FARPOST_YIELDS", 0)], Vec::new()],
    )?;
    let cost = ((times[0][0] - times[1][0]) * 1e6).max(0.0);
    let value = ((cost / 10.0).ceil() as u64 * 10).clamp(10, 1000);
    let near = value.abs_diff(tunable.default) <= 10;
    Ok(Found {
        tunable,
        choice: Choice {
            value: if near { tunable.default } else { value },
            gain: 1.0,
        },
        how: format!("sleeping and waking takes {cost:.1} us"),
    })
}

/// Settings of messages between hosts. Where bytes may follow their line unasked, they do, and blocks are what networks
/// without that use: so the limits of the former are measured first, and what concerns blocks without it.
fn between_hosts(bench: &Bench, short: bool) -> Result<Vec<Found>, String> {
    let (smallest, largest) = (tunable("FARPOST_ZCOPY_MIN"), tunable("FARPOST_ZCOPY_MAX"));
    let sizes = powers(512, 32 * KIB, short);
    let choice = bench.switch(
        smallest.name,
        &sizes,
        smallest.max,
        smallest.min,
        smallest.default,
        &[],
    )?;
    let mut all = vec![Found::new(smallest, choice, span(&sizes))];
    let sizes = powers(64 * KIB, 4 * MIB, short);
    let fixed = [(smallest.name, all[0].choice.value)];
    // Shorter ones were measured above: none are taken away from them.
    let lowest = 32 * KIB;
    let choice = bench.switch(largest.name, &sizes, largest.max, lowest, largest.default, &fixed)?;
    all.push(Found::new(largest, choice, span(&sizes)));
    let without = [(largest.name, 0)];
    let eager = tunable("FARPOST_EAGER_FAR");
    let sizes = powers(2 * KIB, MIB, short);
    let choice = bench.switch(eager.name, &sizes, eager.max, KIB, eager.default, &without)?;
    all.push(Found::new(eager, choice, format!("{} in blocks", span(&sizes))));
    let direct = tunable("FARPOST_TCP_DIRECT");
    let sizes = powers(4 * KIB, 256 * KIB, short);
    // The tunable is the smallest size of the other way: one more than the largest of this one.
    let choice = bench.switch(direct.name, &sizes, direct.max, 0, direct.default - 1, &without)?;
    let value = if choice.value == direct.default - 1 {
        direct.default
    } else {
        choice.value + 1
    };
    let choice = Choice { value, ..choice };
    all.push(Found::new(direct, choice, format!("{} in blocks", span(&sizes))));
    Ok(all)
}

fn as_table(found: &[Found], place: &str) -> String {
    let mut t = format!("# {place}\n");
    let _ = writeln!(
        t,
        "{:<20} {:>10} {:>10} {:<13} {:>8}  measured by",
        "setting", "default", "best here", "unit", "time"
    );
    for Found { tunable, choice, how } in found {
        let time = if choice.gain < 1.0 {
            format!("x {:.2}", choice.gain)
        } else {
            "-".into()
        };
        let _ = writeln!(
            t,
            "{:<20} {:>10} {:>10} {:<13} {:>8}  {how}",
            tunable.name, tunable.default, choice.value, tunable.unit, time
        );
    }
    t
}

/// Lines `NAME=value`: what was there and was not measured now, and what was.
fn as_file(before: &[(String, String)], found: &[Found], place: &str) -> String {
    let mut t = String::from(
        "# Settings of Farpost: FARPOST_CONFIG names this file, or it is etc/farpost.conf of an installation.\n",
    );
    for (name, value) in before {
        if !found.iter().any(|found| found.tunable.name == name) {
            let _ = writeln!(t, "{name}={value}");
        }
    }
    let _ = writeln!(t, "# Measured by farpost tune on {place}.");
    for Found { tunable, choice, how } in found {
        let _ = writeln!(t, "# Default {} {}; {how}.", tunable.default, tunable.unit);
        let _ = writeln!(t, "{}={}", tunable.name, choice.value);
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, value: u64) -> Found {
        Found {
            tunable: tunable(name),
            choice: Choice { value, gain: 0.8 },
            how: "a test".into(),
        }
    }

    #[test]
    fn the_file_keeps_what_was_not_measured_and_can_be_read_again() {
        let before = [("FARPOST_EAGER_MAX", "1"), ("FARPOST_YIELDS", "7")];
        let before = before.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found = [
            found("FARPOST_EAGER_MAX", 4096),
            found("FARPOST_TCP_DIRECT", 12345),
        ];
        let text = as_file(&before, &found, "here");
        let settings: Vec<_> = file::settings(&text)
            .unwrap()
            .iter()
            .map(|s| (s.name, s.value))
            .collect();
        let expected = [
            ("FARPOST_YIELDS", "7"),
            ("FARPOST_EAGER_MAX", "4096"),
            ("FARPOST_TCP_DIRECT", "12345"),
        ];
        assert_eq!(settings, expected);
        let table = as_table(&found, "here");
        assert!(table.contains("12345") && table.contains("65536"), "{table}");
    }

    #[test]
    fn one_job_out_of_line_does_not_count() {
        let rounds = [vec![1.0, 5.0], vec![9.0, 6.0], vec![2.0, 7.0]];
        assert_eq!(medians(&rounds), [2.0, 6.0]);
        assert_eq!(medians(&rounds[..2]), [5.0, 5.5]);
        assert_eq!(medians(&[]), [0.0; 0]);
    }

    /// A launcher that notes with which settings it was called, and answers with times; every fourth is far off.
    #[test]
    fn what_is_compared_takes_turns() {
        let directory = std::env::temp_dir().join(format!("farpost-tune-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (script, log) = (directory.join("run"), directory.join("log"));
        let text = format!(
            "#!/bin/sh\necho ${{FARPOST_EAGER_MAX-none}} >>{log}\nt=1.${{FARPOST_EAGER_MAX-9}}\n\
             [ $(($(wc -l <{log}) % 4)) = 0 ] && t=500\necho \"{{\\\"points\\\": [{{\\\"bytes\\\": 8, \\\"min_us\\\": $t}}]}}\"\n",
            log = log.display()
        );
        std::fs::write(&script, text).unwrap();
        let bench = Bench {
            launcher: vec!["/bin/sh".into(), script.display().to_string()],
            program: "program".into(),
            trials: 1,
            trial_ms: 1,
            rounds: 5,
        };
        let with = |value| vec![("FARPOST_EAGER_MAX", value)];
        let times = bench.compared(&[8], &[with(2), with(4)]);
        let order = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        let times = times.unwrap();
        assert!(
            near(times[0][0], 1.2e-6) && near(times[1][0], 1.4e-6),
            "{times:?}"
        );
        assert_eq!(order, "2\n4\n".repeat(5));
    }

    /// A network on which what follows its line is quicker from 8 KiB on, up to 256 KiB, and blocks always are the slower.
    const ZCOPY: &str = r#"
least=${FARPOST_ZCOPY_MIN-4096} most=${FARPOST_ZCOPY_MAX-1048576} points=
for word; do [ "$was" = --sizes ] && found=$word; was=$word; done
for size in $(echo $found | tr , ' '); do
    time=100
    if [ $size -gt $least ] && [ $size -le $most ]; then
        if [ $size -lt 8192 ] || [ $size -gt 262144 ]; then time=150; else time=50; fi
    fi
    points="$points,{\"bytes\": $size, \"min_us\": $time}"
done
echo "{\"points\": [${points#,}]}"
"#;

    #[test]
    fn between_hosts_the_limits_of_what_follows_its_line_are_found() {
        let directory = std::env::temp_dir().join(format!("farpost-tune-zcopy-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let script = directory.join("run");
        std::fs::write(&script, ZCOPY).unwrap();
        let bench = Bench {
            launcher: vec!["/bin/sh".into(), script.display().to_string()],
            program: "program".into(),
            trials: 1,
            trial_ms: 1,
            rounds: 1,
        };
        let found = between_hosts(&bench, false);
        std::fs::remove_dir_all(&directory).unwrap();
        let values: Vec<_> = (found.unwrap().iter().map(|f| (f.tunable.name, f.choice.value))).collect();
        let (eager, direct) = (tunable("FARPOST_EAGER_FAR"), tunable("FARPOST_TCP_DIRECT"));
        let expected = [
            ("FARPOST_ZCOPY_MIN", 4096),
            ("FARPOST_ZCOPY_MAX", 262_144),
            (eager.name, eager.default),
            (direct.name, direct.default),
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn results_are_checked() {
        let good = br#"{"points": [{"bytes": 8, "min_us": 2.0}, {"bytes": 16, "min_us": 4.0}]}"#;
        assert_eq!(parse(good, &[16, 8]).unwrap(), [4e-6, 2e-6]);
        let bad: [(&[u8], &str); 4] = [
            (b"oops", "not a result"),
            (b"{}", "8 bytes"),
            (br#"{"points": [{"bytes": 8, "min_us": 0}]}"#, "8 bytes"),
            (br#"{"points": [{"bytes": 8, "min_us": "x"}]}"#, "8 bytes"),
        ];
        for (text, word) in bad {
            let error = parse(text, &[8]).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn everything_measured_is_a_tunable_and_in_its_range() {
        for name in [
            "FARPOST_EAGER_MAX",
            "FARPOST_EAGER_FAR",
            "FARPOST_TCP_DIRECT",
            "FARPOST_ZCOPY_MIN",
            "FARPOST_ZCOPY_MAX",
            "FARPOST_CHUNK_MIN",
            "FARPOST_CHUNK_MAX",
        ] {
            let tunable = tunable(name);
            assert!(tunable.min <= tunable.default && tunable.default > 0, "{name}");
        }
        assert_eq!(powers(2, 64, true), [2, 16]);
        assert_eq!(powers(2, 16, false), [2, 4, 8, 16]);
    }
}
