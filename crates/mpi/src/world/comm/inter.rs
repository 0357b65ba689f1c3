//! Making intercommunicators, and one group of their two (MPI-5.0 section 7.6).
//!
//! Requirements of MPI-5.0 section 7.6.2.

use super::create::need_same_tag;
use super::talk::MakingTag;
use crate::comm::Comm;
use crate::group::Group;
use crate::session::need_same;
use crate::world::World;
use crate::{Error, ErrorClass, Rank, Result};
use farpost_fabric::Fabric;
use std::rc::Rc;

impl<F: Fabric> World<F> {
    /// `MPI_Intercomm_create`. `peer` is looked at where I am the leader.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: `local` is an intercommunicator, the leader gave no peer communicator, or a process is in
    /// both groups. `MPI_ERR_RANK`: a leader that is not there.
    pub fn intercomm_create(
        &self,
        local: &Rc<Comm>,
        local_leader: Rank,
        peer: Option<&Rc<Comm>>,
        remote_leader: Rank,
        tag: i32,
    ) -> Result<Rc<Comm>> {
        local.need_intra("local_comm")?;
        local.need_rank("local_leader", local_leader)?;
        let met = if local.rank == local_leader {
            Some(self.meet(local, peer, remote_leader, tag))
        } else {
            None
        };
        // Error class, or size of the other group and number of the new communicator as either would have it.
        let head = match &met {
            Some(Ok(met)) => [0, met.pids.len() as i64, met.ours, met.theirs],
            Some(Err(error)) => [i64::from(error.class.0), 0, 0, 0],
            None => [0; 4],
        };
        let head = self.hear_root(local, &head, local_leader)?;
        let mut pids = match met {
            Some(met) => met?.pids,
            None => Vec::new(),
        };
        if head[0] != 0 {
            let text = format!("local_leader={local_leader}: the leader could not reach the other group");
            return Err(Error::new(ErrorClass(head[0] as i32), text));
        }
        pids.resize(head[1] as usize, 0);
        let pids = self.hear_root(local, &pids, local_leader)?;
        let remote = self.group_of(&pids)?;
        if let Some(pid) = remote.iter().find(|pid| local.local.contains(*pid)) {
            return fail!(
                ERR_COMM: "peer_comm: process {pid} of the job is in both groups, which must be disjoint"
            );
        }
        let low = local.local.pid(0) < remote.pid(0);
        let number = if low { head[2] } else { head[3] };
        self.make(local, number, local.local.clone(), Some(remote))
    }

    /// `MPI_Intercomm_create_from_groups`: collective over both groups, told apart by `tag`.
    ///
    /// # Errors
    /// `MPI_ERR_GROUP`: this process is not in `local`, or a process is in both groups. `MPI_ERR_RANK`: a leader
    /// that is not there.
    pub fn intercomm_create_from_groups(
        &self,
        local: &Group,
        local_leader: Rank,
        remote: &Group,
        remote_leader: Rank,
        tag: &[u8],
    ) -> Result<Rc<Comm>> {
        self.need_me("local_group", local)?;
        need_same(
            ["local_group", "remote_group"],
            [local.session(), remote.session()],
        )?;
        if let Some(rank) = remote.iter().position(|pid| local.contains(pid)) {
            return fail!(
                ERR_GROUP: "remote_group: its rank {rank} is also in local_group; they must be disjoint"
            );
        }
        let leader = |argument: &str, rank: Rank, group: &Group| {
            group.pid(rank).ok_or_else(
                || error!(ERR_RANK: "{argument}={rank}: the group has {}", group.ranks_sentence()),
            )
        };
        let near = leader("local_leader", local_leader, local)?;
        let far = leader("remote_leader", remote_leader, remote)?;
        let world = self.comm_world();
        // Both sides have the lower group first.
        let sides = if local.pid(0) < remote.pid(0) {
            [local, remote]
        } else {
            [remote, local]
        };
        let told_apart = MakingTag::told_apart(tag, &sides);
        let tag = MakingTag::string(tag);
        let mut numbers = vec![self.new_context() as i64, 0, told_apart];
        if near == self.pid() {
            // Ranks of MPI_COMM_WORLD are process numbers.
            let theirs = self.swap(world, far as Rank, tag, &[numbers[0], told_apart], 2)?;
            need_same_tag(told_apart, theirs[1])?;
            numbers[1] = theirs[0];
        }
        let mut leader_first = local.to_pids();
        leader_first.rotate_left(local_leader as usize);
        let numbers = self.hear_first(world, &Group::from_pids(&leader_first), Some(tag), &numbers)?;
        need_same_tag(told_apart, numbers[2])?;
        let low = local.pid(0) < remote.pid(0);
        self.make_first(numbers[usize::from(!low)], local.clone(), Some(remote.clone()))
    }

    /// What the leaders tell each other.
    fn meet(&self, local: &Comm, peer: Option<&Rc<Comm>>, remote_leader: Rank, tag: i32) -> Result<Met> {
        let peer = peer.ok_or_else(
            || error!(ERR_COMM: "peer_comm=MPI_COMM_NULL: the leader needs a communicator with the other leader"),
        )?;
        let there = peer.peer(remote_leader);
        match there {
            None => {
                let last = i64::from(peer.peers()) - 1;
                return fail!(ERR_RANK: "remote_leader={remote_leader}: peer_comm has ranks 0 to {last}");
            }
            Some(there) if there.0 == self.pid() => {
                return fail!(ERR_RANK: "remote_leader={remote_leader}: this is the local leader itself");
            }
            Some(_) => {}
        }
        let tag = MakingTag::number(tag);
        let ours = self.new_context() as i64;
        let head = self.swap(peer, remote_leader, tag, &[i64::from(local.size()), ours], 2)?;
        let size = usize::try_from(head[0])
            .ok()
            .filter(|size| (1..=self.size() as usize).contains(size));
        let size = size.ok_or_else(
            || error!(ERR_INTERN: "the other leader says that its group has {} processes", head[0]),
        )?;
        let mine: Vec<i64> = local.local.iter().map(i64::from).collect();
        let pids = self.swap(peer, remote_leader, tag, &mine, size)?;
        Ok(Met {
            pids,
            ours,
            theirs: head[1],
        })
    }

    /// The group of process numbers that another process told.
    fn group_of(&self, pids: &[i64]) -> Result<Group> {
        let mut seen = vec![false; self.size() as usize];
        let mut group = Vec::with_capacity(pids.len());
        for pid in pids {
            let place = usize::try_from(*pid).ok().and_then(|pid| seen.get_mut(pid));
            match place {
                Some(seen) if !*seen => *seen = true,
                _ => {
                    return fail!(
                        ERR_INTERN: "the other leader names process {pid}, which is not there or named twice"
                    );
                }
            }
            group.push(*pid as u32);
        }
        Ok(Group::from_pids(&group))
    }

    /// `MPI_Intercomm_merge`: the group with `high` false first; when both say the same, the one whose first
    /// process has the lower number in the job.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`: not an intercommunicator.
    pub fn intercomm_merge(&self, comm: &Rc<Comm>, high: bool) -> Result<Rc<Comm>> {
        comm.need_inter("intercomm")?;
        let mine = [i64::from(high), self.new_context() as i64];
        let ours = self.hear_root(comm, &mine, 0)?;
        let theirs = self.hear_other_root(comm, &ours)?;
        let we_first = match (ours[0], theirs[0]) {
            (0, 1) => true,
            (1, 0) => false,
            _ => comm.leads(),
        };
        let mut pids = comm.local.to_pids();
        let others = comm.remote.iter().flat_map(Group::iter);
        pids.extend(others);
        if !we_first {
            pids.rotate_left(comm.size() as usize);
        }
        let number = if comm.leads() { ours[1] } else { theirs[1] };
        self.make(comm, number, Group::from_pids(&pids), None)
    }
}

/// What the local leader learned.
struct Met {
    pids: Vec<i64>,
    /// Numbers that either side would give the communicator.
    ours: i64,
    theirs: i64,
}
