//! What processes of a job publish for each other and what the environment says: the first byte chooses which.

use farpost_job::fuzzing::{self, Logs};

thread_local! {
    static LOGS: Logs = Logs::new().expect("a job's memory");
}

pub fn run(data: &[u8]) {
    let Some((which, rest)) = data.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(rest);
    match which % 5 {
        0 => fuzzing::host_map(&text, 1 + u32::from(which / 5)),
        1 => fuzzing::host_card(rest),
        2 => fuzzing::text_value(&text),
        3 => fuzzing::secret(rest),
        _ => {
            let (used, log) = rest.split_at(rest.len().min(4));
            let mut word = [0; 4];
            word[..used.len()].copy_from_slice(used);
            LOGS.with(|logs| logs.read(log, u32::from_le_bytes(word)));
        }
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let of = |which: u8, bytes: &[u8]| [&[which], bytes].concat();
    let record = |key: &[u8], value: &[u8]| {
        let lengths = [
            (key.len() as u16).to_le_bytes(),
            (value.len() as u16).to_le_bytes(),
        ];
        [lengths.as_flattened(), key, value].concat()
    };
    let log = [record(b"k", b"one"), record(b"other", b""), record(b"k", b"two")].concat();
    let used = (log.len() as u32).to_le_bytes();
    vec![
        of(15, b"(vector,(0,2,2))"),
        of(35, b"(vector,[(0,2,1)]x2,0)"),
        of(100, b"(vector,[3,(0,1,2)]x2,[1]x9)"),
        of(1, &fuzzing::own_card()),
        of(1, b"1/0.1.0/boot/1.2/node/12.3.ab/no"),
        of(2, fuzzing::text_of(b"any bytes at all").as_bytes()),
        of(3, &[b'a'; 64]),
        of(4, &[&used[..], &log].concat()),
    ]
}
