//! Messages of libfabric's fabric, of a peer that knows its own tokens: only the segment that it may write changes, as its messages say and
//! no further, nobody else is blamed, and the windows of packets stay what they are.

use crate::input::{Input, Script};
use farpost_fabric::Peer;
use farpost_ofi::fuzzing::{BYTES, Parsed, Receiver, Small, WINDOW, control, parse};

const PEER: Peer = Peer(1);
const OTHER: Peer = Peer(2);
/// Handles: the peer's to write, to read, withdrawn, and the other one's.
const MINE: u32 = 0;
const THEIRS: u32 = 3;

/// What a line or put to the peer's own segment must change.
fn expect(memory: &mut [u8], message: &Parsed<'_>) {
    let (handle, offset, bytes) = match message {
        Parsed::Line { handle, number, line } => {
            let bytes: Vec<u8> = line.iter().flat_map(|word| word.to_ne_bytes()).collect();
            (*handle, u64::from(*number) * 64, bytes)
        }
        Parsed::Put {
            handle,
            offset,
            bytes,
        } => (*handle, *offset, bytes.to_vec()),
        _ => return,
    };
    if handle == MINE
        && let Ok(offset) = usize::try_from(offset)
        && let Some(end) = offset.checked_add(bytes.len())
        && let Some(place) = memory.get_mut(offset..end)
    {
        place.copy_from_slice(&bytes);
    }
}

pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut receiver = Receiver::new().expect("memory");
    let lanes = receiver.lanes();
    let mut expected = vec![0; BYTES];
    let mut steps = 0;
    while let Some(step) = input.step() {
        steps += 1;
        if steps > 60 {
            break;
        }
        if step == 255 {
            let lane = usize::from(input.u8()) % lanes;
            receiver.sends(PEER, lane);
            receiver.sends(OTHER, lane);
            continue;
        }
        let len = usize::from(input.u16()) % 1024;
        let bytes = input.bytes(len);
        let taken = receiver.arrived(PEER, bytes);
        match parse(bytes) {
            Some((_, Parsed::Gather { handle, mut records })) if taken => {
                assert!(handle < THEIRS);
                // A segment of another's ends the message.
                while let Some(record) = records.next() {
                    let (Parsed::Line { handle, .. } | Parsed::Put { handle, .. }) = record else {
                        break;
                    };
                    if handle >= THEIRS {
                        break;
                    }
                    expect(&mut expected, &record);
                }
            }
            Some((_, message)) if taken => expect(&mut expected, &message),
            _ => assert!(!taken, "what is no message is nobody's"),
        }
        assert_eq!(receiver.bytes(MINE as usize), expected);
    }
    for handle in 1..=THEIRS {
        assert_eq!(
            receiver.bytes(handle as usize),
            vec![0; BYTES],
            "segment {handle}"
        );
    }
    assert!(receiver.blamed.iter().all(|(peer, _)| *peer == PEER));
    for lane in 0..lanes {
        assert!(receiver.under_way(PEER, lane) <= WINDOW && receiver.under_way(OTHER, lane) <= WINDOW);
    }
    // The other one's messages arrive.
    let line = Small::line(0, THEIRS, 3, &[7; 8]);
    let before = receiver.blamed.len();
    assert!(receiver.arrived(OTHER, line.bytes()) && receiver.blamed.len() == before);
    assert_eq!(
        receiver.bytes(THEIRS as usize)[192..256],
        [7u64; 8].map(u64::to_ne_bytes).concat()
    );
}

pub fn seeds() -> Vec<Vec<u8>> {
    let message = |script: Script, bytes: &[u8]| script.u8(0).u16(bytes.len() as u16).bytes(bytes);
    let mut seeds = Vec::new();
    for handle in 0..=THEIRS {
        for used in [1, 5, 8] {
            let line = std::array::from_fn(|at| u64::from(at < used));
            seeds.push(message(Script::default(), Small::line(9, handle, 63, &line).bytes()).0);
        }
        let put = [Small::put(9, handle, 4090).bytes(), b"sixbyt"].concat();
        let word = Small::put(9, handle, 8).with(u64::MAX);
        seeds.push(message(message(Script::default(), &put), word.bytes()).0);
        let mut gathered = Small::gather(9, handle).bytes().to_vec();
        for of in [MINE, handle] {
            gathered.extend_from_slice(Small::record(of, 40, 13).as_record());
            gathered.extend_from_slice(&[1; 16]);
            gathered.extend_from_slice(Small::line(0, of, 5, &[1, 2, 3, 0, 0, 0, 0, 0]).as_record());
        }
        seeds.push(message(Script::default(), &gathered).0);
    }
    for what in [control::PACKET, control::CREDIT] {
        let script = (0..3).fold(Script::default(), |script, _| script.u8(255).u8(1));
        let small = Small::control(9, PEER.0, what, 1, &[2]);
        seeds.push(message(message(script, small.bytes()), small.bytes()).0);
    }
    seeds
}
