//! Small collectives on communicators of several hosts, in two levels: the ranks of a host show their bytes on its
//! board, the lowest of them (the host's *leader*) takes them together and exchanges the outcome with the leaders of the
//! other hosts by messages, and shows on the board what came of it. A message between hosts costs many times what a line
//! costs, and with more ranks than cores each is a turn of the scheduler: this way they are as few as there are hosts.
//!
//! A collective takes two steps of the board. In the first all but the leader show a line, in the second only the leader
//! does. That keeps the board's promise that a line is written over only when it has been read: the leader shows the
//! second step when it has read the first, and the others show the next collective's first step when they have read
//! that.
//!
//! Parts are reduced in the order of ranks within a host and in the order of hosts (by their lowest ranks) between them,
//! at every host alike: all ranks get the same bits, and the same bits every time.

use super::board::{Board, MOST_RANKS, RowOf, WORDS};
use crate::coll::Hosts;
use crate::comm::{Comm, Started};
use crate::group::Group;
use crate::world::World;
use crate::{Error, ErrorClass, Rank, Result};
use farpost_fabric::Fabric;
use std::rc::Rc;

/// Words that a rank brings and gets: the leader shows one more, which says how it went.
pub const FAR_WORDS: usize = WORDS - 1;
/// What it brings or gets, with words behind it that nobody looks at.
pub type FarWords = [u64; FAR_WORDS];
/// Bytes that a rank brings and gets.
pub const FAR_BYTES: usize = FAR_WORDS * 8;
/// With more hosts than this every leader would get too many messages, or too long ones.
const MOST_HOSTS: usize = 64;

/// A communicator's hosts, as one rank sees them.
pub struct Span {
    /// Ranks on this host, in order.
    pub(crate) here: Vec<usize>,
    /// The lowest rank of each host, as processes, in order of ranks.
    leaders: Group,
    /// Who is where; a host's number is the place of its leader among the leaders.
    hosts: Rc<Hosts>,
    /// Some host has several ranks, and nothing stands in the way.
    pub(crate) pays: bool,
}

/// What the leaders do with what their hosts brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// Wait for each other.
    Barrier,
    /// Reduce, in the order of ranks where that matters (`false`: the operation commutes).
    Reduce { ordered: bool },
    /// Tell what this rank brought.
    Tell { rank: usize },
}

impl Span {
    /// Of a communicator whose ranks are on several hosts; `None` when they share one, and on an intercommunicator. The
    /// same at all ranks but for what concerns the own host.
    pub(crate) fn of<F: Fabric>(fabric: &F, comm: &Comm) -> Option<Self> {
        if comm.is_inter() {
            return None;
        }
        let hosts = comm.hosts(fabric)?;
        let pid = |rank| comm.local.pid(rank as Rank);
        let leaders: Vec<u32> = hosts.lowest_ranks().filter_map(pid).collect();
        let here = hosts.ranks(hosts.host_of(comm.rank as usize)).to_vec();
        Some(Self {
            here,
            pays: (2..=MOST_RANKS as usize).contains(&hosts.most()) && hosts.count() <= MOST_HOSTS,
            leaders: Group::from_pids(&leaders),
            hosts,
        })
    }
}

/// A collective at one rank.
struct Meeting<'a, F: Fabric> {
    comm: &'a Comm,
    board: &'a Board<F>,
    span: &'a Span,
    among: Among,
    mine: &'a FarWords,
    /// Of them that are told.
    words: usize,
}

impl<F: Fabric> World<F> {
    /// Bring `words` of `mine`; what came of everybody's, which is as many (none from a barrier). `fold` reduces into its
    /// first argument, which comes from lower ranks, the second. `Ok(None)`: the communicator is not one to do this for
    /// (nowhere), and nothing was done.
    ///
    /// # Errors
    /// A host cannot be reached, a rank's memory is damaged, or `fold` fails.
    pub fn by_host(
        &self,
        comm: &Comm,
        mine: &FarWords,
        words: usize,
        among: Among,
        mut fold: impl FnMut(&mut FarWords, &FarWords) -> Result<()>,
    ) -> Result<Option<FarWords>> {
        let Some(board) = self.board(comm)? else {
            return Ok(None);
        };
        let Some(span) = &board.span else {
            return Ok(None);
        };
        if among == (Among::Reduce { ordered: true }) && !span.hosts.in_order() {
            return Ok(None);
        }
        // Everybody counts, so that the next collective by messages has the same tag everywhere.
        let tag = comm.next_collective(Started::Blocking);
        let board = &*board;
        let meeting = Meeting {
            comm,
            board,
            span,
            among,
            mine,
            words,
        };
        if board.rows.me() > 0 {
            return self.follow(&meeting).map(Some);
        }
        let brought = self.bring_together(&meeting, &mut fold);
        // The other hosts wait for this one whatever happened here.
        let all = self.among_leaders(&meeting, brought.as_ref().unwrap_or(mine), tag, &mut fold);
        let all = brought.and(all);
        if !board.bells.is_empty() {
            let mut line = [0; WORDS];
            match &all {
                Ok(all) => line[..FAR_WORDS].copy_from_slice(all),
                Err(error) => line[FAR_WORDS] = error.class.0 as u32 as u64,
            }
            // How it went is in the last word, which is written anyway.
            board.rows.show(&line, WORDS);
            for bell in &board.bells {
                self.fabric.wake_by(bell);
            }
        } else {
            board.rows.next_step();
        }
        all.map(Some)
    }

    /// All but the leader: show a line, and see what the leader shows then.
    fn follow(&self, meeting: &Meeting<'_, F>) -> Result<FarWords> {
        let Meeting { board, span, .. } = meeting;
        let mut line = [0; WORDS];
        line[..FAR_WORDS].copy_from_slice(meeting.mine);
        // The leader is the first of this host, so the first of the bells is its.
        let ring = || {
            if let Some(leader) = board.bells.first() {
                self.fabric.wake_by(leader);
            }
        };
        let wait = |at: usize, row: &RowOf<F>, step| self.wait_line(meeting.comm, span.here[at], row, step);
        let [shown @ .., failed] = board.rows.follow(&line, meeting.words, ring, wait)?;
        if failed == 0 {
            return Ok(shown);
        }
        let class = Some(ErrorClass(failed as u32 as i32)).filter(|class| class.name().is_some());
        let leader = span.here[0];
        Err(Error::new(
            class.unwrap_or(ErrorClass::ERR_OTHER),
            format!(
                "rank {leader}, which speaks with the other hosts for this one, could not finish a collective; its own error says why"
            ),
        ))
    }

    /// The leader: what the ranks of this host bring.
    fn bring_together(
        &self,
        meeting: &Meeting<'_, F>,
        fold: &mut impl FnMut(&mut FarWords, &FarWords) -> Result<()>,
    ) -> Result<FarWords> {
        let mut brought = *meeting.mine;
        let here = &meeting.span.here;
        let wait = |at: usize, row: &RowOf<F>, step| self.wait_line(meeting.comm, here[at], row, step);
        meeting.board.rows.gather(wait, |at, words| {
            let [shown @ .., _] = words;
            match meeting.among {
                Among::Barrier => Ok(()),
                Among::Reduce { .. } => fold(&mut brought, shown),
                Among::Tell { rank: root } => {
                    if here[at] == root {
                        brought = *shown;
                    }
                    Ok(())
                }
            }
        })?;
        Ok(brought)
    }

    /// The leader: with the leaders of the other hosts.
    fn among_leaders(
        &self,
        meeting: &Meeting<'_, F>,
        brought: &FarWords,
        tag: i32,
        fold: &mut impl FnMut(&mut FarWords, &FarWords) -> Result<()>,
    ) -> Result<FarWords> {
        let &Meeting {
            comm, span, words, ..
        } = meeting;
        let mut all = *brought;
        match meeting.among {
            Among::Barrier => self.meet_some(comm, &span.leaders, tag)?,
            Among::Tell { rank } => {
                let root = span.hosts.host_of(rank);
                let told = self.hear_one(comm, &span.leaders, tag, &brought[..words], root)?;
                all[..words].copy_from_slice(&told);
            }
            Among::Reduce { .. } => {
                let parts = self.hear_all(comm, &span.leaders, tag, &brought[..words])?;
                for (host, part) in parts.chunks_exact(words).enumerate() {
                    let mut next = [0; FAR_WORDS];
                    next[..words].copy_from_slice(part);
                    if host == 0 {
                        all = next;
                    } else {
                        fold(&mut all, &next)?;
                    }
                }
                debug_assert_eq!(parts.len(), words * span.leaders.size() as usize);
            }
        }
        Ok(all)
    }
}
