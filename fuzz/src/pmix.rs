//! What a PMIx library answers to a rank that joins, puts, meets the others and gets: any status, any kind of value.

use crate::input::{Input, Script};
use farpost_job::fuzzing::{PmixAnswer, pmix};

/// `PMIX_STRING`, `PMIX_INT`, `PMIX_UINT32`, `PMIX_BYTE_OBJECT`, `PMIX_PROC_RANK`, and some that are not used.
const KINDS: [u16; 8] = [3, 6, 14, 27, 40, 1, 0, 0xffff];
/// `PMIX_SUCCESS`, `PMIX_ERROR`, `PMIX_ERR_TIMEOUT`, `PMIX_ERR_NOT_FOUND`, `PMIX_OPERATION_SUCCEEDED`.
const STATUS: [i32; 5] = [0, -1, -24, -46, -157];

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut answers = Vec::new();
    while let Some(step) = input.step() {
        let status = |at: u8| STATUS[usize::from(at).min(7) % STATUS.len()];
        answers.push(PmixAnswer {
            status: (status(step & 7), status(step >> 3 & 7)),
            kind: (step & 0x40 == 0).then(|| KINDS[usize::from(input.u8()) % KINDS.len()]),
            bytes: input.counted().to_vec(),
        });
        if answers.len() > 64 {
            break;
        }
    }
    let _ = pmix(answers);
}

pub fn seeds() -> Vec<Vec<u8>> {
    let plain = |script: Script| script.u8(0x40).counted(&[]);
    let of = |script: Script, kind: u8, bytes: &[u8]| script.u8(0).u8(kind).counted(bytes);
    let missing = |script: Script| script.u8(0x40 | 3).counted(&[]);
    let begin = || of(plain(Script::default()), 2, &[0, 0, 0, 4]);
    let end = |script: Script| {
        let script = plain(plain(plain(script)));
        plain(of(of(script, 3, b"+card"), 3, b"+"))
    };
    let appnum = |script: Script| of(of(script, 2, &[0, 0, 0, 1]), 2, &[0, 0, 0, 8]);
    let names = |script: Script| {
        ["a", "a", "b", "b"]
            .iter()
            .fold(script, |script, name| of(script, 0, name.as_bytes()))
    };
    vec![
        end(of(appnum(begin()), 0, b"(vector,(0,2,2))")).0,
        end(names(missing(missing(appnum(begin()))))).0,
        end(missing(missing(missing(missing(missing(begin())))))).0,
        of(plain(Script::default()), 2, &[0xff; 4]).0,
        plain(Script::default()).u8(0x40 | 2).counted(&[]).0,
    ]
}
