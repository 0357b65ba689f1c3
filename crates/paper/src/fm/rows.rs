//! The rows.

use super::api::{Call, OVERHEAD};
use super::metrics::rate;
use super::{Layer, Measured, Metrics, SIZES};
use crate::Expected::{AtLeast, AtMost, Either, Holds, SignAndSize, Value};
use crate::{Class, Expected, Origin, Row, Unit};
use farpost_sim::machine::Machine;

/// The rows of Table 4 by name, with its values.
const TABLE: [(Layer, &str, [f64; 3]); 8] = [
    (Layer::Baseline, "baseline", [4.2, 76.3, 315.0]),
    (Layer::Streamed, "streamed", [3.5, 76.3, 249.0]),
    (Layer::Hybrid, "hybrid", [3.5, 21.2, 44.0]),
    (Layer::Managed, "managed", [3.8, 21.9, 53.0]),
    (Layer::Fm, "fm", [4.1, 21.4, 54.0]),
    (Layer::ManagedSwitch, "switch", [6.8, 21.8, 127.0]),
    (Layer::FmSwitch, "fm-switch", [6.9, 21.7, 127.0]),
    (Layer::AllDma, "all-dma", [7.5, 33.0, 162.0]),
];

/// A predicted row without a null model.
fn row(
    id: &str,
    what: impl Into<String>,
    class: Class,
    unit: Unit,
    expected: Expected,
    simulated: f64,
) -> Row {
    Row {
        id: id.into(),
        what: what.into(),
        class,
        origin: Origin::Predicted,
        unit,
        expected,
        simulated,
        null_model: None,
        note: String::new(),
    }
}

fn noted(row: Row, note: &str) -> Row {
    Row {
        note: note.into(),
        ..row
    }
}

fn against(null: f64, row: Row) -> Row {
    Row {
        null_model: Some(null),
        ..row
    }
}

fn claim(id: &str, what: &str, holds: bool) -> Row {
    row(
        id,
        what,
        Class::Shape,
        Unit::Plain,
        Holds,
        f64::from(u8::from(holds)),
    )
}

pub(super) fn rows(machine: &Machine, measured: &Measured) -> Vec<Row> {
    let mut rows = headlines(measured);
    let immediate = Call::immediate(machine, OVERHEAD);
    let more = measured.metrics(Layer::AllDma).t0 - measured.metrics(Layer::Hybrid).t0;
    let dma = Call::dma(machine, OVERHEAD, more);
    let ours = measured.metrics(Layer::Fm);
    let theirs = immediate.metrics();
    rows.push(row(
        "F5",
        "n_1/2 of the Myrinet API",
        Class::Absolute,
        Unit::Bytes,
        Either(4409.0, 3873.0),
        theirs.half,
    ));
    rows.push(row(
        "F6",
        "n_1/2 of the Myrinet API by that of FM",
        Class::Ratio,
        Unit::Plain,
        Either(82.0, 72.0),
        theirs.half / ours.half,
    ));
    table(&mut rows, measured);
    apis(&mut rows, (theirs, dma.metrics()));
    features(&mut rows, measured);
    peak(&mut rows, measured);
    context(&mut rows, measured);
    shapes(&mut rows, measured, &immediate);
    rows
}

fn headlines(measured: &Measured) -> Vec<Row> {
    let fm = measured.metrics(Layer::Fm);
    let absolute = |id, what: &str, unit, expected, simulated| {
        row(id, what, Class::Absolute, unit, Value(expected), simulated)
    };
    vec![
        absolute(
            "F1.bandwidth",
            "FM, 128 bytes",
            Unit::Mebibytes,
            16.2,
            measured.rate(Layer::Fm, 128),
        ),
        absolute(
            "F1.latency",
            "FM, 128 bytes, one way",
            Unit::Micros,
            32.0,
            measured.latency(Layer::Fm, 128),
        ),
        absolute(
            "F2",
            "FM, 4 words, one way",
            Unit::Micros,
            25.0,
            measured.latency(Layer::Fm, 16),
        ),
        absolute(
            "F3",
            "FM, 512 bytes",
            Unit::Mebibytes,
            19.6,
            measured.rate(Layer::Fm, 512),
        ),
        absolute("F4.half", "n_1/2 of FM", Unit::Bytes, 54.0, fm.half),
        absolute(
            "F4.bandwidth",
            "FM, at n_1/2",
            Unit::Mebibytes,
            10.7,
            fm.rinf / 2.0,
        ),
    ]
}

fn table(rows: &mut Vec<Row>, measured: &Measured) {
    for (layer, name, expected) in TABLE {
        let metrics = measured.metrics(layer);
        let all = [
            ("t0", Unit::Micros, metrics.t0),
            ("rinf", Unit::Mebibytes, metrics.rinf),
            ("half", Unit::Bytes, metrics.half),
        ];
        for ((what, unit, simulated), expected) in all.into_iter().zip(expected) {
            let title = format!("{what} of {}", layer.name());
            let id = format!("F7.{name}.{what}");
            let it = row(&id, title, Class::Absolute, unit, Value(expected), simulated);
            rows.push(match &id[3..] {
                "fm-switch.t0" | "fm-switch.rinf" | "fm-switch.half" => {
                    noted(it, "the features of this row of Table 4 are known by elimination")
                }
                _ => it,
            });
        }
    }
}

fn apis(rows: &mut Vec<Row>, (immediate, dma): (Metrics, Metrics)) {
    let absolute =
        |id, what: &str, unit, expected, simulated| row(id, what, Class::Absolute, unit, expected, simulated);
    let bound = "the bound of the SBus, in the paper too: no result";
    rows.extend([
        absolute(
            "F7.api-imm.t0",
            "t0 of myri_cmd_send_imm()",
            Unit::Micros,
            Value(105.0),
            immediate.t0,
        ),
        noted(
            against(
                23.9,
                absolute(
                    "F7.api-imm.rinf",
                    "rinf of myri_cmd_send_imm()",
                    Unit::Mebibytes,
                    Value(23.9),
                    immediate.rinf,
                ),
            ),
            bound,
        ),
        noted(
            absolute(
                "F7.api-imm.half",
                "half of myri_cmd_send_imm()",
                Unit::Bytes,
                Either(4409.0, 3873.0),
                immediate.half,
            ),
            "section 1 says 3,873, the abstract 4,409 and section 4.6 that it is a lower bound",
        ),
        absolute(
            "F7.api-dma.t0",
            "t0 of myri_cmd_send()",
            Unit::Micros,
            Value(121.0),
            dma.t0,
        ),
        noted(
            against(
                23.9,
                absolute(
                    "F7.api-dma.rinf",
                    "rinf of myri_cmd_send()",
                    Unit::Mebibytes,
                    Value(23.9),
                    dma.rinf,
                ),
            ),
            bound,
        ),
        absolute(
            "F7.api-dma.half",
            "half of myri_cmd_send()",
            Unit::Bytes,
            AtLeast(6900.0),
            dma.half,
        ),
    ]);
}

fn features(rows: &mut Vec<Row>, measured: &Measured) {
    let of = |layer| measured.metrics(layer);
    let (baseline, streamed) = (of(Layer::Baseline), of(Layer::Streamed));
    let (hybrid, all_dma, managed) = (of(Layer::Hybrid), of(Layer::AllDma), of(Layer::Managed));
    let (switch, fm) = (of(Layer::ManagedSwitch), of(Layer::Fm));
    let ratio =
        |id, what: &str, unit, expected, simulated| row(id, what, Class::Ratio, unit, expected, simulated);
    rows.extend([
        against(
            1.0,
            ratio(
                "F8.t0",
                "t_0 of streamed by that of baseline",
                Unit::Plain,
                Value(3.5 / 4.2),
                streamed.t0 / baseline.t0,
            ),
        ),
        against(
            1.0,
            ratio(
                "F8.half",
                "n_1/2 of streamed by that of baseline",
                Unit::Plain,
                Value(249.0 / 315.0),
                streamed.half / baseline.half,
            ),
        ),
        claim(
            "F9",
            "hybrid has lower t_0, n_1/2 and r_inf than all-DMA",
            hybrid.t0 < all_dma.t0 && hybrid.half < all_dma.half && hybrid.rinf < all_dma.rinf,
        ),
        ratio(
            "F10.t0",
            "buffer management: t_0 more",
            Unit::Micros,
            SignAndSize(0.3),
            managed.t0 - hybrid.t0,
        ),
        ratio(
            "F10.half",
            "buffer management: n_1/2 more",
            Unit::Bytes,
            SignAndSize(9.0),
            managed.half - hybrid.half,
        ),
        ratio(
            "F11.t0",
            "switch(): t_0 more",
            Unit::Micros,
            Value(3.0),
            switch.t0 - managed.t0,
        ),
        ratio(
            "F11.half",
            "switch(): n_1/2 more",
            Unit::Bytes,
            Value(74.0),
            switch.half - managed.half,
        ),
        against(
            1.0,
            ratio(
                "F11.rinf",
                "switch(): r_inf by that without",
                Unit::Plain,
                Value(21.8 / 21.9),
                switch.rinf / managed.rinf,
            ),
        ),
        ratio(
            "F12.t0",
            "flow control: t_0 more",
            Unit::Micros,
            SignAndSize(0.3),
            fm.t0 - managed.t0,
        ),
        ratio(
            "F12.half",
            "flow control: n_1/2 more",
            Unit::Bytes,
            SignAndSize(1.0),
            fm.half - managed.half,
        ),
        // Acknowledgements take the SBus for less than our streams resolve.
        against(
            0.0,
            ratio(
                "F12.rinf",
                "flow control: r_inf more",
                Unit::Mebibytes,
                SignAndSize(-0.5),
                ((fm.rinf - managed.rinf) * 1e3).round() / 1e3,
            ),
        ),
    ]);
}

fn peak(rows: &mut Vec<Row>, measured: &Measured) {
    let theory = &measured.curves[&Layer::Theoretical];
    for bytes in [16, 128, 600] {
        let formula = 0.32 + 0.0125 * f64::from(bytes);
        let period = super::find(&theory.periods, bytes);
        rows.push(row(
            &format!("F13.{bytes}.overhead"),
            format!("LANai without instructions, {bytes} bytes"),
            Class::Structural,
            Unit::Micros,
            Value(formula),
            period,
        ));
        rows.push(row(
            &format!("F13.{bytes}.latency"),
            format!("LANai without instructions, {bytes} bytes, one way"),
            Class::Structural,
            Unit::Micros,
            Value(formula + 0.55),
            measured.latency(Layer::Theoretical, bytes),
        ));
    }
}

fn context(rows: &mut Vec<Row>, measured: &Measured) {
    let (latency, bandwidth) = (measured.latency(Layer::Fm, 16), measured.rate(Layer::Fm, 128));
    let largest = measured.rate(Layer::Fm, 512);
    let rinf = measured.metrics(Layer::Fm).rinf;
    let ratio =
        |id, what: &str, unit, expected, simulated| row(id, what, Class::Ratio, unit, expected, simulated);
    rows.extend([
        ratio(
            "F14.rinf",
            "bandwidth at 128 bytes by r_inf",
            Unit::Plain,
            Value(16.2 / 21.4),
            bandwidth / rinf,
        ),
        ratio(
            "F14.512",
            "bandwidth at 128 bytes by that at 512",
            Unit::Plain,
            Value(16.2 / 19.6),
            bandwidth / largest,
        ),
        ratio(
            "F15.latency",
            "4 words: no slower than SSAM",
            Unit::Micros,
            AtMost(26.0),
            latency,
        ),
        ratio(
            "F15.bandwidth",
            "32 words: more than SSAM's peak",
            Unit::Mebibytes,
            AtLeast(7.5),
            bandwidth,
        ),
        ratio(
            "F16.latency",
            "4 words: slower than HPAM",
            Unit::Micros,
            AtLeast(15.0),
            latency,
        ),
        ratio(
            "F16.bandwidth",
            "32 words: more than HPAM's peak",
            Unit::Mebibytes,
            AtLeast(12.0),
            bandwidth,
        ),
    ]);
}

fn shapes(rows: &mut Vec<Row>, measured: &Measured, immediate: &Call) {
    let at_all = |fast: Layer, slow: Layer| {
        let less = |(one, other): (&(f64, f64), &(f64, f64))| one.1 < other.1;
        let (fast, slow) = (&measured.curves[&fast], &measured.curves[&slow]);
        fast.periods.iter().zip(&slow.periods).all(less)
            && fast.latencies.iter().zip(&slow.latencies).all(less)
    };
    let rate = |layer, bytes| measured.rate(layer, bytes);
    let with_flow_control = |bytes| rate(Layer::Fm, bytes) / rate(Layer::Managed, bytes);
    let api_rate = |bytes: u32| rate_of(immediate, bytes);
    rows.extend([
        claim(
            "F17.3",
            "figure 3: at all sizes streamed is better than baseline, the theoretical peak than both",
            at_all(Layer::Theoretical, Layer::Streamed) && at_all(Layer::Streamed, Layer::Baseline),
        ),
        claim(
            "F17.4",
            "figure 4: hosts make all slower; hybrid is better for short packets, all-DMA in bandwidth for long ones",
            at_all(Layer::Streamed, Layer::AllDma)
                && rate(Layer::Hybrid, 16) > rate(Layer::AllDma, 16)
                && rate(Layer::Hybrid, 600) < rate(Layer::AllDma, 600)
                && measured.latency(Layer::Hybrid, 16) < measured.latency(Layer::AllDma, 16),
        ),
        claim(
            "F17.7",
            "figure 7: switch() costs little of latency, and much of the bandwidth of short packets",
            measured.latency(Layer::ManagedSwitch, 128) < 1.1 * measured.latency(Layer::Managed, 128)
                && rate(Layer::ManagedSwitch, 64) < 0.7 * rate(Layer::Managed, 64)
                && rate(Layer::ManagedSwitch, 600) > 0.95 * rate(Layer::Managed, 600),
        ),
        claim(
            "F17.8",
            "figure 8: flow control costs less than a tenth of latency and, above 8 bytes, of bandwidth",
            SIZES[1..].iter().all(|bytes| with_flow_control(*bytes) > 0.9)
                && measured.latency(Layer::Fm, 128) < 1.1 * measured.latency(Layer::Managed, 128),
        ),
        row(
            "F17.8.8",
            "figure 8: bandwidth of 8 bytes by that without flow control",
            Class::Shape,
            Unit::Plain,
            Value(1.0),
            with_flow_control(SIZES[0]),
        ),
        claim(
            "F17.9",
            "figure 9: FM is better than the Myrinet API at all sizes",
            SIZES.iter().all(|bytes| rate(Layer::Fm, *bytes) > api_rate(*bytes)),
        ),
    ]);
}

fn rate_of(call: &Call, bytes: u32) -> f64 {
    let bytes = f64::from(bytes);
    rate((bytes, call.time(bytes)))
}
