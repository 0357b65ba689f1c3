//! What happens with a message that arrived: its token is checked before anything else, then it is applied.
//!
//! Cost class: lines and puts are *fast path*; control messages are *queued path*.

use super::core::Inner;
use super::link::Link;
use super::wire::{self, Parsed, control};
use farpost_fabric::{FabricError, Fault, Peer};
use std::rc::Rc;

impl Inner {
    /// Whether the token is the next one of the peer. `bytes` is the message that it is the first word of.
    #[inline]
    fn admit(&self, link: &Rc<Link>, token: u64, bytes: &[u8]) -> bool {
        let wanted = link.next_in.get();
        if token == wanted {
            link.next_in.set(wanted.wrapping_add(1));
            link.heard.set(true);
            link.unanswered.set(false);
            return true;
        }
        self.not_admitted(link, token, bytes);
        false
    }

    #[cold]
    fn not_admitted(&self, link: &Rc<Link>, token: u64, bytes: &[u8]) {
        if link.is_dead() {
            return;
        }
        // Nobody guesses a number so near: it is the peer, but messages before this one are missing.
        let ahead = token.wrapping_sub(link.next_in.get());
        if ahead < 1 << 32 {
            self.hold(link, token, ahead, bytes);
        } else {
            self.stranger();
        }
    }

    #[cold]
    fn stranger(&self) {
        self.strangers.set(self.strangers.get() + 1);
    }

    /// A message arrived.
    #[inline]
    pub fn arrived(&self, bytes: &[u8]) {
        self.apply(bytes);
        if self.held.any() {
            self.release_held();
        }
    }

    /// Do what a message says, if it is the next one of its sender.
    #[inline]
    pub fn apply(&self, bytes: &[u8]) {
        let Some((token, message)) = wire::parse(bytes) else {
            return self.stranger();
        };
        if let Parsed::Control {
            sender,
            what,
            argument,
            rest,
        } = message
        {
            if sender >= self.size {
                return self.stranger();
            }
            let link = Rc::clone(self.link(Peer(sender)));
            if self.admit(&link, token, bytes) {
                self.on_control(&link, what, argument, rest);
            }
            return;
        }
        let admit = |link: &Rc<Link>| self.admit(link, token, bytes);
        let blame = |link: &Link, wrong| self.blame(link, wrong);
        if !self.segments.deliver(message, admit, blame) {
            self.stranger();
        }
    }

    /// The peer said something that cannot be.
    #[cold]
    pub fn blame(&self, link: &Link, (what, value): (&'static str, u64)) {
        let (peer, error) = (link.peer, FabricError::corrupt(link.peer, what, value));
        self.record_fault(Fault { peer, error });
    }

    fn on_control(&self, link: &Rc<Link>, what: u8, argument: u16, rest: &[u8]) {
        let words = |count: usize| -> Option<Vec<u64>> { (0..count).map(|i| wire::word(rest, i)).collect() };
        let answer = |count: usize| match words(count) {
            Some(words) => {
                self.answered(link, words, &rest[count * 8..]);
                Some(())
            }
            None => None,
        };
        let done = match what {
            control::PACKET => self.packets.arrived(link, argument, rest),
            control::CREDIT => words(1).and_then(|w| self.packets.credited(link, argument, w[0])),
            control::IMPORT => words(4).and_then(|w| self.on_import(link, &w)),
            control::ANNOUNCE => words(4).and_then(|w| self.on_announce(link, &w)),
            control::WITHDRAW => words(1).and_then(|w| self.on_withdraw(link, &w)),
            control::FENCE => words(1).map(|w| {
                self.control(link, control::FENCED, 0, &w);
            }),
            control::GET => words(4).and_then(|w| self.on_get(link, &w)),
            control::READ => words(4).and_then(|w| self.on_read(link, &w)),
            control::WAS_READ => words(1).map(|w| self.on_was_read(link, w[0])),
            control::COUNT => words(3).and_then(|w| self.on_count(link, &w)),
            control::IMPORTED | control::READABLE => answer(4),
            control::FENCED => answer(1),
            control::GOT => answer(2),
            control::COUNTED => answer(2),
            control::NOTHING => Some(()),
            control::BYE => {
                link.left.set(true);
                Some(())
            }
            _ => None,
        };
        if done.is_none() {
            self.blame(
                link,
                ("a control message of the libfabric fabric", u64::from(what)),
            );
        }
    }
}
