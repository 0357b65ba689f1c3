//! How a process reaches its coordinator: through a socket, or within one process by a call.

use crate::compute::Count;
use crate::wire::{Answer, Ask, LONGEST, Question, pack, unpack};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};
use std::os::fd::OwnedFd;

/// How the coordinator is asked.
pub(crate) enum Connection {
    Socket(OwnedFd),
    Call(Call),
}

/// Room for a question, and for an answer from a socket.
#[derive(Default)]
pub(crate) struct Buffers {
    question: Vec<u8>,
    answer: Vec<u8>,
}

/// What a coordinator is asked by that is within this process ([`CALL`]): the question, its length, and where the length of the answer goes. The answer is there
/// until the next question; null: there is none.
pub type Call = unsafe extern "C" fn(*const u8, usize, *mut usize) -> *const u8;

/// What such a coordinator calls it.
pub const CALL: &core::ffi::CStr = c"farpost_sim_call";

/// Instructions of the process so far ([`INSTRUCTIONS`]), which it counts once for all ranks: the processor has few counters.
pub type CountInstructions = extern "C" fn() -> u64;

/// What such a coordinator calls that.
pub const INSTRUCTIONS: &core::ffi::CStr = c"farpost_sim_instructions";

/// A wrong answer: the two sides are not of one version, or the coordinator is none.
pub(crate) const WRONG: &str = "the answer of the simulation's coordinator is none to the question";

/// A function of this name in this process.
fn found(name: &core::ffi::CStr) -> *mut libc::c_void {
    // SAFETY: a plain question for a symbol.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// Instructions that the process of all ranks counts.
struct Shared(CountInstructions);

impl Count for Shared {
    fn count(&mut self) -> u64 {
        (self.0)()
    }
}

impl Connection {
    /// To the coordinator within this process if there is one, else to that with the socket of this name.
    pub(crate) fn to(name: &str) -> Result<Self, Errno> {
        // SAFETY: whoever has a symbol of this name has a function of this type there; null is `None`.
        let call = unsafe { std::mem::transmute::<*mut libc::c_void, Option<Call>>(found(CALL)) };
        match call {
            Some(call) => Ok(Self::Call(call)),
            None => reach(name).map(Self::Socket),
        }
    }

    /// Whether it is within this process.
    pub(crate) fn is_within(&self) -> bool {
        matches!(self, Self::Call(_))
    }

    /// What counts instructions for all ranks of this process.
    pub(crate) fn instructions(&self) -> Option<Box<dyn Count>> {
        if !self.is_within() {
            return None;
        }
        // SAFETY: as for the call.
        let count = unsafe {
            std::mem::transmute::<*mut libc::c_void, Option<CountInstructions>>(found(INSTRUCTIONS))
        };
        count.map(|count| Box::new(Shared(count)) as Box<dyn Count>)
    }

    /// Ask and wait for the answer, however long other processes run.
    pub(crate) fn ask(&self, question: &Question<'_>, buffers: &mut Buffers) -> Result<Answer, String> {
        pack(question, &mut buffers.question);
        match self {
            Self::Call(call) => ask_within(*call, &buffers.question),
            Self::Socket(socket) => {
                tell(socket, &buffers.question)?;
                hear(socket, &mut buffers.answer)
            }
        }
    }

    /// Tell that this process rests, and wait until it is answered, or `is_over` says that the program is back.
    pub(crate) fn rest(
        &self,
        mut question: Question<'_>,
        is_over: impl Fn() -> bool,
    ) -> Result<Answer, String> {
        let mut buffers = Buffers::default();
        let Self::Socket(socket) = self else {
            // There is nobody who could be back.
            return self.ask(&question, &mut buffers);
        };
        pack(&question, &mut buffers.question);
        tell(socket, &buffers.question)?;
        while !readable(socket, LOOK) {
            if is_over() {
                (question.spent, question.polls, question.ask) = (0, 0, Ask::Back);
                pack(&question, &mut buffers.question);
                tell(socket, &buffers.question)?;
                break;
            }
        }
        hear(socket, &mut buffers.answer)
    }
}

fn reach(name: &str) -> Result<OwnedFd, Errno> {
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    let kind = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &address)?;
    Ok(socket)
}

fn tell(socket: &OwnedFd, question: &[u8]) -> Result<(), String> {
    loop {
        match send(socket, question, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(format!("its coordinator cannot be asked ({error})")),
        }
    }
}

fn hear(socket: &OwnedFd, answer: &mut Vec<u8>) -> Result<Answer, String> {
    answer.resize(LONGEST, 0);
    loop {
        match recv(socket, &mut **answer, RecvFlags::empty()) {
            Ok((0, _)) => return Err("its coordinator is gone".into()),
            Ok((len, _)) => return unpack(&answer[..len]).map_err(|_| WRONG.into()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(format!("its coordinator does not answer ({error})")),
        }
    }
}

fn ask_within(call: Call, question: &[u8]) -> Result<Answer, String> {
    let mut len = 0;
    // SAFETY: bytes and their number, and room for a number.
    let answer = unsafe { call(question.as_ptr(), question.len(), &mut len) };
    if answer.is_null() {
        return Err("its coordinator is gone".into());
    }
    // SAFETY: so many bytes are there until the next question, as the function promises.
    unpack(unsafe { std::slice::from_raw_parts(answer, len) }).map_err(|_| WRONG.into())
}

/// Between two looks at whether the program is back.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000,
};

/// Whether there is an answer, or will be none, within `wait`.
fn readable(socket: &OwnedFd, wait: Timespec) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut polled, Some(&wait)).is_ok_and(|count| count > 0)
}
