//! Receiving a message in pieces: a handler that wants more than has arrived is suspended on a stack of its own until the
//! next piece is there. A message of one frame is handled on the caller's stack.

use crate::engine::{Fm, StreamHandler};
use crate::wire::{Frame, HEADER_BYTES};
use crate::{Flow, FmError, FmTunables};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use farpost_fabric::{Cost, Fabric, Peer};

/// What resumes a handler.
pub(crate) enum Wake {
    /// The next piece, and whether it is the last.
    Piece(Frame, bool),
    /// Nothing more will come.
    BrokenOff,
}

/// What a handler did.
pub(crate) enum Resumed {
    /// It waits for more, on that stack.
    Waits(usize),
    /// It has returned.
    Returned(Flow),
}

type Apart = Coroutine<Wake, (), Flow, DefaultStack>;

/// Handlers that are suspended, and stacks for those to come.
pub(crate) struct Stacks {
    apart: Vec<Option<Apart>>,
    spare: Vec<DefaultStack>,
    bytes: usize,
}

impl Stacks {
    pub fn new(tunables: &FmTunables) -> Self {
        let most = tunables.streams as usize;
        let mut apart = Vec::new();
        apart.resize_with(most, || None);
        Self {
            apart,
            spare: Vec::with_capacity(most),
            bytes: tunables.stack as usize,
        }
    }
}

/// The message that a handler handles.
pub struct Receive<'a, F> {
    fabric: &'a F,
    frame: &'a mut Frame,
    /// Bytes of the frame's payload that were received.
    at: usize,
    last: bool,
    broken: bool,
    yielder: Option<&'a Yielder<Wake, ()>>,
}

impl<'a, F: Fabric> Receive<'a, F> {
    /// Of one frame.
    #[inline(always)]
    pub(crate) fn whole(fabric: &'a F, frame: &'a mut Frame) -> Self {
        Self {
            fabric,
            frame,
            at: 0,
            last: true,
            broken: false,
            yielder: None,
        }
    }

    fn peer(&self) -> Peer {
        Peer(self.frame.peer)
    }

    /// Fill `buffer` with the next bytes of the message (`FM_receive`); waits for them, letting others run. What a handler
    /// does not receive is discarded when it returns.
    ///
    /// # Errors
    /// [`PastEnd`](FmError::PastEnd): fewer were sent; `buffer` has those that were.
    /// [`BrokenOff`](FmError::BrokenOff): the sender is gone or began another message.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<(), FmError> {
        let mut done = 0;
        while done < buffer.len() {
            if self.here() == 0 && !self.more(buffer.len() - done)? {
                continue;
            }
            let len = self.here().min(buffer.len() - done);
            buffer[done..done + len].copy_from_slice(&self.frame.payload()[self.at..self.at + len]);
            self.fabric.charge(Cost::Copy(len));
            self.at += len;
            done += len;
        }
        Ok(())
    }

    /// Skip the next `bytes` bytes. Errors as for [`receive`](Receive::receive).
    pub fn skip(&mut self, bytes: usize) -> Result<(), FmError> {
        let mut left = bytes;
        while left > 0 {
            if self.here() == 0 && !self.more(left)? {
                continue;
            }
            let len = self.here().min(left);
            self.at += len;
            left -= len;
        }
        Ok(())
    }

    /// Bytes that can be received without waiting.
    #[inline(always)]
    pub fn here(&self) -> usize {
        self.frame.packet().len() - HEADER_BYTES - self.at
    }

    /// Whether everything has been received. Waits if what is here has been received and was not the last.
    pub fn at_end(&mut self) -> Result<bool, FmError> {
        while self.here() == 0 {
            if self.last {
                return Ok(true);
            }
            self.more(1)?;
        }
        Ok(false)
    }

    /// Wait for the next piece; false if it is empty.
    fn more(&mut self, wanted: usize) -> Result<bool, FmError> {
        let peer = self.peer();
        if self.broken {
            return Err(FmError::BrokenOff { peer });
        }
        let yielder = match self.yielder {
            Some(yielder) if !self.last => yielder,
            _ => return Err(FmError::PastEnd { peer, wanted }),
        };
        match yielder.suspend(()) {
            Wake::Piece(frame, last) => {
                *self.frame = frame;
                self.at = 0;
                self.last = last;
                Ok(self.here() > 0)
            }
            Wake::BrokenOff => {
                self.broken = true;
                Err(FmError::BrokenOff { peer })
            }
        }
    }
}

impl<F: Fabric + 'static> Fm<F> {
    /// Run a handler on a stack of its own, with the first piece of its message.
    pub(crate) fn start(&self, handler: StreamHandler<F>, frame: Frame, last: bool) -> Resumed {
        let fm = self.clone();
        let (place, stack) = {
            let mut stacks = self.0.stacks.borrow_mut();
            let place = (stacks.apart.iter().position(Option::is_none))
                .expect("a place is reserved when a message's first piece is accepted");
            let bytes = stacks.bytes;
            let stack = stacks.spare.pop();
            (
                place,
                stack.unwrap_or_else(|| DefaultStack::new(bytes).expect("memory for a handler's stack")),
            )
        };
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<Wake, ()>, first| {
            let Wake::Piece(mut frame, last) = first else {
                return Flow::Continue;
            };
            let peer = Peer(frame.peer);
            let mut receive = Receive {
                fabric: &*fm.0.fabric,
                frame: &mut frame,
                at: 0,
                last,
                broken: false,
                yielder: Some(yielder),
            };
            handler(&fm, &mut receive, peer)
        });
        self.run_apart(place, coroutine, Wake::Piece(frame, last))
    }

    /// Go on with a handler that waits.
    pub(crate) fn resume(&self, place: usize, wake: Wake) -> Resumed {
        let coroutine = self.0.stacks.borrow_mut().apart[place].take();
        self.run_apart(place, coroutine.expect("a handler that waits"), wake)
    }

    fn run_apart(&self, place: usize, mut coroutine: Apart, wake: Wake) -> Resumed {
        let result = coroutine.resume(wake);
        let mut stacks = self.0.stacks.borrow_mut();
        match result {
            CoroutineResult::Yield(()) => {
                stacks.apart[place] = Some(coroutine);
                Resumed::Waits(place)
            }
            CoroutineResult::Return(flow) => {
                stacks.spare.push(coroutine.into_stack());
                Resumed::Returned(flow)
            }
        }
    }
}
