//! For the fuzz targets: what reads the words of launchers, of other processes and of the environment, as a function each.

pub use crate::channel::pmix::fuzzing::{Answer as PmixAnswer, talk as pmix};
use crate::channel::wire::Wire;
use crate::channel::{Launched, pmi1, pmi2, text};
use crate::hosts::HostMap;
use crate::memory::NewJob;
use crate::{JobError, JobMemory, card, kvs, secret};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Keys and lengths of the values that a conversation asks for.
const KEYS: [&str; 2] = ["host", "card"];

fn talk(
    said: &[u8],
    join: impl FnOnce(Wire) -> Result<Launched, JobError>,
) -> Result<(u32, u32, Vec<u8>), JobError> {
    let (ours, mut theirs) = UnixStream::pair().expect("two sockets");
    // What does not fit into the socket would wait for a reader.
    theirs
        .write_all(&said[..said.len().min(64 << 10)])
        .expect("written");
    theirs.shutdown(std::net::Shutdown::Write).expect("shut down");
    let wire = Wire::new(File::from(OwnedFd::from(ours)), Duration::from_secs(20), "PMI");
    let mut launched = join(wire)?;
    if let Some(hosts) = &launched.hosts {
        assert_eq!(hosts.host_of().len(), launched.size as usize);
        assert!(hosts.host_of().iter().all(|host| *host < hosts.hosts()));
    }
    let channel = &mut launched.channel;
    channel.put(launched.rank, KEYS[0], b"a value")?;
    channel.fence()?;
    let mut all = vec![];
    for key in KEYS {
        let value = channel.get(1, key)?.unwrap_or_default();
        assert!(value.len() <= 2 * kvs::VALUE_MAX);
        all.extend(value);
    }
    channel.finalize()?;
    Ok((launched.rank, launched.size, all))
}

/// All that a PMI-1 server says to rank 0 of 4, which joins, puts a value, meets the others and gets two; what it got.
///
/// # Errors
/// The server does not keep to the protocol.
pub fn pmi1(said: &[u8]) -> Result<Vec<u8>, JobError> {
    talk(said, |wire| pmi1::join(wire, 0, 4)).map(|(.., got)| got)
}

/// As [`pmi1`], of a PMI-2 server.
///
/// # Errors
/// As there.
pub fn pmi2(said: &[u8]) -> Result<Vec<u8>, JobError> {
    talk(said, |wire| pmi2::join(wire, 0, 4, Some("job"))).map(|(.., got)| got)
}

/// `PMI_process_mapping` of a job of `size` ranks.
pub fn host_map(text: &str, size: u32) {
    if let Ok(Some(map)) = HostMap::parse(text, size) {
        assert_eq!(map.host_of().len(), size as usize);
        for rank in 0..size {
            assert!(map.lowest_beside(rank) <= rank && map.count_beside(rank) >= 1);
            assert!(map.host_of()[rank as usize] < map.hosts());
        }
    }
}

/// What another rank published about its host. What is read is written back as it was.
pub fn host_card(bytes: &[u8]) {
    if let Ok(read) = card::Card::read(1, bytes) {
        let again = card::Card::read(1, &read.write()).expect("a card that was read");
        assert!(again == read);
    }
}

/// A card of this host's, for seeds.
pub fn own_card() -> Vec<u8> {
    let card = card::Card {
        identity: card::Identity {
            boot: "0b00f".into(),
            namespaces: "1.2".into(),
            name: "node".into(),
        },
        memory: "12.3.ab".into(),
        pass: card::Pass::Here([7; 32]),
    };
    card.write()
}

/// A value as it travels through an exchange of texts. What is read is written as it was.
pub fn text_value(value: &str) {
    if let Some(bytes) = text::decode(value) {
        assert_eq!(text::encode(&bytes), value);
    }
}

/// A value in that form, for seeds.
pub fn text_of(bytes: &[u8]) -> String {
    text::encode(bytes)
}

/// The job's secret, as a file or a card has it.
pub fn secret(bytes: &[u8]) {
    if let Some(read) = secret::parse(bytes) {
        assert_eq!(secret::parse(secret::hex(&read).as_bytes()), Some(read));
    }
}

/// The memory of a job on one host whose rank 1 writes anything into its log.
pub struct Logs(JobMemory);

impl Logs {
    /// Of two ranks.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new() -> Result<Self, JobError> {
        let job = NewJob {
            size: 2,
            services: 0,
            launcher: 0,
            allowed_cores: 1,
            bound: false,
        };
        JobMemory::create(&job).map(Self)
    }

    /// Rank 1's log is these bytes, of which it says that it has used `used`; look up a key and put one.
    pub fn read(&self, bytes: &[u8], used: u32) {
        let log = self.0.layout().kvs_log(1);
        let bytes = &bytes[..bytes.len().min(4096)];
        self.0.map().write(log + 64, bytes);
        let word = self.0.map().u32(log);
        word.store(used, std::sync::atomic::Ordering::Relaxed);
        let got = kvs::get_from(&self.0, 1, "k");
        if let Ok(Some(value)) = &got {
            assert!(value.len() <= kvs::VALUE_MAX);
        }
        if kvs::put(&self.0, 1, "k", b"new").is_ok() && got.is_ok() {
            assert_eq!(
                kvs::get_from(&self.0, 1, "k").expect("a good log"),
                Some(b"new".to_vec())
            );
        }
    }
}
