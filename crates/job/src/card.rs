//! The card that the lowest rank of each host publishes: who made it, on which host, and where the ranks of that host find
//! their memory.

use crate::channel::Channel;
use crate::error::JobError;
use crate::secret::{self, Secret};
use crate::system::host_name;

/// Key of the card.
pub(crate) const KEY: &str = "host";
/// Form of the card; the version of Farpost follows it in every form.
const FORMAT: &str = "1";
/// This version of Farpost.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Stands for what cannot be found out.
const UNKNOWN: &str = "unknown";

/// What tells hosts apart. Two processes with the same identity can share memory and find each other in `/proc`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    /// Drawn by the kernel at boot.
    pub boot: String,
    /// Namespaces of users and of processes.
    pub namespaces: String,
    /// What people call the host.
    pub name: String,
}

impl Identity {
    /// Of this process.
    pub fn own() -> Identity {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let namespace = |kind: &str| {
            let link = std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default();
            let digits = link
                .to_string_lossy()
                .chars()
                .filter(char::is_ascii_digit)
                .collect::<String>();
            if digits.is_empty() { "0".into() } else { digits }
        };
        Identity {
            boot: clean(&read("/proc/sys/kernel/random/boot_id")),
            namespaces: format!("{}.{}", namespace("user"), namespace("pid")),
            name: clean(&host_name()),
        }
    }

    /// Why a process here cannot share memory with one there; `None` if it can.
    pub fn differs(&self, there: &Identity) -> Option<&'static str> {
        if self.boot == UNKNOWN || there.boot == UNKNOWN {
            Some("/proc cannot be read on one of the two; ranks of a host find each other through it")
        } else if self.name != there.name {
            Some("the hosts have different names")
        } else if self.boot != there.boot {
            Some("the hosts were booted separately")
        } else if self.namespaces != there.namespaces {
            Some(
                "they are in containers with users or processes of their own; run all ranks of a host in one container",
            )
        } else {
            None
        }
    }
}

fn clean(text: &str) -> String {
    let good = |c: char| if c.is_ascii_graphic() && c != '/' { c } else { '_' };
    let text: String = text.trim().chars().map(good).collect();
    if text.is_empty() { UNKNOWN.into() } else { text }
}

/// How the other hosts come by the job's secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Not with this card.
    No,
    /// Each process was given it by its launcher; this is the fingerprint of what rank 0 was given.
    Given(String),
    /// Here it is.
    Here(Secret),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    pub identity: Identity,
    /// Where the host's memory is, as `JobMemory::id` says it.
    pub memory: String,
    pub pass: Pass,
}

impl Card {
    pub fn write(&self) -> Vec<u8> {
        let Identity {
            boot,
            namespaces,
            name,
        } = &self.identity;
        let pass = match &self.pass {
            Pass::No => "no".into(),
            Pass::Given(fingerprint) => format!("given.{fingerprint}"),
            Pass::Here(secret) => secret::hex(secret),
        };
        format!(
            "{FORMAT}/{VERSION}/{boot}/{namespaces}/{name}/{}/{pass}",
            self.memory
        )
        .into_bytes()
    }

    /// Read the card of rank `of`.
    pub fn read(of: u32, bytes: &[u8]) -> Result<Card, JobError> {
        let text = String::from_utf8_lossy(bytes);
        let parts: Vec<&str> = text.split('/').collect();
        if let [format, version, ..] = parts[..]
            && (format != FORMAT || version != VERSION)
            && version.starts_with(|c: char| c.is_ascii_digit())
        {
            return Err(JobError::Versions {
                rank: of,
                there: crate::error::clip(version),
                here: VERSION,
            });
        }
        let read = || {
            let &[_, _, boot, namespaces, name, memory, pass] = parts.as_slice() else {
                return None;
            };
            let pass = match pass {
                "no" => Pass::No,
                given
                    if given
                        .strip_prefix("given.")
                        .is_some_and(|f| f.len() == 32 && f.bytes().all(|b| b.is_ascii_hexdigit())) =>
                {
                    Pass::Given(given["given.".len()..].to_owned())
                }
                hex if hex.len() == 64 => Pass::Here(secret::parse(hex.as_bytes())?),
                _ => return None,
            };
            let plain = |s: &str| (!s.is_empty() && clean(s) == s && s.len() < 256).then(|| s.to_owned());
            Some(Card {
                identity: Identity {
                    boot: plain(boot)?,
                    namespaces: plain(namespaces)?,
                    name: plain(name)?,
                },
                memory: plain(memory)?,
                pass,
            })
        };
        // Not shown: it may hold the secret.
        read().ok_or_else(|| {
            JobError::Kvs(format!(
                "what rank {of} published about its host, {} bytes, is not a Farpost card",
                bytes.len()
            ))
        })
    }
}

/// Cards of other ranks; rank 0's may be needed twice.
pub(crate) struct Cards<'a> {
    pub channel: &'a mut dyn Channel,
    root: Option<Card>,
}

impl<'a> Cards<'a> {
    pub fn new(channel: &'a mut dyn Channel) -> Self {
        Self { channel, root: None }
    }

    pub fn get(&mut self, of: u32) -> Result<Card, JobError> {
        if let (0, Some(card)) = (of, &self.root) {
            return Ok(card.clone());
        }
        let bytes = self
            .channel
            .get(of, KEY)?
            .ok_or_else(|| JobError::Kvs(format!("rank {of} published nothing about its host")))?;
        let card = Card::read(of, &bytes)?;
        if of == 0 {
            self.root = Some(card.clone());
        }
        Ok(card)
    }
}

/// The card of `of`, for its host's name.
pub(crate) fn host_name_from(channel: &mut dyn Channel, of: u32) -> Result<String, JobError> {
    let mut cards = Cards::new(channel);
    Ok(cards.get(of)?.identity.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn card(pass: Pass) -> Card {
        Card {
            identity: Identity::own(),
            memory: "12.3.ab".into(),
            pass,
        }
    }

    #[test]
    fn cards_come_back() {
        for pass in [
            Pass::No,
            Pass::Given(secret::fingerprint(&[3; 32])),
            Pass::Here(secret::draw("secret").unwrap()),
        ] {
            let card = card(pass);
            assert_eq!(Card::read(0, &card.write()).unwrap(), card);
            assert!(card.write().len() < 500);
        }
    }

    #[test]
    fn other_versions_are_named() {
        let text = String::from_utf8(card(Pass::No).write()).unwrap();
        for (format, there) in [("1", "9.8.7"), ("2", VERSION)] {
            let other = text.replacen(&format!("1/{VERSION}"), &format!("{format}/{there}"), 1);
            let error = Card::read(5, other.as_bytes()).unwrap_err().to_string();
            assert!(
                error.contains("rank 5") && error.contains(there) && error.contains(VERSION),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..100), cut in 0usize..200) {
            prop_assert!(Card::read(0, &bytes).is_err());
            let mut good = card(Pass::Here([7; 32])).write();
            good.truncate(cut.min(good.len() - 1));
            let _ = Card::read(0, &good);
        }
    }
}
