//! What `FARPOST_CHECK` reads from other ranks: records of collective calls and of the end, and the headers of messages. Whatever they say,
//! what is told about them is short and holds nothing that a terminal would take for a command.

use crate::input::{Input, Script};
use mpi_abi::fuzzing::{Leader, header, records, seed_header};

/// Ranks of the job.
const SIZE: u32 = 4;
/// No line is longer that is made of so little.
const LONGEST: usize = 16 << 10;

fn look_at(text: &str) {
    assert!(text.len() < LONGEST, "a line of {} bytes", text.len());
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let leader = Leader::new(SIZE);
    let mut steps = 0;
    while let Some(step) = input.step() {
        steps += 1;
        if steps > 40 {
            break;
        }
        if step & 7 == 7 {
            let words = std::array::from_fn(|_| input.u64());
            if let Some((text, _)) = header(words) {
                look_at(&text);
            }
            continue;
        }
        let len = usize::from(input.u16());
        if let Some(text) = leader.record(u32::from(step) % SIZE, input.bytes(len)) {
            look_at(&text);
        }
    }
    for line in leader.end() {
        look_at(&line);
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let record = |script: Script, (rank, record): (usize, &Vec<u8>)| {
        script.u8(rank as u8).u16(record.len() as u16).bytes(record)
    };
    let all = records();
    let mut seeds: Vec<_> = all
        .iter()
        .map(|records| records.iter().enumerate().fold(Script::default(), record).0)
        .collect();
    let words = seed_header();
    seeds.push(
        words
            .iter()
            .fold(Script::default().u8(7), |script, word| script.u64(*word))
            .0,
    );
    seeds
}
