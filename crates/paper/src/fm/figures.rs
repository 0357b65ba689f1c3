//! Figures 3, 4, 7, 8 and 9: latency (a) and bandwidth (b) by size.

use super::api::{Call, OVERHEAD};
use super::metrics::rate;
use super::{Layer, Measured};
use crate::{Axis, Figure, Mark, Series};
use farpost_sim::machine::Machine;

/// Number, title, layers.
const FIGURES: [(u32, &str, &[Layer]); 5] = [
    (
        3,
        "LANai to LANai",
        &[Layer::Theoretical, Layer::Streamed, Layer::Baseline],
    ),
    (
        4,
        "Minimal host to host",
        &[Layer::Streamed, Layer::Hybrid, Layer::AllDma],
    ),
    (
        7,
        "Host to host with buffer management",
        &[Layer::Hybrid, Layer::Managed, Layer::ManagedSwitch],
    ),
    (8, "Fast Messages", &[Layer::Managed, Layer::Fm]),
    (9, "Fast Messages and the Myrinet API", &[Layer::Fm]),
];

fn axis(title: &str) -> Axis {
    Axis {
        title: title.into(),
        logarithmic: false,
    }
}

fn series(name: &str, points: &[(f64, f64)]) -> Series {
    Series {
        name: name.into(),
        points: points.to_vec(),
    }
}

fn mark(at: (f64, f64), label: &str) -> Mark {
    Mark {
        at,
        label: label.into(),
    }
}

/// Points that the text states: of latency, of bandwidth.
fn marks(number: u32) -> (Vec<Mark>, Vec<Mark>) {
    let half = |rinf: f64, half: f64, label| mark((half, rinf / 2.0), label);
    let latencies = vec![
        mark((16.0, 25.0), "FM, 4 words"),
        mark((128.0, 32.0), "FM, 32 words"),
    ];
    match number {
        3 => (
            vec![],
            vec![
                half(76.3, 315.0, "n_1/2 of baseline"),
                half(76.3, 249.0, "n_1/2 of streamed"),
            ],
        ),
        4 => (
            vec![],
            vec![
                half(21.2, 44.0, "n_1/2 of hybrid"),
                half(33.0, 162.0, "n_1/2 of all-DMA"),
            ],
        ),
        7 => (
            vec![],
            vec![
                half(21.9, 53.0, "n_1/2 with buffer management"),
                half(21.8, 127.0, "n_1/2 with switch()"),
            ],
        ),
        _ => (
            latencies,
            vec![
                half(21.4, 54.0, "n_1/2 of FM"),
                mark((128.0, 16.2), "FM, 128 bytes"),
                mark((512.0, 19.6), "FM, 512 bytes"),
            ],
        ),
    }
}

pub(super) fn figures(machine: &Machine, measured: &Measured) -> Vec<Figure> {
    let more = measured.metrics(Layer::AllDma).t0 - measured.metrics(Layer::Hybrid).t0;
    let calls = [
        ("myri_cmd_send_imm()", Call::immediate(machine, OVERHEAD)),
        ("myri_cmd_send()", Call::dma(machine, OVERHEAD, more)),
    ];
    let mut figures = Vec::new();
    for (number, title, layers) in FIGURES {
        let (mut latencies, mut rates) = (Vec::new(), Vec::new());
        for layer in layers {
            let curve = &measured.curves[layer];
            latencies.push(series(layer.name(), &curve.latencies));
            let points: Vec<_> = curve
                .periods
                .iter()
                .map(|point| (point.0, rate(*point)))
                .collect();
            rates.push(series(layer.name(), &points));
        }
        if number == 9 {
            for (name, call) in &calls {
                let curve = &measured.curves[&Layer::Fm];
                let times: Vec<_> = curve
                    .periods
                    .iter()
                    .map(|(bytes, _)| (*bytes, call.time(*bytes)))
                    .collect();
                let points: Vec<_> = times.iter().map(|point| (point.0, rate(*point))).collect();
                latencies.push(series(name, &times));
                rates.push(series(name, &points));
            }
        }
        let (of_latency, of_rate) = marks(number);
        figures.push(Figure {
            name: format!("fm-{number}a"),
            title: format!("{title}: latency"),
            x: axis("packet size (bytes)"),
            y: axis("one-way latency (us)"),
            series: latencies,
            marks: of_latency,
        });
        figures.push(Figure {
            name: format!("fm-{number}b"),
            title: format!("{title}: bandwidth"),
            x: axis("packet size (bytes)"),
            y: axis("bandwidth (2^20 bytes/s)"),
            series: rates,
            marks: of_rate,
        });
    }
    figures
}
