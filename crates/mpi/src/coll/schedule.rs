//! Running a plan: starts what is ready, asks what is under way, never blocks.

use std::collections::VecDeque;

use super::mem;
use super::plan::{Action, Lane, Plan};
use crate::buffer::{RecvBuf, SendBuf};
use crate::{Error, Rank, Result};

/// How messages of collectives move: point-to-point in the collective context of one communicator. Messages
/// between two ranks on one lane with one tag arrive in the order they were sent.
pub trait Transport {
    /// A message under way.
    type Req;

    /// My rank in the (local) group.
    fn rank(&self) -> usize;

    /// Ranks in the (local) group.
    fn size(&self) -> usize;

    /// Ranks in the remote group; 0 on an intracommunicator.
    fn remote_size(&self) -> usize;

    /// Start sending `buf` to `dest` of the lane's group.
    fn isend(&self, lane: Lane, buf: SendBuf, dest: Rank, tag: i32) -> Result<Self::Req>;

    /// Start receiving into `buf` from `src` of the lane's group.
    fn irecv(&self, lane: Lane, buf: RecvBuf, src: Rank, tag: i32) -> Result<Self::Req>;

    /// Is it complete? Does not drive progress. Not called again once it returned true or an error.
    fn test(&self, req: &mut Self::Req) -> Result<bool>;

    /// Give up a message: when this returns, its buffer is not touched any more.
    fn cancel(&self, req: Self::Req);

    /// So many bytes have been copied here.
    fn copied(&self, _bytes: u64) {}

    /// So many bytes have been combined with as many others here.
    fn reduced(&self, _bytes: u64) {}
}

/// A plan and how far it has come.
///
/// An error at one step does not stop the others: ranks that wait for this one still get their messages,
/// and the first error is reported when all is complete. [`Schedule::cancel`] stops at once.
pub struct Schedule<R> {
    plan: Plan,
    tag: i32,
    left: Vec<u32>,
    ready: VecDeque<u32>,
    active: Vec<(u32, R)>,
    done: usize,
    error: Option<Error>,
}

impl<R> Schedule<R> {
    /// A schedule of `plan`, started from the beginning by the first [`Schedule::advance`]. All its messages
    /// carry `tag`, which must differ from that of every other collective under way on the communicator, and
    /// be the same at all ranks.
    pub fn new(plan: Plan, tag: i32) -> Self {
        let mut schedule = Self {
            left: Vec::with_capacity(plan.nodes.len()),
            plan,
            tag,
            ready: VecDeque::new(),
            active: Vec::new(),
            done: 0,
            error: None,
        };
        schedule.rewind();
        schedule
    }

    /// Ready to run again, as a persistent collective does at each start. The schedule must be complete (or
    /// cancelled).
    pub fn reset(&mut self) {
        debug_assert!(
            self.active.is_empty(),
            "a running collective cannot be started again"
        );
        self.rewind();
    }

    fn rewind(&mut self) {
        self.left.clear();
        self.left.extend(self.plan.nodes.iter().map(|n| n.waits));
        self.ready.clear();
        self.ready
            .extend((0..self.left.len() as u32).filter(|&i| self.left[i as usize] == 0));
        self.done = 0;
        self.error = None;
    }

    /// Has every step been completed?
    pub fn is_complete(&self) -> bool {
        self.done == self.plan.nodes.len()
    }

    /// Do what can be done now. `Ok(true)`: complete. Returns the first error of any step, once nothing is
    /// under way any more.
    pub fn advance<T: Transport<Req = R>>(&mut self, t: &T) -> Result<bool> {
        loop {
            while let Some(id) = self.ready.pop_front() {
                self.start(t, id);
            }
            let mut moved = false;
            let mut i = 0;
            while i < self.active.len() {
                match t.test(&mut self.active[i].1) {
                    Ok(false) => {
                        i += 1;
                        continue;
                    }
                    Ok(true) => {}
                    Err(error) => self.note(error),
                }
                let (id, _) = self.active.swap_remove(i);
                self.complete(id);
                moved = true;
            }
            if !moved {
                break;
            }
        }
        if !self.is_complete() {
            return Ok(false);
        }
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(true),
        }
    }

    /// Give up: nothing of this schedule is under way any more when this returns.
    pub fn cancel<T: Transport<Req = R>>(&mut self, t: &T) {
        for (_, req) in self.active.drain(..) {
            t.cancel(req);
        }
        self.ready.clear();
        self.done = self.plan.nodes.len();
    }

    fn note(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    fn start<T: Transport<Req = R>>(&mut self, t: &T, id: u32) {
        let node = &self.plan.nodes[id as usize];
        let begun = match &node.action {
            Action::Send { lane, peer, buf } => {
                t.isend(*lane, buf.to_send(), *peer as Rank, self.tag).map(Some)
            }
            Action::Recv { lane, peer, buf } => {
                t.irecv(*lane, buf.to_recv(), *peer as Rank, self.tag).map(Some)
            }
            Action::Copy {
                from,
                from_at,
                to,
                to_at,
                len,
            } => {
                t.copied(mem::copy(from, *from_at, to, *to_at, *len));
                Ok(None)
            }
            Action::Reduce { input, inout } => match &self.plan.op {
                Some(op) => mem::reduce(op, input, inout).map(|()| {
                    t.reduced(inout.bytes());
                    None
                }),
                None => fail!(ERR_INTERN: "a collective without an operation has a reduction step"),
            },
            Action::Join => Ok(None),
        };
        let on_issue = node.on_issue.clone();
        self.fire(on_issue);
        match begun {
            Ok(Some(req)) => self.active.push((id, req)),
            Ok(None) => self.complete(id),
            Err(error) => {
                self.note(error);
                self.complete(id);
            }
        }
    }

    fn complete(&mut self, id: u32) {
        self.done += 1;
        let on_done = self.plan.nodes[id as usize].on_done.clone();
        self.fire(on_done);
    }

    fn fire(&mut self, edges: std::ops::Range<u32>) {
        for edge in edges {
            let to = self.plan.edges[edge as usize];
            let left = &mut self.left[to as usize];
            *left -= 1;
            if *left == 0 {
                self.ready.push_back(to);
            }
        }
    }
}

impl<R> Drop for Schedule<R> {
    fn drop(&mut self) {
        // Given up without being cancelled: messages under way may still use the temporaries.
        if !self.active.is_empty() {
            self.plan.leak();
        }
    }
}
