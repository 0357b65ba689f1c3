//! For the fuzz targets: what the process that leads makes of what others tell it, without a job.

use farpost_mpi::datatype::{Datatype, HEADER_WORDS, Header};
use std::cell::Cell;
use std::rc::Rc;

use super::*;
use crate::check::end::Ending;
use crate::check::header::Sent;

thread_local! {
    // Debug information is read once.
    static SITES: Sites = Sites::new();
}

/// What a leader has heard, in a job of `size`.
pub struct Leader {
    ledger: Ledger,
    ending: Ending,
    size: u32,
}

impl Leader {
    pub fn new(size: u32) -> Self {
        Self {
            ledger: Ledger::default(),
            ending: Ending::default(),
            size,
        }
    }

    /// A record has come; what it shows to be wrong.
    pub fn record(&self, source: u32, record: &[u8]) -> Option<String> {
        let mut reader = Reader(record);
        match reader.word()? {
            CALL => SITES.with(|sites| {
                let found = self.ledger.take(sites, (source, self.size), &mut reader);
                found.map(|(_, text)| text)
            }),
            kind => {
                self.ending.take(kind, source, &mut reader);
                None
            }
        }
    }

    /// What is told at the end.
    pub fn end(&self) -> Vec<String> {
        let mut lines = SITES.with(|sites| self.ledger.unfinished(sites));
        lines.extend(self.ending.all_left().1);
        lines
    }
}

/// What the header of a message says, and whether its data may be received as integers.
pub fn header(words: [u64; HEADER_WORDS]) -> Option<(String, bool)> {
    let header: Header = Rc::new(words.map(Cell::new));
    let sent = Sent::read(&header)?;
    let text = SITES.with(|sites| sites.call_text(sent.call));
    let integers = integer().signature().repeated(sent.signature.elements);
    let matches = integers.matches(&sent.signature);
    Some((format!("{} by {text}", sent.signature.describe()), matches))
}

fn integer() -> Datatype {
    Datatype::predefined(0x20d).expect("MPI_INT")
}

/// Calls of three members, the last of which differs in something, and what is left at the end.
pub fn records() -> Vec<Vec<Vec<u8>>> {
    let one = integer().signature();
    let said = |root, sends, recvs| Said {
        root,
        op: Some(0x23),
        uniform: Some(one.repeated(3)),
        by_side: false,
        sends,
        recvs,
    };
    let call = |rank: u32, fun: u16, inter, said| {
        let told = Told {
            rank,
            process: rank,
            side: 0,
            members: 4,
            inter,
            call: Call {
                fun: Fun(fun),
                site: Site(77),
            },
            comm: "MPI_COMM_WORLD".into(),
            said,
        };
        told.write(5, 1)
    };
    let flows = [
        Flow::Nothing,
        Flow::Same(one),
        Flow::One(1, one.repeated(9)),
        Flow::Each(vec![one; 4]),
        Flow::Edges(vec![(0, one), (1, one), (1, one.repeated(2))]),
    ];
    let mut all = Vec::new();
    for (at, flow) in flows.iter().enumerate() {
        for inter in [false, true] {
            let first = call(0, 7, inter, said(Some(0), flow.clone(), Flow::Same(one)));
            let second = call(
                1,
                7,
                inter,
                said(Some(0), flows[(at + 1) % 5].clone(), flow.clone()),
            );
            let third = call(
                2,
                7 + at as u16,
                inter,
                said(Some(at as i32), Flow::Nothing, Flow::Nothing),
            );
            all.push(vec![first, second, third]);
        }
    }
    // As `end` writes them.
    let left = Writer::default()
        .word(3)
        .word(2)
        .word(1)
        .text(b"a request")
        .done();
    all.push(vec![left.clone(), left, Writer::default().word(2).done()]);
    all
}

/// The header of a message of integers.
pub fn seed_header() -> Vec<u64> {
    let mut words = vec![0xfa12_c4ec << 32 | 7 << 16 | 1, 77];
    words.extend(integer().signature().repeated(3).words());
    words
}
