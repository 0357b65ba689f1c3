//! The card: what a process publishes about where it is reached, and reading others'.
//!
//! ```text
//! "farpost ofi" ; format u8 ; version (u8 length, text) ; provider (u8 length, text) ;
//! address format u32 ; largest message u32 ; address (u16 length, bytes)
//! ```
//!
//! It is published before the job's secret is known, by a way that only the job's processes have. What keeps others
//! away is each message's token.
//!
//! Cost class: *set-up path*.

use farpost_fabric::Peer;

const MAGIC: &[u8] = b"farpost ofi";
const FORMAT: u8 = 1;
/// This Farpost's version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A card's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// libfabric's name of the provider.
    pub provider: String,
    /// `fi_info::addr_format`.
    pub format: u32,
    /// Bytes of the largest message that its owner has buffers for.
    pub message: u32,
    /// The endpoint's address, in that format.
    pub address: Vec<u8>,
}

impl Card {
    /// As published.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(FORMAT);
        for text in [VERSION, &self.provider] {
            bytes.push(text.len() as u8);
            bytes.extend_from_slice(&text.as_bytes()[..text.len().min(255)]);
        }
        bytes.extend_from_slice(&self.format.to_le_bytes());
        bytes.extend_from_slice(&self.message.to_le_bytes());
        bytes.extend_from_slice(&(self.address.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&self.address);
        bytes
    }

    /// The card of `peer`, checked against this process's own.
    pub fn decode(bytes: &[u8], peer: Peer, mine: &Card) -> Result<Card, String> {
        let not_one = || {
            format!(
                "{peer} published something that is no card of the libfabric fabric; set FARPOST_FABRIC the same on all hosts"
            )
        };
        let mut rest = bytes;
        let mut take = |len: usize| -> Option<&[u8]> {
            let (part, after) = rest.split_at_checked(len)?;
            rest = after;
            Some(part)
        };
        if take(MAGIC.len()) != Some(MAGIC) {
            return Err(not_one());
        }
        let format = take(1).ok_or_else(not_one)?[0];
        let len = take(1).ok_or_else(not_one)?[0];
        let version = take(len.into()).ok_or_else(not_one)?;
        if format != FORMAT || version != VERSION.as_bytes() {
            let theirs = String::from_utf8_lossy(version);
            return Err(format!(
                "{peer} runs Farpost {theirs} (card format {format}), this process runs {VERSION} (card format {FORMAT}); install one version on all hosts"
            ));
        }
        let len = take(1).ok_or_else(not_one)?[0];
        let provider = String::from_utf8_lossy(take(len.into()).ok_or_else(not_one)?).into_owned();
        let mut number = |len| -> Option<u32> {
            let mut bytes = [0; 4];
            bytes[..len].copy_from_slice(take(len)?);
            Some(u32::from_le_bytes(bytes))
        };
        let format = number(4).ok_or_else(not_one)?;
        let message = number(4).ok_or_else(not_one)?;
        let len = number(2).ok_or_else(not_one)?;
        let address = take(len as usize).ok_or_else(not_one)?.to_vec();
        if !rest.is_empty() {
            return Err(not_one());
        }
        if provider != mine.provider {
            return Err(format!(
                "{peer} uses libfabric's provider {provider}, this process {}; choose one with FARPOST_OFI_PROVIDER",
                mine.provider
            ));
        }
        // The provider will read as many bytes as its format says.
        if (format, address.len()) != (mine.format, mine.address.len()) {
            return Err(format!(
                "{peer} has an address of another kind (format {format}, {} bytes) than this process (format {}, {} bytes)",
                address.len(),
                mine.format,
                mine.address.len()
            ));
        }
        if message < 256 {
            return Err(not_one());
        }
        Ok(Card {
            provider,
            format,
            message,
            address,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> Card {
        Card {
            provider: "tcp".into(),
            format: 2,
            message: 8192,
            address: vec![1; 16],
        }
    }

    #[test]
    fn cards_come_back_and_nothing_else_does() {
        let bytes = card().encode();
        assert!(bytes.len() <= farpost_net::CARD_BYTES);
        let read = |bytes: &[u8], mine: &Card| Card::decode(bytes, Peer(4), mine);
        assert_eq!(read(&bytes, &card()), Ok(card()));
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len], &card()).unwrap_err().contains("process 4"));
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(read(&longer, &card()).is_err());
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x11;
            // Address and sizes may be any; the rest must be as expected.
            if let Err(why) = read(&bad, &card()) {
                assert!(why.contains("process 4"), "{why}");
            }
        }
        let mut other = bytes.clone();
        other[MAGIC.len() + 2] ^= 1;
        let why = read(&other, &card()).unwrap_err();
        assert!(why.contains(VERSION) && why.contains("one version"), "{why}");
        let other = Card {
            provider: "verbs".into(),
            ..card()
        };
        assert!(read(&bytes, &other).unwrap_err().contains("FARPOST_OFI_PROVIDER"));
        let other = Card {
            address: vec![1; 28],
            ..card()
        };
        assert!(read(&bytes, &other).unwrap_err().contains("another kind"));
    }
}
