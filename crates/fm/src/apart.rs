//! Handlers on stacks of their own: they run until they want more of their message than has arrived.

use crate::engine::{Fm, StreamHandler};
use crate::receive::{Apart, Receive, Resumed, Wake};
use crate::running::Flow;
use crate::wire::Frame;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use farpost_fabric::{Fabric, Peer};

impl<F: Fabric + 'static, const WORDS: usize> Fm<F, WORDS> {
    /// Run a handler on a stack of its own, with the first piece of its message.
    pub(crate) fn start(&self, handler: StreamHandler<F, WORDS>, frame: Frame<WORDS>, last: bool) -> Resumed {
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
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<Wake<WORDS>, ()>, first| {
            let Wake::Piece(mut frame, last) = first else {
                return Flow::Continue;
            };
            let peer = Peer(frame.peer);
            let mut receive = Receive::first_of(&*fm.0.fabric, &mut frame, last, yielder);
            handler(&fm, &mut receive, peer)
        });
        self.run_apart(place, coroutine, Wake::Piece(frame, last))
    }

    /// Go on with a handler that waits.
    pub(crate) fn resume(&self, place: usize, wake: Wake<WORDS>) -> Resumed {
        let coroutine = self.0.stacks.borrow_mut().apart[place].take();
        self.run_apart(place, coroutine.expect("a handler that waits"), wake)
    }

    fn run_apart(&self, place: usize, mut coroutine: Apart<WORDS>, wake: Wake<WORDS>) -> Resumed {
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
