//! Messages that overtake others.
//!
//! No provider promises that receives complete in the order in which the messages were sent: `FI_ORDER_SAS` says which
//! message goes to which buffer, and a short one can be there before a longer one that began earlier (ofi_rxm: what is longer than
//! its buffers; efa: what takes several packets). Some do not even promise that (opx, and efa on the bare device). Tokens
//! count messages, so what comes early is kept until those before it have come, and everything above sees one order.
//!
//! Cost class: *queued path*; one branch per message where nothing is kept.

use super::core::Inner;
use super::link::Link;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// No message is kept that is so far ahead: the one that is missing will not come.
const FAR_AHEAD: u64 = 4096;
impl Inner {
    /// Keep a message of `link`'s that is `ahead` of the next one.
    #[cold]
    pub fn hold(&self, link: &Rc<Link>, token: u64, ahead: u64, bytes: &[u8]) {
        if self.in_order || ahead >= FAR_AHEAD {
            return self.lost(link, ahead);
        }
        link.held.borrow_mut().insert(token, bytes.into());
        self.held.add(link);
    }

    fn lost(&self, link: &Rc<Link>, ahead: u64) {
        let why = format!(
            "{ahead} of its messages were lost: a connection of {} broke",
            self.card.provider
        );
        self.give_up(link, &why);
    }

    /// Apply what is kept and follows what has been applied.
    #[cold]
    pub fn release_held(&self) {
        for link in &self.held.links() {
            loop {
                let next = link.held.borrow_mut().remove(&link.next_in.get());
                let Some(bytes) = next else { break };
                link.held_since.set(None);
                self.apply(&bytes);
            }
        }
        self.held.tidy();
    }

    /// Give up those whose missing message has not come for long.
    pub fn look_at_held(&self) {
        if !self.held.any() {
            return;
        }
        let now = Instant::now();
        let patience = Duration::from_millis(self.tunables.gone);
        for link in &self.held.links() {
            let Some(since) = link.held_since.get() else {
                link.held_since.set(Some(now));
                continue;
            };
            if now.duration_since(since) >= patience {
                let first = link.held.borrow().keys().next().copied();
                let ahead = first.map_or(0, |token| token.wrapping_sub(link.next_in.get()));
                self.lost(link, ahead);
            }
        }
        self.held.tidy();
    }
}
