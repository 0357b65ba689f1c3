//! A host's agent and its members in one thread: questions are calls. Members' memory is a vector each, whose addresses begin at [`BASE`].
#![allow(dead_code, reason = "each test uses a part")]

use farpost_fabric::clock::Clock;
use farpost_fabric::wait::{WaitPolicy, WaitTunables};
use farpost_portals::host::{Candidate, Hub, Link, Member, Memory, Refusal, question};
use farpost_portals::{
    ANY, Event, EventKind, Handle, Limits, Md, NetworkInterface, Position, ProcessId, Segment, Unlink,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The first address of a member's memory, and its bytes.
pub const BASE: usize = 1 << 20;
pub const BYTES: usize = 600_000;
pub const PT: u32 = 3;

#[derive(Clone)]
pub struct Bytes(pub Rc<RefCell<Vec<u8>>>);

impl Bytes {
    pub fn new() -> Self {
        Self(Rc::new(RefCell::new(vec![0; BYTES])))
    }

    fn place(address: u64, len: usize) -> Option<std::ops::Range<usize>> {
        let at = usize::try_from(address).ok()?.checked_sub(BASE)?;
        (at <= BYTES && len <= BYTES - at).then(|| at..at + len)
    }
}

impl Memory for Bytes {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let Some(place) = Self::place(address, into.len()) else {
            return false;
        };
        into.copy_from_slice(&self.0.borrow()[place]);
        true
    }

    fn write(&self, address: u64, bytes: &[u8]) -> bool {
        let Some(place) = Self::place(address, bytes.len()) else {
            return false;
        };
        self.0.borrow_mut()[place].copy_from_slice(bytes);
        true
    }
}

pub type Agent = Rc<RefCell<Hub<Bytes>>>;

pub fn agent() -> Agent {
    Rc::new(RefCell::new(Hub::new(1 << 20)))
}

/// Who somebody is by the kernel's word.
#[derive(Clone, Copy)]
pub struct Who {
    pub uid: u32,
    pub process: u32,
    pub job: Option<(u64, u64)>,
}

/// A connection: what is asked is answered at once.
pub struct Direct {
    pub agent: Agent,
    pub who: Who,
    pub bytes: Bytes,
    pub pid: Cell<Option<u32>>,
    pub ended: Rc<Cell<bool>>,
}

impl Link for Direct {
    fn ask(&self, request: &[u64]) -> Option<Vec<u64>> {
        if self.ended.get() {
            return None;
        }
        let mut agent = self.agent.borrow_mut();
        let Some(pid) = self.pid.get() else {
            let Who { uid, process, job } = self.who;
            let wants = Candidate::read(request, (uid, process, job)).ok()?;
            return Some(match agent.join(&wants, self.bytes.clone()) {
                Ok(welcome) => {
                    self.pid.set(Some(welcome.identity.id.pid));
                    welcome.words()
                }
                Err(refusal) => refusal.words(),
            });
        };
        match request.first() {
            Some(&question::LEAVE) => {
                agent.leave(pid);
                Some(vec![0])
            }
            Some(&question::WAIT) => Some(vec![0]),
            _ => match agent.ask(pid, request) {
                Ok(told) => Some(told),
                Err(_) => {
                    agent.leave(pid);
                    self.ended.set(true);
                    None
                }
            },
        }
    }
}

/// A member and its memory.
pub struct One {
    pub member: Member,
    pub bytes: Bytes,
    pub ended: Rc<Cell<bool>>,
    pub id: ProcessId,
    pub eq: Handle,
}

pub fn join(agent: &Agent, pid: u32, who: Who) -> Result<One, Refusal> {
    let (bytes, ended) = (Bytes::new(), Rc::new(Cell::new(false)));
    let link = Direct {
        agent: Rc::clone(agent),
        who,
        bytes: bytes.clone(),
        pid: Cell::new(None),
        ended: Rc::clone(&ended),
    };
    let wait = WaitTunables {
        spin_us: 0,
        yields: 0,
    };
    let policy = WaitPolicy::new(&wait, 1, 1, Rc::new(Clock::new()));
    let member = Member::join(Box::new(link), pid, None::<&Limits>, policy)?;
    let eq = member.eq_alloc(64, None).expect("a queue");
    Ok(One {
        id: member.identity().id,
        member,
        bytes,
        ended,
        eq,
    })
}

impl One {
    /// A descriptor of `len` bytes `at` its memory.
    pub fn md(&self, at: usize, len: usize, options: u32) -> Md {
        Md::new(BASE + at, len as u64, options, self.eq)
    }

    pub fn bind(&self, md: Md) -> Handle {
        // SAFETY: only the agent looks behind addresses, in vectors with bounds.
        unsafe { self.member.md_bind(md, None, Unlink::Retain) }.expect("a descriptor")
    }

    pub fn attach(&self, bits: u64, md: Md, iovec: Option<Rc<[Segment]>>) -> Handle {
        let me = self
            .member
            .me_attach(PT, ProcessId::ANY, (bits, 0), Unlink::Retain, Position::After);
        // SAFETY: as above.
        unsafe {
            self.member
                .md_attach(me.expect("an entry"), md, iovec, Unlink::Retain)
        }
        .expect("a descriptor")
    }

    pub fn fill(&self, at: usize, bytes: &[u8]) {
        self.bytes.0.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub fn bytes(&self, at: usize, len: usize) -> Vec<u8> {
        self.bytes.0.borrow()[at..at + len].to_vec()
    }

    /// All events that have come.
    pub fn events(&self) -> Vec<Event> {
        std::iter::from_fn(|| self.member.eq_get(self.eq).ok())
            .map(|taken| taken.event)
            .collect()
    }

    pub fn kinds(&self) -> Vec<EventKind> {
        self.events().iter().map(|event| event.kind).collect()
    }
}

pub const ALONE: Who = Who {
    uid: 7,
    process: 1000,
    job: None,
};

pub fn any(agent: &Agent) -> One {
    join(agent, ANY, ALONE).expect("a member")
}
