//! Faults of a run, as written: `cut h3.rail0 at 5ms for 2ms`. The same text in a machine's file and as an option.
//!
//! | Text | What happens |
//! |---|---|
//! | `cut PLACE [at TIME] [for TIME]` | links fail in both directions, with what is on them, and work again |
//! | `loss CHANCE`, `damage CHANCE` | of each packet on each link |
//! | `slow hN xFACTOR` | software of the host takes so many times as long |
//! | `dead hN [at TIME]` | the host stops, and its links with it |
//!
//! A place is `hN` (all links there), `hN.railR`, `A-B` between two hosts or switches (`sLEVEL.NUMBER`), or `any`, which the seed decides, as it does of a time
//! `T1..T2`.

use super::quantity::{Ratio, Written, measure};
use crate::time::Ps;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use std::str::FromStr;

/// A host or a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultNode {
    Host(u32),
    Switch { level: u32, number: u32 },
}

/// Links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPlace {
    /// One that the seed decides.
    Any,
    /// All there.
    At(FaultNode),
    /// A host's rail.
    Rail(u32, u32),
    Between(FaultNode, FaultNode),
}

/// A time, which the seed decides where the two are not the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultTime {
    pub first: Ps,
    pub last: Ps,
}

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    Cut {
        place: FaultPlace,
        at: FaultTime,
        /// `None`: for ever.
        lasts: Option<FaultTime>,
    },
    /// Chances.
    Loss(f64),
    Damage(f64),
    Slow {
        host: u32,
        factor: f64,
    },
    Dead {
        /// `None`: one that the seed decides.
        host: Option<u32>,
        at: FaultTime,
    },
}

/// A fault and how it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultSpec {
    pub text: String,
    pub kind: FaultKind,
}

const PLACES: &str = "h3, h3.rail0, h3-h4, s0.1-s1.2 or any";

fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn node(text: &str) -> Option<FaultNode> {
    if let Some(host) = text.strip_prefix('h') {
        return number(host).map(FaultNode::Host);
    }
    let (level, switch) = text.strip_prefix('s')?.split_once('.')?;
    Some(FaultNode::Switch {
        level: number(level)?,
        number: number(switch)?,
    })
}

fn place(text: &str) -> Option<FaultPlace> {
    if text == "any" {
        return Some(FaultPlace::Any);
    }
    if let Some((a, b)) = text.split_once('-') {
        return Some(FaultPlace::Between(node(a)?, node(b)?));
    }
    if let Some((host, rail)) = text.split_once(".rail") {
        return Some(FaultPlace::Rail(number(host.strip_prefix('h')?)?, number(rail)?));
    }
    node(text).map(FaultPlace::At)
}

/// A number with its unit, with or without a space between.
fn time(what: &str, text: &str) -> Result<Ps, String> {
    let wrong =
        |why: &str| format!("{what} {text} {why}, allowed is a time like 5ms, in ps, ns, us, ms or s");
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if number.starts_with('-') {
        return Err(wrong("is negative"));
    }
    if number.is_empty() || number.parse::<f64>().is_err() {
        return Err(wrong("is no number with a unit"));
    }
    if unit.is_empty() {
        return Err(wrong("has no unit"));
    }
    measure(&Written::Text(format!("{number} {unit}"))).map_err(|_| wrong("has a wrong unit"))
}

fn times(what: &str, text: &str) -> Result<FaultTime, String> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let (first, last) = (time(what, first)?, time(what, last)?);
    if last < first {
        return Err(format!(
            "{what} {text} ends before it begins, allowed is the earlier time first"
        ));
    }
    Ok(FaultTime { first, last })
}

/// The words of a fault: its kind, what follows, and what stands behind `at` and `for`.
#[derive(Default)]
struct Words {
    what: Vec<String>,
    at: Option<String>,
    lasts: Option<String>,
}

impl Words {
    fn of(text: &str) -> Result<Self, String> {
        let mut it = Self::default();
        let mut into = None;
        for word in text.split_whitespace() {
            let next = match word {
                "at" => &mut it.at,
                "for" => &mut it.lasts,
                _ => {
                    match into {
                        None => it.what.push(word.into()),
                        Some("at") => it.at.get_or_insert_default().push_str(word),
                        Some(_) => it.lasts.get_or_insert_default().push_str(word),
                    }
                    continue;
                }
            };
            if next.replace(String::new()).is_some() {
                return Err(format!("{word} is there twice, allowed is once"));
            }
            into = Some(if word == "at" { "at" } else { "for" });
        }
        Ok(it)
    }

    /// The words behind the kind: so many.
    fn exactly<const N: usize>(&self, form: &str) -> Result<[&str; N], String> {
        let words: Vec<&str> = self.what[1..].iter().map(String::as_str).collect();
        let found = words.join(" ");
        words.try_into().map_err(|_| {
            let found = if found.is_empty() {
                "nothing".into()
            } else {
                format!("\"{found}\"")
            };
            format!("{} is followed by {found}, allowed is {form}", self.what[0])
        })
    }

    fn only(&self, at: bool, lasts: bool) -> Result<(), String> {
        for (word, there, may) in [("at", &self.at, at), ("for", &self.lasts, lasts)] {
            if there.is_some() && !may {
                return Err(format!("{} has no {word}: it is so all the time", self.what[0]));
            }
        }
        Ok(())
    }

    fn at(&self) -> Result<FaultTime, String> {
        self.at
            .as_deref()
            .map_or(Ok(FaultTime::default()), |text| times("at", text))
    }
}

fn host(text: &str) -> Result<u32, String> {
    match node(text) {
        Some(FaultNode::Host(host)) => Ok(host),
        _ => Err(format!("{text} is no host, allowed is one like h3")),
    }
}

fn chance(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|chance| (0.0..=1.0).contains(chance));
    number.ok_or_else(|| format!("{text} is no chance, allowed is a number from 0 to 1, without a unit"))
}

fn factor(text: &str) -> Result<f64, String> {
    let number = text
        .strip_prefix('x')
        .and_then(|number| number.parse::<f64>().ok());
    let ratio = number.and_then(|number| measure::<Ratio>(&Written::Number(number)).ok());
    let factor = ratio
        .map(|ratio| ratio.0)
        .filter(|factor| (1.0..=1e6).contains(factor));
    factor.ok_or_else(|| format!("{text} is no factor, allowed is one from x1 to x1000000"))
}

impl FromStr for FaultKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = Words::of(text)?;
        let kind = words.what.first().map_or("", String::as_str);
        match kind {
            "cut" => {
                let [at_links] = words.exactly("a place and at and for")?;
                Ok(Self::Cut {
                    place: place(at_links)
                        .ok_or_else(|| format!("{at_links} is no place, allowed is one like {PLACES}"))?,
                    at: words.at()?,
                    lasts: words
                        .lasts
                        .as_deref()
                        .map(|text| times("for", text))
                        .transpose()?,
                })
            }
            "loss" | "damage" => {
                words.only(false, false)?;
                let [number] = words.exactly("a chance")?;
                let number = chance(number)?;
                Ok(if kind == "loss" {
                    Self::Loss(number)
                } else {
                    Self::Damage(number)
                })
            }
            "slow" => {
                words.only(false, false)?;
                let [of, by] = words.exactly("a host and a factor like h3 x4")?;
                Ok(Self::Slow {
                    host: host(of)?,
                    factor: factor(by)?,
                })
            }
            "dead" => {
                words.only(true, false)?;
                let [of] = words.exactly("a host")?;
                Ok(Self::Dead {
                    host: if of == "any" { None } else { Some(host(of)?) },
                    at: words.at()?,
                })
            }
            _ => Err(format!(
                "unknown fault `{kind}`, allowed are cut, loss, damage, slow and dead"
            )),
        }
    }
}

impl FromStr for FaultSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = text.parse().map_err(|why| format!("fault \"{text}\": {why}"))?;
        let text = text.into();
        Ok(Self { text, kind })
    }
}

/// `[[faults]]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    what: Text,
}

struct Text(FaultSpec);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for FaultSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Raw::deserialize(from).map(|raw| raw.what.0)
    }
}

/// What several faults contradict each other in: the second one's index.
pub(super) fn contradiction(faults: &[FaultSpec]) -> Option<(usize, String)> {
    faults.iter().enumerate().find_map(|(at, fault)| {
        let same = |other: &&FaultSpec| match (&fault.kind, &other.kind) {
            (FaultKind::Loss(_), FaultKind::Loss(_)) | (FaultKind::Damage(_), FaultKind::Damage(_)) => true,
            (FaultKind::Slow { host: a, .. }, FaultKind::Slow { host: b, .. }) => a == b,
            _ => false,
        };
        let before = faults[..at].iter().find(same)?;
        let what = format!(
            "fault \"{}\" contradicts \"{}\", allowed is one of them",
            fault.text, before.text
        );
        Some((at, what))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> FaultKind {
        text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    fn ms(time: u64) -> FaultTime {
        let time = Ps::from_nanos(time * 1_000_000);
        FaultTime {
            first: time,
            last: time,
        }
    }

    #[test]
    fn faults_are_what_they_say() {
        let rail = FaultPlace::Rail(3, 0);
        for text in [
            "cut h3.rail0 at 5ms for 2ms",
            "cut h3.rail0 at 5 ms for 2 ms",
            "cut h3.rail0 for 2ms at 5ms",
        ] {
            let (at, lasts) = (ms(5), Some(ms(2)));
            assert_eq!(
                kind(text),
                FaultKind::Cut {
                    place: rail,
                    at,
                    lasts
                }
            );
        }
        let cut = |place| FaultKind::Cut {
            place,
            at: ms(0),
            lasts: None,
        };
        assert_eq!(kind("cut any"), cut(FaultPlace::Any));
        assert_eq!(kind("cut h12"), cut(FaultPlace::At(FaultNode::Host(12))));
        let switch = FaultNode::Switch { level: 0, number: 1 };
        assert_eq!(
            kind("cut h3-s0.1"),
            cut(FaultPlace::Between(FaultNode::Host(3), switch))
        );
        assert_eq!(kind("loss 1e-4"), FaultKind::Loss(1e-4));
        assert_eq!(kind("damage 0.5"), FaultKind::Damage(0.5));
        assert_eq!(kind("slow h3 x4"), FaultKind::Slow { host: 3, factor: 4.0 });
        let at = FaultTime {
            first: ms(1).first,
            last: ms(2).first,
        };
        assert_eq!(kind("dead any at 1ms..2ms"), FaultKind::Dead { host: None, at });
    }

    #[test]
    fn what_is_written_otherwise_is_refused_with_what_is_allowed() {
        for (text, why) in [
            ("", "unknown fault ``, allowed are cut, loss"),
            ("melt h3", "unknown fault `melt`"),
            ("cut", "cut is followed by nothing, allowed is a place"),
            ("cut h3 h4", "cut is followed by \"h3 h4\""),
            ("cut 3", "3 is no place, allowed is one like h3, h3.rail0"),
            ("cut h3.rail", "is no place"),
            ("cut h-3", "is no place"),
            ("cut h3 at 5", "at 5 has no unit, allowed is a time like 5ms"),
            ("cut h3 at -5ms", "at -5ms is negative"),
            ("cut h3 at 5 MB", "at 5MB has a wrong unit"),
            ("cut h3 at", "at  is no number with a unit"),
            ("cut h3 at 1ms at 2ms", "at is there twice"),
            ("cut h3 at 2ms..1ms", "ends before it begins"),
            ("cut h3 until 5ms", "cut is followed by \"h3 until 5ms\""),
            ("loss 2", "2 is no chance, allowed is a number from 0 to 1"),
            ("loss -0.1", "is no chance"),
            ("loss NaN", "is no chance"),
            ("loss 1e-4 at 5ms", "loss has no at"),
            ("damage", "damage is followed by nothing"),
            ("slow h3", "allowed is a host and a factor like h3 x4"),
            ("slow h3 4", "4 is no factor"),
            ("slow h3 x0.5", "x0.5 is no factor, allowed is one from x1"),
            ("slow any x4", "any is no host"),
            ("dead s0.1", "s0.1 is no host"),
            ("dead h5 for 1ms", "dead has no for"),
        ] {
            let said = text.parse::<FaultKind>().expect_err(text);
            assert!(said.contains(why), "{text}: {said}");
            assert!(!said.contains('\n'));
        }
    }

    #[test]
    fn contradictions_are_found() {
        let all = |texts: &[&str]| -> Vec<FaultSpec> {
            texts.iter().map(|it| it.parse().expect("right")).collect()
        };
        assert!(contradiction(&all(&["loss 0.1", "damage 0.1", "cut any", "cut any"])).is_none());
        for two in [
            ["loss 0.1", "loss 0.2"],
            ["damage 0", "damage 0"],
            ["slow h1 x2", "slow h1 x4"],
        ] {
            let (at, what) = contradiction(&all(&two)).expect("two of one");
            assert_eq!(at, 1);
            assert!(what.contains(two[0]) && what.contains(two[1]), "{what}");
        }
    }
}
