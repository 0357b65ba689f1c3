//! What processes tell each other about failures, as bytes.

use super::{Message, Verdict};

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The communicator of this context is revoked.
    Revoked { context: u64 },
    /// In the `serial`th agreement on that communicator.
    Agreeing {
        context: u64,
        serial: u64,
        message: Message,
    },
}

const REVOKED: u64 = 0;
const STATE: u64 = 1;
const PROPOSED: u64 = 2;
const ACCEPTED: u64 = 3;
const DECIDED: u64 = 4;
/// No leader has proposed anything.
const NOBODY: u64 = u64::MAX;

impl Told {
    pub fn to_bytes(&self) -> Box<[u8]> {
        let mut words = Vec::new();
        match self {
            Self::Revoked { context } => words.extend([REVOKED, *context, 0]),
            Self::Agreeing {
                context,
                serial,
                message,
            } => {
                let kind = match message {
                    Message::State { .. } => STATE,
                    Message::Proposed(_) => PROPOSED,
                    Message::Accepted => ACCEPTED,
                    Message::Decided(_) => DECIDED,
                };
                words.extend([kind, *context, *serial]);
                match message {
                    Message::State { mine, proposal } => {
                        put(&mut words, mine);
                        words.push(proposal.as_ref().map_or(NOBODY, |(leader, _)| u64::from(*leader)));
                        if let Some((_, verdict)) = proposal {
                            put(&mut words, verdict);
                        }
                    }
                    Message::Proposed(verdict) | Message::Decided(verdict) => put(&mut words, verdict),
                    Message::Accepted => {}
                }
            }
        }
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// `None`: they cannot be right.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<8>() else {
            return None;
        };
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let words = &mut words;
        let [kind, context, serial] = [words.next()?, words.next()?, words.next()?];
        let message = match kind {
            REVOKED => None,
            STATE => {
                let mine = take(words)?;
                let proposal = match words.next()? {
                    NOBODY => None,
                    leader => Some((u32::try_from(leader).ok()?, take(words)?)),
                };
                Some(Message::State { mine, proposal })
            }
            PROPOSED => Some(Message::Proposed(take(words)?)),
            ACCEPTED => Some(Message::Accepted),
            DECIDED => Some(Message::Decided(take(words)?)),
            _ => return None,
        };
        if words.next().is_some() {
            return None;
        }
        Some(match message {
            None => Self::Revoked { context },
            Some(message) => Self::Agreeing {
                context,
                serial,
                message,
            },
        })
    }
}

fn put(words: &mut Vec<u64>, verdict: &Verdict) {
    words.extend([u64::from(verdict.flags.cast_unsigned()), verdict.context]);
    for list in [&verdict.failed, &verdict.acknowledged] {
        words.push(list.len() as u64);
        words.extend(list.iter().map(|pid| u64::from(*pid)));
    }
}

fn take(words: &mut impl ExactSizeIterator<Item = u64>) -> Option<Verdict> {
    let flags = u32::try_from(words.next()?).ok()?.cast_signed();
    let context = words.next()?;
    let mut list = || {
        let len = usize::try_from(words.next()?)
            .ok()
            .filter(|len| *len <= words.len())?;
        words
            .by_ref()
            .take(len)
            .map(|pid| u32::try_from(pid).ok())
            .collect::<Option<Vec<u32>>>()
    };
    Some(Verdict {
        flags,
        failed: list()?,
        acknowledged: list()?,
        context,
    })
}
