//! Communicators of groups (MPI-5.0 section 7.4.2).

use super::talk::MakingTag;
use crate::Result;
use crate::comm::Comm;
use crate::group::Group;
use crate::world::World;
use farpost_fabric::Fabric;
use std::rc::Rc;

fn need_subset(comm: &Comm, group: &Group) -> Result<()> {
    match group.iter().position(|pid| !comm.local.contains(pid)) {
        None if group.is_empty() => Ok(()),
        None => crate::session::need_same(["comm", "group"], [comm.local.session(), group.session()]),
        Some(rank) => {
            fail!(ERR_GROUP: "group: the process of its rank {rank} is not in the group of comm")
        }
    }
}

/// Calls that do not belong together have met: of tags, or groups, that the processes' messages cannot tell apart.
pub(super) fn need_same_tag(ours: i64, theirs: i64) -> Result<()> {
    if ours == theirs {
        return Ok(());
    }
    fail!(ERR_ARG: "stringtag: the first process of the group gave another one, or another group, in the call that this one met")
}

/// Words of one rank on an intercommunicator: rank in the new group, context number to use if it leads.
const WORDS: usize = 2;
/// Not in the group.
const OUTSIDE: i64 = -1;
/// The group is no good.
const REFUSED: i64 = -2;

impl<F: Fabric> World<F> {
    /// `MPI_Comm_create`: collective over `comm`; disjoint groups may be given by different processes. `None`
    /// is `MPI_COMM_NULL`: not in the group, or the other group of an intercommunicator gave an empty one.
    ///
    /// # Errors
    /// `MPI_ERR_GROUP`: not a subset of the group of `comm`.
    pub fn comm_create(&self, comm: &Rc<Comm>, group: &Group) -> Result<Option<Rc<Comm>>> {
        if comm.is_inter() {
            return self.create_inter(comm, group);
        }
        need_subset(comm, group)?;
        let words = self.hear_first(comm, group, None, &[self.new_context() as i64])?;
        match words[..] {
            [] => Ok(None),
            [number, ..] => self.make(comm, number, group.clone(), None).map(Some),
        }
    }

    /// `MPI_Comm_create_group`: collective over `group` only; calls with the same `tag` at the same time must not
    /// overlap.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: an intercommunicator. `MPI_ERR_GROUP`: not a subset of the group of `comm`.
    pub fn comm_create_group(&self, comm: &Rc<Comm>, group: &Group, tag: i32) -> Result<Option<Rc<Comm>>> {
        comm.need_intra("comm")?;
        need_subset(comm, group)?;
        let words = self.hear_first(
            comm,
            group,
            Some(MakingTag::number(tag)),
            &[self.new_context() as i64],
        )?;
        match words[..] {
            [] => Ok(None),
            [number, ..] => self.make(comm, number, group.clone(), None).map(Some),
        }
    }

    /// `MPI_Comm_create_from_group`: collective over `group`, told apart by `tag`. `None` is `MPI_COMM_NULL`: of the
    /// empty group.
    ///
    /// # Errors
    /// `MPI_ERR_GROUP`: this process is not in it.
    pub fn comm_create_from_group(&self, group: &Group, tag: &[u8]) -> Result<Option<Rc<Comm>>> {
        if group.is_empty() {
            return Ok(None);
        }
        self.need_me("group", group)?;
        let world = self.comm_world();
        let words = [self.new_context() as i64, MakingTag::told_apart(tag, &[group])];
        let heard = self.hear_first(world, group, Some(MakingTag::string(tag)), &words)?;
        need_same_tag(words[1], heard[1])?;
        self.make_first(heard[0], group.clone(), None).map(Some)
    }

    /// A communicator of agreed number and groups that has no parent: nothing is inherited.
    pub(super) fn make_first(&self, number: i64, local: Group, remote: Option<Group>) -> Result<Rc<Comm>> {
        let number = self.checked_context(&[number])?;
        let rank = local.rank_of(self.pid());
        let rank =
            rank.ok_or_else(|| error!(ERR_INTERN: "a communicator is made by a process outside of it"))?;
        self.add_comm(number, local, remote, rank)
    }

    /// A group argument that must have this process in it.
    pub(super) fn need_me(&self, argument: &str, group: &Group) -> Result<()> {
        if group.contains(self.pid()) {
            return Ok(());
        }
        fail!(ERR_GROUP: "{argument}: the calling process is not in it")
    }

    fn create_inter(&self, comm: &Rc<Comm>, group: &Group) -> Result<Option<Rc<Comm>>> {
        let wrong = need_subset(comm, group).err();
        let rank = match &wrong {
            Some(_) => REFUSED,
            None => group.rank_of(self.pid()).map_or(OUTSIDE, i64::from),
        };
        let mine = [rank, self.new_context() as i64];
        let near = self.gather_local(comm, &mine)?;
        let far = self.gather_remote(comm, &mine)?;
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let refused = near.chunks_exact(WORDS).chain(far.chunks_exact(WORDS));
        if refused.clone().any(|w| w[0] == REFUSED) {
            return fail!(ERR_GROUP: "group: another process gave one that is not a subset of its group of comm");
        }
        let members = |words: &[i64], from: &Group| {
            let mut list: Vec<(i64, i64, u32)> = words
                .chunks_exact(WORDS)
                .zip(from.iter())
                .filter(|(w, _)| w[0] >= 0)
                .map(|(w, pid)| (w[0], w[1], pid))
                .collect();
            list.sort_unstable();
            list
        };
        let (Some(remote), true) = (&comm.remote, rank >= 0) else {
            return Ok(None);
        };
        let theirs = members(&far, remote);
        let ours = members(&near, &comm.local);
        let ([first, ..], [their_first, ..]) = (&ours[..], &theirs[..]) else {
            return Ok(None);
        };
        let low = if first.2 < their_first.2 {
            first
        } else {
            their_first
        };
        let theirs: Vec<u32> = theirs.iter().map(|member| member.2).collect();
        let remote = Group::from_pids(&theirs);
        self.make(comm, low.1, group.clone(), Some(remote)).map(Some)
    }
}
