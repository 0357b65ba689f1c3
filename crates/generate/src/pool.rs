//! A model of matching (MPI-5.0 section 3.5), and a search of everything that it permits.

use std::collections::HashSet;

/// A message of a group, in the order in which its sender sends them.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    pub source: i32,
    pub tag: i32,
    /// The sender may go on only when it is matched; but it may also go on before, where the message is buffered.
    pub blocks: bool,
}

/// A receive of the group, in the order of posting.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    pub source: Option<i32>,
    pub tag: Option<i32>,
    /// The receiver goes on only when it is matched.
    pub blocks: bool,
}

impl Ask {
    fn takes(&self, offer: &Offer) -> bool {
        self.source.is_none_or(|source| source == offer.source) && self.tag.is_none_or(|tag| tag == offer.tag)
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct PoolState {
    /// Messages on offer.
    offered: u64,
    posted: usize,
    /// Which receive has which message.
    taken: Vec<Option<u8>>,
}

/// All interleavings of senders and receiver. `Some`: in each, all messages are received; the messages that each receive may get.
/// `None`: in some, somebody waits for ever.
pub fn explore(offers: &[Offer], asks: &[Ask]) -> Option<Vec<Vec<usize>>> {
    assert!(offers.len() == asks.len() && offers.len() < 60);
    let mut may = vec![Vec::new(); asks.len()];
    let mut seen = HashSet::new();
    let start = PoolState {
        offered: 0,
        posted: 0,
        taken: vec![None; asks.len()],
    };
    let mut open = vec![start];
    while let Some(state) = open.pop() {
        if !seen.insert(state.clone()) {
            continue;
        }
        if seen.len() > 200_000 {
            return None;
        }
        let (must, may_be) = successors(offers, asks, &state);
        if must.is_empty() && state.taken.iter().any(Option::is_none) {
            return None;
        }
        if must.is_empty() {
            for (ask, taken) in state.taken.iter().enumerate() {
                let message = taken.map_or(0, usize::from);
                if !may[ask].contains(&message) {
                    may[ask].push(message);
                }
            }
        }
        open.extend(must);
        open.extend(may_be);
    }
    may.iter_mut().for_each(|list| list.sort_unstable());
    Some(may)
}

/// What happens next: what nobody can keep from happening, and what happens where sends are buffered.
fn successors(offers: &[Offer], asks: &[Ask], state: &PoolState) -> (Vec<PoolState>, Vec<PoolState>) {
    let matched = |message: usize| state.taken.contains(&Some(message as u8));
    let (mut next, mut buffered) = (Vec::new(), Vec::new());
    // The next message of a sender that is not held up comes; the first receive that asks for it takes it.
    for (message, offer) in offers.iter().enumerate() {
        if state.offered & 1 << message != 0 {
            continue;
        }
        let before = (0..message).rev().find(|m| offers[*m].source == offer.source);
        if before.is_some_and(|m| state.offered & 1 << m == 0) {
            continue;
        }
        let held_up = before.is_some_and(|m| offers[m].blocks && !matched(m));
        let mut new = state.clone();
        new.offered |= 1 << message;
        if let Some(ask) = (0..state.posted).find(|a| state.taken[*a].is_none() && asks[*a].takes(offer)) {
            new.taken[ask] = Some(message as u8);
        }
        if held_up {
            buffered.push(new)
        } else {
            next.push(new)
        }
    }
    // The next receive is posted; it takes the first message of some sender.
    let held_up = state
        .posted
        .checked_sub(1)
        .is_some_and(|a| asks[a].blocks && state.taken[a].is_none());
    if state.posted < asks.len() && !held_up {
        let ask = asks[state.posted];
        let there = |m: &usize| state.offered & 1 << *m != 0 && !matched(*m) && ask.takes(&offers[*m]);
        let mut any = false;
        for message in (0..offers.len()).filter(there) {
            if (0..message).any(|m| offers[m].source == offers[message].source && there(&m)) {
                continue;
            }
            let mut new = state.clone();
            new.taken[state.posted] = Some(message as u8);
            new.posted += 1;
            next.push(new);
            any = true;
        }
        if !any {
            let mut new = state.clone();
            new.posted += 1;
            next.push(new);
        }
    }
    (next, buffered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(source: i32, tag: i32, blocks: bool) -> Offer {
        Offer { source, tag, blocks }
    }

    fn ask(source: Option<i32>, tag: Option<i32>, blocks: bool) -> Ask {
        Ask { source, tag, blocks }
    }

    #[test]
    fn messages_of_one_sender_do_not_overtake() {
        let offers = [offer(0, 1, false), offer(0, 1, false)];
        let asks = [ask(None, None, false), ask(Some(0), Some(1), false)];
        assert_eq!(explore(&offers, &asks), Some(vec![vec![0], vec![1]]));
    }

    #[test]
    fn a_wildcard_may_take_what_a_later_receive_needs() {
        let offers = [offer(0, 1, false), offer(1, 1, false)];
        let asks = [ask(None, Some(1), false), ask(Some(0), Some(1), false)];
        assert_eq!(explore(&offers, &asks), None);
        let both = [asks[0], asks[0]];
        assert_eq!(explore(&offers, &both), Some(vec![vec![0, 1], vec![0, 1]]));
    }

    #[test]
    fn a_send_that_may_block_may_also_be_buffered() {
        // The second message of 1 may come before the first is received, and take the wildcard.
        let offers = [offer(0, 2, true), offer(1, 1, true), offer(1, 2, true)];
        let asks = [
            ask(None, Some(2), true),
            ask(Some(1), Some(1), true),
            ask(Some(1), Some(2), true),
        ];
        assert_eq!(explore(&offers, &asks), None);
    }

    #[test]
    fn blocking_calls_in_the_wrong_order_wait_for_ever() {
        let offers = [offer(0, 1, true), offer(0, 2, true)];
        let asks = [ask(Some(0), Some(2), true), ask(Some(0), Some(1), true)];
        assert_eq!(explore(&offers, &asks), None);
        let relaxed = [offer(0, 1, false), offers[1]];
        assert!(explore(&relaxed, &asks).is_some());
    }
}
