//! The key-value exchange in job memory: one append-only log per rank, written by that rank only.
//!
//! A log is `[bytes used: u32] ... at 64: records`, a record `[key length: u16][value length: u16][key][value]`.
//! Readers see records up to the length that was published after them. What they read is another process's
//! writing, so every length is checked.

use crate::error::JobError;
use crate::layout::KVS_LOG_LEN;
use crate::memory::JobMemory;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Longest key, in bytes.
pub const KEY_MAX: usize = 255;
/// Longest value, in bytes.
pub const VALUE_MAX: usize = 8192;

const RECORDS: usize = 64;
const RECORD_HEADER: usize = 4;
const ROOM: usize = KVS_LOG_LEN - RECORDS;

pub(crate) fn put(memory: &JobMemory, rank: u32, key: &str, value: &[u8]) -> Result<(), JobError> {
    if key.is_empty() || key.len() > KEY_MAX {
        return Err(JobError::Kvs(format!(
            "key of {} bytes; allowed are 1 to {KEY_MAX}",
            key.len()
        )));
    }
    if value.len() > VALUE_MAX {
        return Err(JobError::Kvs(format!(
            "value of {} bytes for key {key}; allowed are 0 to {VALUE_MAX}",
            value.len()
        )));
    }
    let log = memory.layout().kvs_log(rank);
    let used_word = memory.map().u32(log);
    let used = used_word.load(Relaxed) as usize;
    let need = RECORD_HEADER + key.len() + value.len();
    if used > ROOM || need > ROOM - used {
        return Err(JobError::Kvs(format!(
            "no room for key {key}: rank {rank} has used {used} of {ROOM} bytes"
        )));
    }
    let at = log + RECORDS + used;
    memory.map().write(at, &(key.len() as u16).to_le_bytes());
    memory.map().write(at + 2, &(value.len() as u16).to_le_bytes());
    memory.map().write(at + RECORD_HEADER, key.as_bytes());
    memory.map().write(at + RECORD_HEADER + key.len(), value);
    used_word.store((used + need) as u32, Release);
    Ok(())
}

/// The latest value `rank` put under `key`.
pub(crate) fn get_from(memory: &JobMemory, rank: u32, key: &str) -> Result<Option<Vec<u8>>, JobError> {
    let damaged = |what: String| JobError::Kvs(format!("the log of rank {rank} is damaged: {what}"));
    let log = memory.layout().kvs_log(rank);
    let used = memory.map().u32(log).load(Acquire) as usize;
    if used > ROOM {
        return Err(damaged(format!("{used} bytes used of {ROOM}")));
    }
    let length = |at: usize| {
        let raw = memory.map().read(at, 2);
        usize::from(u16::from_le_bytes([raw[0], raw[1]]))
    };
    let mut at = 0;
    let mut found = None;
    while at < used {
        if used - at < RECORD_HEADER {
            return Err(damaged(format!("a record is cut off at byte {at}")));
        }
        let record = log + RECORDS + at;
        let (key_len, value_len) = (length(record), length(record + 2));
        let whole = RECORD_HEADER + key_len + value_len;
        if key_len == 0 || key_len > KEY_MAX || value_len > VALUE_MAX || whole > used - at {
            return Err(damaged(format!(
                "the record at byte {at} has lengths {key_len} and {value_len}"
            )));
        }
        if key_len == key.len() && memory.map().read(record + RECORD_HEADER, key_len) == key.as_bytes() {
            found = Some(memory.map().read(record + RECORD_HEADER + key_len, value_len));
        }
        at += whole;
    }
    Ok(found)
}

/// The value of `key`, from the lowest rank that put one.
#[cfg(test)]
pub(crate) fn get(memory: &JobMemory, key: &str) -> Result<Option<Vec<u8>>, JobError> {
    for rank in 0..memory.layout().ranks {
        if let Some(value) = get_from(memory, rank, key)? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::NewJob;
    use proptest::prelude::*;

    fn memory(size: u32) -> JobMemory {
        JobMemory::create(&NewJob {
            size,
            services: 0,
            launcher: 0,
            allowed_cores: 1,
            bound: false,
        })
        .unwrap()
    }

    #[test]
    fn what_was_put_is_got() {
        let m = memory(3);
        put(&m, 1, "name", b"one").unwrap();
        put(&m, 2, "name", b"two").unwrap();
        put(&m, 2, "name", b"three").unwrap();
        put(&m, 2, "empty", b"").unwrap();
        assert_eq!(get(&m, "name").unwrap().unwrap(), b"one");
        assert_eq!(get_from(&m, 2, "name").unwrap().unwrap(), b"three");
        assert_eq!(get(&m, "empty").unwrap().unwrap(), b"");
        assert_eq!(get(&m, "nam").unwrap(), None);
    }

    #[test]
    fn a_full_log_says_so() {
        let m = memory(1);
        let text = (0..100)
            .find_map(|i| put(&m, 0, &format!("key{i}"), &[7; 4000]).err())
            .expect("64 KiB hold no 100 values of 4000 bytes")
            .to_string();
        assert!(text.contains("no room"), "{text}");
        assert_eq!(get(&m, "key3").unwrap().unwrap(), vec![7; 4000]);
        assert!(put(&m, 0, "", b"").is_err());
        assert!(put(&m, 0, &"k".repeat(KEY_MAX + 1), b"").is_err());
        assert!(put(&m, 0, "k", &[0; VALUE_MAX + 1]).is_err());
    }

    proptest! {
        #[test]
        fn damaged_logs_are_reported_or_harmless(bytes in proptest::collection::vec(any::<u8>(), 1..300), used in any::<u32>()) {
            let m = memory(2);
            let log = m.layout().kvs_log(1);
            m.map().write(log + RECORDS, &bytes);
            for used in [used, used % 400, bytes.len() as u32] {
                m.map().u32(log).store(used, Relaxed);
                if let Err(e) = get(&m, "k") {
                    prop_assert!(e.to_string().contains("rank 1"));
                }
            }
        }

        #[test]
        fn any_pairs_come_back(pairs in proptest::collection::vec(("[a-z]{1,8}", proptest::collection::vec(any::<u8>(), 0..64)), 0..40)) {
            let m = memory(1);
            for (k, v) in &pairs {
                put(&m, 0, k, v).unwrap();
            }
            for (k, _) in &pairs {
                let last = pairs.iter().rev().find(|p| &p.0 == k).map(|p| p.1.clone());
                prop_assert_eq!(get(&m, k).unwrap(), last);
            }
        }
    }
}
