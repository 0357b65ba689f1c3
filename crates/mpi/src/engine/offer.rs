//! What a line says of a long message that its sender has announced.

use super::wire;
use farpost_fabric::Line;

/// A long message that its sender has announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub total: u64,
    /// The sender's request.
    pub request: u64,
    /// Position and key, where the receiver may transfer from the sender's buffer.
    pub exposed: Option<(u64, u64)>,
    /// Of the sender's rendezvous slots, where it copies along.
    pub slot: Option<u32>,
}

impl Offer {
    /// The words of the line that says so, behind its envelope.
    pub(crate) fn fill(&self, line: &mut Line) {
        line[3] = self.total;
        line[5] = self.request;
        line[6] = self.slot.map_or(0, |slot| u64::from(slot) + 1);
        if let Some((position, key)) = self.exposed {
            line[4] = position;
            line[6] |= wire::ONE_RUN;
            line[7] = key;
        }
    }

    /// What a line says; `slots` is how many a process has. None: it cannot be.
    pub(crate) fn of(line: &Line, slots: u32) -> Option<Self> {
        let slot = line[6] & !wire::ONE_RUN;
        (line[3] <= 1 << 60 && slot <= u64::from(slots)).then(|| Self {
            total: line[3],
            request: line[5],
            exposed: (line[6] & wire::ONE_RUN != 0).then_some((line[4], line[7])),
            slot: slot.checked_sub(1).map(|slot| slot as u32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_the_offer_and_what_cannot_be_is_none() {
        let slots = 256;
        let offer = Offer {
            total: 1 << 20,
            request: 7,
            exposed: Some((0x7fff_0000_1000, 3)),
            slot: Some(slots - 1),
        };
        let plain = Offer {
            exposed: None,
            slot: None,
            ..offer
        };
        let no_slot = Offer { slot: None, ..offer };
        for offer in [offer, plain, no_slot] {
            let mut line = [0; 8];
            offer.fill(&mut line);
            assert_eq!(Offer::of(&line, slots), Some(offer));
            let mut longer = line;
            longer[3] = (1 << 60) + 1;
            assert_eq!(Offer::of(&longer, slots), None);
            let mut elsewhere = line;
            elsewhere[6] = (elsewhere[6] & wire::ONE_RUN) | u64::from(slots + 1);
            assert_eq!(Offer::of(&elsewhere, slots), None);
        }
    }
}
