//! Splitting by color and key, and by what processes share (MPI-5.0 section 7.4.2).

use crate::Result;
use crate::comm::{Comm, RESOURCE_KEY, SHARED_MEMORY, SplitType};
use crate::group::{Group, UNDEFINED};
use crate::info::Info;
use crate::world::World;
use farpost_fabric::{Fabric, Peer};
use std::rc::Rc;

/// Words of one rank: color, key, context number to use if it leads, kind of split.
const WORDS: usize = 4;
/// Whether a color is neither a color nor `MPI_UNDEFINED`.
fn refused(color: i64) -> bool {
    color < 0 && color != i64::from(UNDEFINED)
}

/// The members with my color: their words, in the order of the new group.
fn chosen(words: &[i64], color: i64) -> Vec<(usize, [i64; WORDS])> {
    let all = words.chunks_exact(WORDS).enumerate();
    let mut mine: Vec<_> = all
        .filter(|(_, w)| w[0] == color)
        .map(|(rank, w)| (rank, [w[0], w[1], w[2], w[3]]))
        .collect();
    // Stable: those with the same key keep their order.
    mine.sort_by_key(|(_, w)| w[1]);
    mine
}

fn pids(group: &Group, chosen: &[(usize, [i64; WORDS])]) -> Group {
    let pids: Vec<u32> = chosen
        .iter()
        .filter_map(|(rank, _)| group.pid(*rank as i32))
        .collect();
    Group::from_pids(&pids)
}

impl<F: Fabric> World<F> {
    /// `MPI_Comm_split`. `None` is `MPI_COMM_NULL`: for the color `MPI_UNDEFINED`, and on an intercommunicator
    /// for one that nobody of the other group has.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` at all ranks: some rank's color is negative and not `MPI_UNDEFINED`.
    pub fn comm_split(&self, comm: &Rc<Comm>, color: i32, key: i32) -> Result<Option<Rc<Comm>>> {
        self.split(comm, color, key, 0)
    }

    /// `MPI_Comm_split_type`; `kind: None` is `MPI_UNDEFINED`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` at all ranks: they named different kinds.
    pub fn comm_split_type(
        &self,
        comm: &Rc<Comm>,
        kind: Option<SplitType>,
        key: i32,
        info: Option<&Info>,
    ) -> Result<Option<Rc<Comm>>> {
        let host = |pid| self.fabric.host_of(Peer(pid)) as i32;
        let mine = host(self.pid());
        let named = |key| info.and_then(|info| info.get_str(key));
        let color = match kind {
            None => None,
            Some(SplitType::Shared) => Some(mine),
            Some(SplitType::HwUnguided) => {
                // Only a split that makes something smaller.
                comm.local.iter().any(|pid| host(pid) != mine).then_some(mine)
            }
            Some(kind) => match (named(RESOURCE_KEY), named("mpi_pset_name")) {
                (Some(SHARED_MEMORY), _) => Some(mine),
                (None, Some("mpi://WORLD")) if kind == SplitType::ResourceGuided => Some(0),
                (None, Some("mpi://SELF")) if kind == SplitType::ResourceGuided => Some(self.pid() as i32),
                _ => None,
            },
        };
        let kind = kind.map_or(0, |kind| kind as i64);
        self.split(comm, color.unwrap_or(UNDEFINED), key, kind)
    }

    fn split(&self, comm: &Rc<Comm>, color: i32, key: i32, kind: i64) -> Result<Option<Rc<Comm>>> {
        let color = i64::from(color);
        let mine = [color, i64::from(key), self.new_context() as i64, kind];
        let near = self.gather_local(comm, &mine)?;
        let far = match comm.remote {
            Some(_) => self.gather_remote(comm, &mine)?,
            None => Vec::new(),
        };
        check(&near, &far)?;
        if color == i64::from(UNDEFINED) {
            return Ok(None);
        }
        let ours = chosen(&near, color);
        let local = pids(&comm.local, &ours);
        let Some(remote) = &comm.remote else {
            return self.make(comm, ours[0].1[2], local, None).map(Some);
        };
        let theirs = chosen(&far, color);
        let Some(first) = theirs.first() else {
            return Ok(None);
        };
        let remote = pids(remote, &theirs);
        let low = if local.pid(0) < remote.pid(0) {
            &ours[0]
        } else {
            first
        };
        self.make(comm, low.1[2], local, Some(remote)).map(Some)
    }

    /// A communicator of agreed number and groups.
    pub(in crate::world) fn make(
        &self,
        parent: &Comm,
        number: i64,
        local: Group,
        remote: Option<Group>,
    ) -> Result<Rc<Comm>> {
        let number = self.checked_context(&[number])?;
        let rank = local
            .rank_of(self.pid())
            .ok_or_else(|| error!(ERR_INTERN: "a communicator is made by a process outside of it"))?;
        // What is made of a communicator is of the same session as that.
        let session = match local.session() {
            0 => parent.local.session(),
            of_group => of_group,
        };
        let new = self.add_comm(number, local.of_session(session), remote, rank)?;
        new.inherit(parent);
        Ok(new)
    }
}

/// What is wrong is wrong at all ranks.
fn check(near: &[i64], far: &[i64]) -> Result<()> {
    let sides = [("", near), (" of the other group", far)];
    for (side, words) in sides {
        let all = words.chunks_exact(WORDS).enumerate();
        if let Some((rank, w)) = all.into_iter().find(|(_, w)| refused(w[0])) {
            return fail!(
                ERR_ARG: "color={} at rank {rank}{side}: colors are 0 or above, or MPI_UNDEFINED", w[0]
            );
        }
    }
    let mut kinds = near
        .chunks_exact(WORDS)
        .chain(far.chunks_exact(WORDS))
        .map(|w| w[3]);
    let first = kinds.clone().find(|kind| *kind != 0);
    if let Some(other) = kinds.find(|kind| *kind != 0 && Some(*kind) != first) {
        return fail!(
            ERR_ARG: "split_type: some ranks gave {} and others {other}; it must be the same or MPI_UNDEFINED",
            first.unwrap_or(0)
        );
    }
    Ok(())
}
