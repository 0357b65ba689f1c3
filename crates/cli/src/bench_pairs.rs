//! `farpost bench pairs` and `load`: several pairs of ranks at once, and the latency of one beside others.

use crate::bench_args::{Common, Load, PairedRanks, Pairs};
use crate::bench_job::{in_job, is_simulated, list, trial_time};
use crate::bench_output::{Output, finish};
use farpost_bench::chart::{self, Chart, Dot, Panel, Series};
use farpost_bench::link::Layer;
use farpost_bench::measure::jobs::Jobs;
use farpost_bench::measure::load::{self, LoadPoint};
use farpost_bench::measure::pair::Op;
use farpost_bench::measure::pairs::{self, PairTraffic, PairsPoint};
use farpost_bench::measure::{Plan, warm_up};
use farpost_bench::progress::Progress;
use farpost_bench::report::{self, Provenance};
use farpost_bench::stats::{Summary, summarise};
use farpost_bench::{Mpi, Result, abi, sizes, usage};
use serde_json::{Value, json};

fn plan(common: &Common, job: &PairedRanks, sizes: Vec<usize>, window: u32, bidirectional: bool) -> Plan {
    Plan {
        sizes,
        // On a simulated machine every trial is the same.
        trials: common.trials.unwrap_or(if is_simulated() { 1 } else { 9 }) as usize,
        trial_time: trial_time(job.trial_ms),
        window: window as usize,
        bidirectional,
    }
}

/// What was chosen, or powers of two up to `most` and `most` itself.
fn numbers(chosen: Option<&Vec<u32>>, least: usize, most: usize) -> Vec<usize> {
    match chosen {
        Some(list) => list.iter().map(|n| *n as usize).collect(),
        None if least == 0 && most == 0 => vec![0],
        None => {
            let powers = (0..usize::BITS).map(|bit| 1 << bit).take_while(|n| *n < most);
            let zero = (least == 0).then_some(0);
            zero.into_iter().chain(powers).chain([most]).collect()
        }
    }
}

fn opening(output: &mut Output, title: &str, from: &Provenance, plan: &Plan, header: &str) {
    output.line(&format!("# {title}"));
    output.line(&format!("# {} ({})", from.library, from.file));
    output.line(&format!(
        "# {} ranks on {}; medians of {} trials",
        from.ranks, from.host, plan.trials
    ));
    output.line(header);
}

fn length(bytes: usize) -> String {
    match sizes::human(bytes) {
        text if text.ends_with('B') => text,
        text => format!("{text} bytes"),
    }
}

fn mb(rate: f64) -> f64 {
    rate / 1e6
}

pub fn pairs(o: &Pairs) -> Result<()> {
    o.common.plot.iter().try_for_each(|f| chart::check_name(f))?;
    let sizes = list(&o.sizes, 8, 1 << 20, |low, high| {
        let all = sizes::powers(low, high).into_iter();
        all.filter(|s| *s == low || *s == high || s.trailing_zeros() % 3 == 0)
            .collect()
    })?;
    match &o.layers {
        Some(layers) => pairs_of_layers(o, layers, &sizes),
        None => in_job(o.job.ranks, |mpi| pairs_of_mpi(o, sizes, mpi)),
    }
}

fn title_of(o: &Pairs) -> String {
    let what = if o.pingpong {
        "messages to and fro"
    } else {
        "streams"
    };
    let way = if o.bidirectional {
        "both ways at once"
    } else {
        "one way"
    };
    format!(
        "Pairs of ranks at once: {what}, {way}; MB/s of all pairs, and of one (smallest, median, largest of the pairs' medians)"
    )
}

fn header() -> String {
    format!(
        "{:>6} {:>10} {:>9} {:>11} {:>11} {:>11} {:>11} {:>12}",
        "pairs", "bytes", "repeats", "all MB/s", "min", "one MB/s", "max", "time (us)"
    )
}

fn row(p: &PairsPoint) -> String {
    let [least, median, most] = PairsPoint::spread(&p.each);
    let [_, time, _] = PairsPoint::spread(&p.time);
    format!(
        "{:>6} {:>10} {:>9} {:>11.1} {:>11.1} {:>11.1} {:>11.1} {:>12.3}",
        p.pairs,
        p.bytes,
        // Each job of a layer has its own.
        match p.repetitions {
            0 => "-".to_owned(),
            repetitions => repetitions.to_string(),
        },
        mb(p.aggregate.median),
        mb(least),
        mb(median),
        mb(most),
        time * 1e6
    )
}

fn value(p: &PairsPoint) -> Value {
    let of = |all: &Summary, scale: f64| json!({ "median": all.median * scale, "min": all.min * scale, "max": all.max * scale });
    json!({
        "pairs": p.pairs,
        "bytes": p.bytes,
        "repetitions": p.repetitions,
        "all_megabytes_per_s": of(&p.aggregate, 1e-6),
        "each_megabytes_per_s": p.each.iter().map(|one| of(one, 1e-6)).collect::<Vec<_>>(),
        "each_us": p.time.iter().map(|one| of(one, 1e6)).collect::<Vec<_>>(),
    })
}

/// A curve by size for each number of pairs.
fn curves(points: &[PairsPoint], y: impl Fn(&PairsPoint) -> Summary, scale: f64) -> Vec<Series> {
    let mut pairs: Vec<usize> = points.iter().map(|p| p.pairs).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let one = |pairs: usize| {
        let of = points.iter().filter(|p| p.pairs == pairs);
        let name = if pairs == 1 {
            "1 pair".into()
        } else {
            format!("{pairs} pairs")
        };
        Series::new(&name, of.map(|p| Dot::of(p.bytes as f64, &y(p), |t| t * scale)))
    };
    pairs.into_iter().map(one).collect()
}

fn middle(of: &[Summary]) -> Summary {
    let [min, median, max] = PairsPoint::spread(of);
    Summary { median, min, max }
}

fn panels(points: &[PairsPoint]) -> [Panel; 2] {
    [
        Panel::new("all pairs (MB/s)", curves(points, |p| p.aggregate, 1e-6)),
        Panel::new("one message (µs)", curves(points, |p| middle(&p.time), 1e6)),
    ]
}

fn pairs_of_mpi(o: &Pairs, sizes: Vec<usize>, mpi: &Mpi) -> Result<()> {
    let from = Provenance::of(mpi)?;
    let plan = plan(&o.common, &o.job, sizes, o.window, o.bidirectional);
    let wanted = numbers(o.pairs.as_ref(), 1, (mpi.size() / 2).max(1));
    let traffic = if o.pingpong {
        PairTraffic::PingPong
    } else {
        PairTraffic::Stream
    };
    let progress = Progress::new(mpi.rank(), wanted.len() * plan.sizes.len());
    let first = mpi.rank() == 0;
    let mut output = Output::new(&o.common, first && !progress.is_drawn());
    let title = title_of(o);
    opening(&mut output, &title, &from, &plan, &header());
    if !is_simulated() {
        warm_up(mpi)?;
    }
    let points = pairs::run(mpi, &plan, &wanted, traffic, |p| {
        output.line(&row(p));
        progress.step(&format!("{} pairs, {}", p.pairs, length(p.bytes)));
    })?;
    progress.clear();
    if !first {
        return Ok(());
    }
    output.flush();
    let json = || {
        json!({ "benchmark": "pairs", "library": from.library, "library_file": from.file, "ranks": from.ranks, "host": from.host,
            "bidirectional": o.bidirectional, "pingpong": o.pingpong, "window": o.window,
            "points": points.iter().map(value).collect::<Vec<_>>() })
    };
    finish(&o.common, json, || {
        let subtitle = format!("{} · {} ranks · {}", from.library, from.ranks, from.host);
        Chart::by_size(&title, subtitle, panels(&points))
    })
}

/// Layers have jobs of two ranks; several of them at once are as many pairs.
fn pairs_of_layers(o: &Pairs, layers: &str, sizes: &[usize]) -> Result<()> {
    let layers = layers.split(',').map(|key| Layer::parse(key.trim()));
    let layers = layers.collect::<Result<Vec<_>>>()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = numbers(o.pairs.as_ref(), 1, (cores / 2).max(2));
    let op = |bytes: usize| match (o.pingpong, o.bidirectional) {
        (true, false) => Ok(Op::PingPong(bytes)),
        (false, false) => Ok(Op::Stream(bytes)),
        (false, true) => Ok(Op::Both(bytes)),
        (true, true) => Err(usage!(
            "--layers with --pingpong --bidirectional: layers send both ways at once in streams alone"
        )),
    };
    let trials = o.common.trials.unwrap_or(9) as usize;
    let jobs = Jobs {
        unbound: wanted.iter().any(|pairs| *pairs > 1),
        ..Jobs::new(1, trials, u64::from(o.job.trial_ms) * 1000)?
    };
    let progress = Progress::new(0, layers.len() * wanted.len());
    let mut output = Output::new(&o.common, !progress.is_drawn());
    let title = title_of(o);
    output.line(&format!("# {title}"));
    output.line(&format!(
        "# {}, a job for each pair, on {}",
        abi::find_library().display(),
        report::host()
    ));
    output.line(&format!("{:>18} {}", "layer", header()));
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for layer in &layers {
        let fits: Vec<usize> = sizes
            .iter()
            .copied()
            .filter(|bytes| layer.carries(*bytes))
            .collect();
        let ops = fits.iter().map(|bytes| op(*bytes)).collect::<Result<Vec<_>>>()?;
        for &pairs in &wanted {
            let samples = jobs.together(*layer, &ops, pairs)?;
            for (bytes, op) in fits.iter().zip(&ops) {
                let point = layer_point(
                    pairs,
                    *bytes,
                    op,
                    o.bidirectional,
                    samples.iter().map(|of| &of[op][..]),
                )?;
                output.line(&format!("{:>18} {}", layer.key(), row(&point)));
                let mut value = value(&point);
                value["layer"] = json!(layer.key());
                rows.push(value);
                all.push((*layer, point));
            }
            progress.step(layer.title());
        }
    }
    progress.clear();
    output.flush();
    let json = || {
        json!({ "benchmark": "pairs", "library_file": abi::find_library().display().to_string(), "host": report::host(),
        "bidirectional": o.bidirectional, "pingpong": o.pingpong, "points": rows })
    };
    finish(&o.common, json, || {
        let series = layers.iter().flat_map(|layer| {
            let points: Vec<_> = all
                .iter()
                .filter(|(of, _)| of == layer)
                .map(|(_, p)| p.clone())
                .collect();
            let mut curves = curves(&points, |p| p.aggregate, 1e-6);
            curves
                .iter_mut()
                .for_each(|curve| curve.name = format!("{}, {}", layer.title(), curve.name));
            curves
        });
        Chart::by_size(&title, report::host(), [Panel::new("all pairs (MB/s)", series)])
    })
}

/// A point of the samples of each pair, seconds of a message.
fn layer_point<'s>(
    pairs: usize,
    bytes: usize,
    op: &Op,
    both: bool,
    samples: impl Iterator<Item = &'s [f64]>,
) -> Result<PairsPoint> {
    let time: Vec<Summary> = samples.filter(|of| !of.is_empty()).map(summarise).collect();
    if time.len() != pairs {
        return Err(usage!("{op}: {} of {pairs} pairs were measured", time.len()));
    }
    let moved = if both { 2.0 } else { 1.0 } * bytes as f64;
    let rate = |time: &Summary| Summary {
        median: moved / time.median,
        min: moved / time.max,
        max: moved / time.min,
    };
    let each: Vec<Summary> = time.iter().map(rate).collect();
    let sum = |of: fn(&Summary) -> f64| each.iter().map(of).sum();
    Ok(PairsPoint {
        pairs,
        bytes,
        repetitions: 0,
        aggregate: Summary {
            median: sum(|rate| rate.median),
            min: sum(|rate| rate.min),
            max: sum(|rate| rate.max),
        },
        each,
        time,
    })
}

pub fn load(o: &Load) -> Result<()> {
    o.common.plot.iter().try_for_each(|f| chart::check_name(f))?;
    let sizes = list(&o.sizes, 8, 1024, |low, high| {
        let all = sizes::powers(low, high).into_iter();
        all.filter(|s| *s == low || *s == high || s.trailing_zeros() % 2 == 1)
            .collect()
    })?;
    let load = match &o.stream {
        None => load::Load::PingPong,
        Some(text) => match sizes::parse(text)? {
            0 => return Err(usage!("--stream 0: messages of a stream have at least 1 byte")),
            bytes => load::Load::Stream(bytes),
        },
    };
    in_job(o.job.ranks, |mpi| loaded(o, load, sizes, mpi))
}

fn loaded(o: &Load, load: load::Load, sizes: Vec<usize>, mpi: &Mpi) -> Result<()> {
    let from = Provenance::of(mpi)?;
    let plan = plan(&o.common, &o.job, sizes, o.window, false);
    let others = numbers(o.others.as_ref(), 0, (mpi.size() / 2).saturating_sub(1));
    let progress = Progress::new(mpi.rank(), others.len() * plan.sizes.len());
    let first = mpi.rank() == 0;
    let mut output = Output::new(&o.common, first && !progress.is_drawn());
    let does = match load {
        load::Load::PingPong => "do the same".to_owned(),
        load::Load::Stream(bytes) => format!("stream messages of {}", length(bytes)),
    };
    let title = format!("Latency of one pair, one way, while other pairs {does}; what these carry together");
    let header = format!(
        "{:>10} {:>7} {:>9} {:>12} {:>12} {:>12} {:>13}",
        "bytes", "others", "trips", "time (us)", "min", "max", "others' MB/s"
    );
    opening(&mut output, &title, &from, &plan, &header);
    if !is_simulated() {
        warm_up(mpi)?;
    }
    let points = load::run(mpi, &plan, &others, load, |p| {
        output.line(&format!(
            "{:>10} {:>7} {:>9} {:>12.3} {:>12.3} {:>12.3} {:>13.1}",
            p.bytes,
            p.others,
            p.round_trips,
            p.time.median * 1e6,
            p.time.min * 1e6,
            p.time.max * 1e6,
            mb(p.load)
        ));
        progress.step(&format!(
            "{} bytes beside {} pairs",
            sizes::human(p.bytes),
            p.others
        ));
    })?;
    progress.clear();
    if !first {
        return Ok(());
    }
    output.flush();
    let value = |p: &LoadPoint| {
        json!({ "bytes": p.bytes, "others": p.others, "round_trips": p.round_trips, "median_us": p.time.median * 1e6,
            "min_us": p.time.min * 1e6, "max_us": p.time.max * 1e6, "others_megabytes_per_s": mb(p.load) })
    };
    let json = || {
        json!({ "benchmark": "load", "library": from.library, "library_file": from.file, "ranks": from.ranks, "host": from.host,
            "stream_bytes": match load { load::Load::Stream(bytes) => json!(bytes), load::Load::PingPong => Value::Null },
            "points": points.iter().map(value).collect::<Vec<_>>() })
    };
    finish(&o.common, json, || {
        let by_size = plan.sizes.iter().map(|bytes| {
            let of = points.iter().filter(|p| p.bytes == *bytes);
            let dots = of.map(|p| Dot::of((1 + p.others) as f64, &p.time, |t| t * 1e6));
            Series::new(length(*bytes), dots)
        });
        let subtitle = format!("{} · {} ranks · {}", from.library, from.ranks, from.host);
        Chart::over(
            "pairs",
            &title,
            subtitle,
            [Panel::new("latency of one pair (µs)", by_size)],
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_pairs_double_up_to_all() {
        assert_eq!(numbers(None, 1, 6), [1, 2, 4, 6]);
        assert_eq!(numbers(None, 0, 4), [0, 1, 2, 4]);
        assert_eq!((numbers(None, 1, 1), numbers(None, 0, 0)), (vec![1], vec![0]));
        assert_eq!(numbers(Some(&vec![3]), 0, 9), [3]);
    }

    #[test]
    fn what_pairs_of_a_layer_carry_is_added() {
        let samples = [vec![1e-6, 2e-6, 1e-6], vec![2e-6; 3]];
        let all = || samples.iter().map(|of| &of[..]);
        let point = layer_point(2, 1000, &Op::Stream(1000), false, all()).expect("two pairs");
        assert!((mb(point.aggregate.median) - 1500.0).abs() < 1e-6, "{point:?}");
        assert!(layer_point(3, 1000, &Op::Stream(1000), false, all()).is_err());
        assert_eq!(header().len(), row(&point).len());
    }
}
