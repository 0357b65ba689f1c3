//! Peers whose messages are kept because they overtook others, and where that cannot happen (why: `order.rs`).

use super::link::Link;
use std::cell::RefCell;
use std::rc::Rc;

/// Messages up to this length complete in order on providers on byte streams: those on the `ofi_rxm` layer lie in its
/// buffers (`FI_OFI_RXM_BUFFER_SIZE`).
const BUFFERED: usize = 16 << 10;

/// Peers whose messages are kept.
#[derive(Default)]
pub struct Held(RefCell<Vec<Rc<Link>>>);

impl Held {
    /// Whether there is any.
    #[inline]
    pub fn any(&self) -> bool {
        !self.0.borrow().is_empty()
    }

    /// A first message of `link`'s is kept, or one more.
    pub fn add(&self, link: &Rc<Link>) {
        let mut all = self.0.borrow_mut();
        if !all.iter().any(|l| Rc::ptr_eq(l, link)) {
            link.held_since.set(None);
            all.push(Rc::clone(link));
        }
    }

    /// Those of whom messages are kept.
    pub fn links(&self) -> Vec<Rc<Link>> {
        self.0.borrow().clone()
    }

    /// Forget those of whom nothing is kept any more.
    pub fn tidy(&self) {
        self.0.borrow_mut().retain(|link| !link.held.borrow().is_empty());
    }
}

/// Whether messages of at most `message` bytes are known to complete in the order of sending. Then a gap is a loss, and known at once.
pub fn completes_in_order(provider: &str, message: usize) -> bool {
    let on_stream = matches!(provider.split(';').next(), Some("tcp" | "net"));
    on_stream && message <= BUFFERED
}
