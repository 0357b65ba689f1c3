//! The handshake as a state machine without sockets: bytes in, bytes out.

use snow::HandshakeState;

use super::noise;
use super::record::{Opener, Sealer};
use super::refusal::{HandshakeStage, Reason, Refusal};
use super::secret::{Secret, derive};
use super::session::{HeaderCheck, Session};
use super::wire::{
    ANSWER_BYTES, BadOpening, CALL_BYTES, CONFIRM_BYTES, Call, Flight, HELLO_BYTES, KIND_HELLO, KIND_REFUSED,
    KIND_WELCOME, LONGEST, MAGIC, OPENING_BYTES, Opening, Version, WELCOME_BYTES, Welcome, same,
};

/// What who connects says of itself and asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The job; any value that all its processes know, zeros if the secret alone tells jobs apart.
    pub job: [u8; 16],
    /// Who I am.
    pub me: u32,
    /// Whom I want.
    pub peer: u32,
    /// The rail that the connection is for.
    pub rail: u8,
    /// Ask for encryption. It is on if either side asks.
    pub encrypt: bool,
    /// A word for the other side, for the caller's own use; authentic and encrypted.
    pub note: u64,
}

/// Whom who listens lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The job, as in [`Caller::job`].
    pub job: [u8; 16],
    /// Who I am.
    pub me: u32,
    /// Processes of the job: callers have smaller numbers.
    pub size: u32,
    /// Rails that I have: callers ask for smaller numbers.
    pub rails: u8,
    /// Ask for encryption. It is on if either side asks.
    pub encrypt: bool,
    /// A word for the other side.
    pub note: u64,
}

/// What is to be done next.
#[derive(Debug)]
pub enum Progress {
    /// Read at most that many bytes and feed them. More must not be read: they would be what follows the handshake.
    NeedMore(usize),
    /// Send these, then feed what comes.
    Send(Flight),
    /// Send what is in `send` (nothing, on the side that listened), then the connection is good.
    Done {
        /// Bytes to send before anything else.
        send: Flight,
        /// Who is there, and keys.
        session: Box<Session>,
    },
    /// Send what is in `tell`, if anything, as well as may be; close; count `reason`.
    Refused {
        /// A keyed answer that lets a member of the job know why; nothing for strangers.
        tell: Flight,
        /// Why.
        reason: Refusal,
    },
}

/// One side of one connection's handshake. See the [module](super) for what it promises.
///
/// Its own memory is fixed: a buffer for the longest message. `snow`'s state, about one KiB, exists on the side
/// that listens only after the opening of the hello has proved right.
pub struct Handshake {
    secret: Secret,
    state: HandshakeStep,
    buffer: [u8; LONGEST],
    have: usize,
    need: usize,
    /// The random bytes of the hello's opening.
    hello: [u8; 16],
}

enum HandshakeStep {
    /// Initiator: nothing was sent.
    Fresh(Caller),
    /// Initiator: the hello is out.
    Called {
        caller: Caller,
        noise: Box<HandshakeState>,
        hello: [u8; OPENING_BYTES],
    },
    /// Responder: nothing is known of who is there.
    Listening(Listener),
    /// Responder: the opening is right, the rest of the hello is awaited.
    Opened(Listener, Version),
    /// Responder: the answer is out.
    Answered {
        call: Call,
        encrypt: bool,
        split: Box<([u8; 32], [u8; 32])>,
    },
    /// Nothing is to come.
    Over(Refusal),
}

impl Handshake {
    /// For a connection that I made. The first [`Handshake::feed`], with no bytes, gives the message to send.
    pub fn initiator(secret: &Secret, caller: Caller) -> Self {
        Self::new(secret, HandshakeStep::Fresh(caller), 0)
    }

    /// For a connection that I accepted.
    pub fn responder(secret: &Secret, listener: Listener) -> Self {
        Self::new(secret, HandshakeStep::Listening(listener), OPENING_BYTES)
    }

    fn new(secret: &Secret, state: HandshakeStep, need: usize) -> Self {
        Handshake {
            secret: secret.clone(),
            state,
            buffer: [0; LONGEST],
            have: 0,
            need,
            hello: [0; 16],
        }
    }

    /// How many bytes may be read now. 0: none, feed nothing; so it is at the start of [`Handshake::initiator`], where
    /// reading would wait for an answer to what was never sent.
    pub fn wants(&self) -> usize {
        self.need - self.have
    }

    /// How far it is.
    pub fn stage(&self) -> HandshakeStage {
        match self.state {
            HandshakeStep::Fresh(_) | HandshakeStep::Called { .. } => HandshakeStage::Answer,
            HandshakeStep::Listening(_) if self.have == 0 => HandshakeStage::Silent,
            HandshakeStep::Listening(_) | HandshakeStep::Opened(..) | HandshakeStep::Over(_) => {
                HandshakeStage::Hello
            }
            HandshakeStep::Answered { .. } => HandshakeStage::Confirm,
        }
    }

    /// True on the side that listens once a hello was right: somebody who knows the secret made it, though perhaps
    /// long ago. The [`Gate`](super::Gate) gives such connections more time.
    pub fn is_known(&self) -> bool {
        matches!(self.state, HandshakeStep::Answered { .. })
    }

    /// What tells the hello that was right ([`is_known`](Self::is_known)) from every other.
    pub fn hello(&self) -> [u8; 16] {
        self.hello
    }

    /// The reason to give when the connection ended, or failed, before the handshake did.
    pub fn closed(&self) -> Refusal {
        Refusal::Incomplete(self.stage())
    }

    /// The reason to give when the time allowed has passed.
    pub fn late(&self) -> Refusal {
        Refusal::TooSlow(self.stage())
    }

    /// Take what was read, in pieces of any size, and say what to do next; with how many bytes of it were used, all
    /// of them unless more than [`Handshake::wants`] was given.
    pub fn feed(&mut self, bytes: &[u8]) -> (usize, Progress) {
        let mut used = 0;
        loop {
            let n = self.wants().min(bytes.len() - used);
            self.buffer[self.have..self.have + n].copy_from_slice(&bytes[used..used + n]);
            used += n;
            self.have += n;
            if let Some(reason) = self.stranger() {
                return (used, self.refuse(Flight::NOTHING, reason));
            }
            if self.wants() > 0 {
                return (used, Progress::NeedMore(self.wants()));
            }
            if let Some(progress) = self.advance() {
                return (used, progress);
            }
        }
    }

    /// The other protocol that the bytes are of, as soon as that shows.
    fn stranger(&self) -> Option<Refusal> {
        if !matches!(
            self.state,
            HandshakeStep::Listening(_) | HandshakeStep::Called { .. }
        ) {
            return None;
        }
        let n = self.have.min(MAGIC.len());
        if self.buffer[..n] == MAGIC[..n] {
            return None;
        }
        let mut first = [0u8; 8];
        first[..n].copy_from_slice(&self.buffer[..n]);
        Some(Refusal::NotFarpost(first))
    }

    fn refuse(&mut self, tell: Flight, reason: Refusal) -> Progress {
        self.state = HandshakeStep::Over(reason);
        (self.have, self.need) = (0, 0);
        Progress::Refused { tell, reason }
    }

    /// A whole message, or a whole opening, is in the buffer. `None`: go on reading.
    fn advance(&mut self) -> Option<Progress> {
        match core::mem::replace(&mut self.state, HandshakeStep::Over(Refusal::Altered)) {
            HandshakeStep::Fresh(caller) => Some(self.call(caller)),
            HandshakeStep::Called { caller, noise, hello } if self.have == OPENING_BYTES => {
                self.read_answer_opening(caller, noise, hello)
            }
            HandshakeStep::Called { caller, noise, .. } => Some(self.read_welcome(caller, *noise)),
            HandshakeStep::Listening(listener) => self.read_hello_opening(listener),
            HandshakeStep::Opened(listener, theirs) => Some(self.read_call(listener, theirs)),
            HandshakeStep::Answered { call, encrypt, split } => {
                Some(self.read_confirm(call, encrypt, &split))
            }
            HandshakeStep::Over(reason) => Some(self.refuse(Flight::NOTHING, reason)),
        }
    }

    // The side that connects.

    fn call(&mut self, caller: Caller) -> Progress {
        let Some(random) = random() else {
            return self.refuse(Flight::NOTHING, Refusal::NoRandom);
        };
        let opening = Opening {
            version: Version::OURS,
            kind: KIND_HELLO,
            random,
        };
        let opening = opening.encode(&self.secret.code, &[]);
        let call = Call {
            job: caller.job,
            initiator: caller.me,
            responder: caller.peer,
            rail: caller.rail,
            encrypt: caller.encrypt,
            note: caller.note,
        };
        let mut message = [0u8; HELLO_BYTES - OPENING_BYTES];
        let noise = noise::side(true, &self.secret.psk, &opening)
            .and_then(|mut n| n.write_message(&call.encode(), &mut message).map(|_| n));
        let Ok(noise) = noise else {
            return self.refuse(Flight::NOTHING, Refusal::NoRandom);
        };
        self.state = HandshakeStep::Called {
            caller,
            noise: Box::new(noise),
            hello: opening,
        };
        (self.have, self.need) = (0, OPENING_BYTES);
        Progress::Send(Flight::of([&opening, &message]))
    }

    fn read_answer_opening(
        &mut self,
        caller: Caller,
        noise: Box<HandshakeState>,
        hello: [u8; OPENING_BYTES],
    ) -> Option<Progress> {
        let opening = match self.opening(&hello) {
            Ok(o) => o,
            Err(reason) => return Some(self.refuse(Flight::NOTHING, reason)),
        };
        if let Some(number) = opening.kind.checked_sub(KIND_REFUSED) {
            let reason = told(number, &opening, &caller);
            return Some(self.refuse(Flight::NOTHING, reason));
        }
        if opening.version != Version::OURS || opening.kind != KIND_WELCOME {
            return Some(self.refuse(Flight::NOTHING, Refusal::Altered));
        }
        self.state = HandshakeStep::Called { caller, noise, hello };
        self.need = ANSWER_BYTES;
        None
    }

    fn read_welcome(&mut self, caller: Caller, mut noise: HandshakeState) -> Progress {
        let mut payload = [0u8; WELCOME_BYTES + 16];
        match noise.read_message(&self.buffer[OPENING_BYTES..ANSWER_BYTES], &mut payload) {
            Ok(WELCOME_BYTES) => {}
            _ => return self.refuse(Flight::NOTHING, Refusal::Altered),
        }
        let welcome = Welcome::decode(payload.first_chunk().expect("the payload's length"));
        let (mine, theirs) = noise.dangerously_get_raw_split();
        self.state = HandshakeStep::Over(Refusal::Altered);
        (self.have, self.need) = (0, 0);
        let confirm: [u8; CONFIRM_BYTES] = derive(&mine, "farpost confirm");
        Progress::Done {
            send: Flight::of([&confirm, &[]]),
            session: Box::new(Session {
                initiator: caller.me,
                responder: caller.peer,
                rail: caller.rail,
                note: welcome.note,
                send_check: HeaderCheck::of_key(&mine),
                receive_check: HeaderCheck::of_key(&theirs),
                records: (caller.encrypt || welcome.encrypt)
                    .then(|| (Sealer::of_key(&mine), Opener::of_key(&theirs))),
            }),
        }
    }

    // The side that listens.

    fn read_hello_opening(&mut self, listener: Listener) -> Option<Progress> {
        match self.opening(&[]) {
            Ok(o) if o.kind == KIND_HELLO => {
                // The whole hello is read even if the answer is known: closing a socket with unread bytes
                // destroys what was sent on it last, which would be the reason.
                self.state = HandshakeStep::Opened(listener, o.version);
                self.hello = o.random;
                self.need = HELLO_BYTES;
                None
            }
            Ok(_) => Some(self.refuse(Flight::NOTHING, Refusal::Altered)),
            Err(reason) => Some(self.refuse(Flight::NOTHING, reason)),
        }
    }

    fn read_call(&mut self, listener: Listener, theirs: Version) -> Progress {
        if theirs != Version::OURS {
            let reason = Refusal::OtherVersion {
                theirs,
                ours: Version::OURS,
            };
            return self.refuse_aloud(reason, [0, 0]);
        }
        let opening = *self.opening_bytes();
        let Ok(mut noise) = noise::side(false, &self.secret.psk, &opening) else {
            return self.refuse(Flight::NOTHING, Refusal::NoRandom);
        };
        let mut payload = [0u8; CALL_BYTES + 16];
        match noise.read_message(&self.buffer[OPENING_BYTES..HELLO_BYTES], &mut payload) {
            Ok(CALL_BYTES) => {}
            _ => return self.refuse(Flight::NOTHING, Refusal::Altered),
        }
        let call = Call::decode(payload.first_chunk().expect("the payload's length"));
        if call.job != listener.job {
            return self.refuse_aloud(Refusal::OtherJob, [0, 0]);
        }
        if call.responder != listener.me {
            let reason = Refusal::NotForThisRank {
                asked: call.responder,
                here: listener.me,
            };
            return self.refuse_aloud(reason, [u64::from(listener.me), 0]);
        }
        if call.initiator >= listener.size || call.initiator == listener.me {
            let reason = Refusal::NoSuchRank {
                said: call.initiator,
                size: listener.size,
            };
            return self.refuse_aloud(reason, [u64::from(listener.size), 0]);
        }
        if call.rail >= listener.rails {
            let reason = Refusal::NoSuchRail {
                asked: call.rail,
                rails: listener.rails,
            };
            return self.refuse_aloud(reason, [u64::from(listener.rails), 0]);
        }
        self.answer(listener, call, noise)
    }

    fn answer(&mut self, listener: Listener, call: Call, mut noise: HandshakeState) -> Progress {
        let Some(random) = random() else {
            return self.refuse(Flight::NOTHING, Refusal::NoRandom);
        };
        let opening = Opening {
            version: Version::OURS,
            kind: KIND_WELCOME,
            random,
        };
        let opening = opening.encode(&self.secret.code, self.opening_bytes());
        let welcome = Welcome {
            encrypt: listener.encrypt,
            note: listener.note,
        };
        let mut message = [0u8; ANSWER_BYTES - OPENING_BYTES];
        if noise.write_message(&welcome.encode(), &mut message).is_err() {
            // An ephemeral key that permits no agreement, or no random numbers.
            return self.refuse(Flight::NOTHING, Refusal::Altered);
        }
        self.state = HandshakeStep::Answered {
            call,
            encrypt: call.encrypt || listener.encrypt,
            split: Box::new(noise.dangerously_get_raw_split()),
        };
        (self.have, self.need) = (0, CONFIRM_BYTES);
        Progress::Send(Flight::of([&opening, &message]))
    }

    fn read_confirm(&mut self, call: Call, encrypt: bool, split: &([u8; 32], [u8; 32])) -> Progress {
        let (theirs, mine) = split;
        let right: [u8; CONFIRM_BYTES] = derive(theirs, "farpost confirm");
        if !same(&right, &self.buffer[..CONFIRM_BYTES]) {
            return self.refuse(Flight::NOTHING, Refusal::Replay);
        }
        self.state = HandshakeStep::Over(Refusal::Altered);
        (self.have, self.need) = (0, 0);
        Progress::Done {
            send: Flight::NOTHING,
            session: Box::new(Session {
                initiator: call.initiator,
                responder: call.responder,
                rail: call.rail,
                note: call.note,
                send_check: HeaderCheck::of_key(mine),
                receive_check: HeaderCheck::of_key(theirs),
                records: encrypt.then(|| (Sealer::of_key(mine), Opener::of_key(theirs))),
            }),
        }
    }

    /// Refuse somebody who has shown a right opening, and tell why under the same key.
    fn refuse_aloud(&mut self, reason: Refusal, details: [u64; 2]) -> Progress {
        let mut random = [0u8; 16];
        random[..8].copy_from_slice(&details[0].to_le_bytes());
        random[8..].copy_from_slice(&details[1].to_le_bytes());
        let opening = Opening {
            version: Version::OURS,
            kind: KIND_REFUSED + Reason::from(reason) as u16,
            random,
        };
        let opening = opening.encode(&self.secret.code, self.opening_bytes());
        self.refuse(Flight::of([&opening, &[]]), reason)
    }

    fn opening_bytes(&self) -> &[u8; OPENING_BYTES] {
        self.buffer
            .first_chunk()
            .expect("the buffer holds the longest message")
    }

    fn opening(&self, about: &[u8]) -> Result<Opening, Refusal> {
        Opening::decode(self.opening_bytes(), &self.secret.code, about).map_err(|bad| match bad {
            BadOpening::Magic => {
                Refusal::NotFarpost(*self.opening_bytes().first_chunk().expect("longer than eight"))
            }
            BadOpening::Code => Refusal::WrongSecret,
        })
    }
}

impl core::fmt::Debug for Handshake {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "Handshake({:?}, {} of {} bytes)",
            self.stage(),
            self.have,
            self.need
        )
    }
}

/// The refusal that the side that listens told of, as the side that connects sees it.
fn told(number: u16, opening: &Opening, caller: &Caller) -> Refusal {
    let detail = u64::from_le_bytes(*opening.random.first_chunk().expect("sixteen bytes"));
    match Reason::ALL.get(usize::from(number)) {
        Some(Reason::OtherVersion) => Refusal::OtherVersion {
            theirs: opening.version,
            ours: Version::OURS,
        },
        Some(Reason::OtherJob) => Refusal::OtherJob,
        Some(Reason::NotForThisRank) => Refusal::NotForThisRank {
            asked: caller.peer,
            here: detail as u32,
        },
        Some(Reason::NoSuchRank) => Refusal::NoSuchRank {
            said: caller.me,
            size: detail as u32,
        },
        Some(Reason::NoSuchRail) => Refusal::NoSuchRail {
            asked: caller.rail,
            rails: detail as u8,
        },
        _ if opening.version != Version::OURS => Refusal::OtherVersion {
            theirs: opening.version,
            ours: Version::OURS,
        },
        _ => Refusal::Altered,
    }
}

fn random() -> Option<[u8; 16]> {
    let mut out = [0u8; 16];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut out).ok()?;
    Some(out)
}
