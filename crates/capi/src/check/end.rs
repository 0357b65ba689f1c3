//! The end of a checked program: what was never freed, completed or received, and what not all have called.
//!
//! Everybody takes part. Who has sent something to somebody says at last that nothing follows; when all have, what lies
//! unreceived is all there is. Then rank 0 hears what each has left and tells it, once for all who have left the same.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use farpost_mpi::Result;
use farpost_mpi::coll::{self, Block};
use farpost_mpi::datatype::{Basic, Datatype};
use farpost_mpi::engine::context::{ANY_SOURCE, ANY_TAG};
use farpost_mpi::handle::HandleKind as Handles;
use farpost_mpi::op::Op;

use super::header::{Sent, header_only, strip};
use super::made::What;
use super::record::{Reader, Writer};
use super::report::EXIT_CODE;
use super::{Check, call};
use crate::cx::{CommRef, Cx, comm_name};

/// First words of records: nothing follows from me to you; what I have left.
const NOTHING_FOLLOWS: u64 = 2;
const LEFT: u64 = 3;
/// Lines of one process that are told.
const MOST_LINES: usize = 24;

/// What the others have said.
#[derive(Default)]
pub(super) struct Ending {
    through: Cell<u32>,
    /// By rank: findings, lines.
    left: RefCell<BTreeMap<u32, (u64, Vec<String>)>>,
}

impl Ending {
    /// A record of the end has come, behind its first word.
    pub(super) fn take(&self, kind: u64, source: u32, reader: &mut Reader<'_>) {
        match kind {
            NOTHING_FOLLOWS => self.through.set(self.through.get().saturating_add(1)),
            LEFT => {
                let mut read = || {
                    let (findings, count) = (reader.word()?, reader.count()?);
                    let lines = (0..count).map(|_| reader.text()).collect::<Option<_>>()?;
                    Some((findings, lines))
                };
                let left = read().unwrap_or_default();
                self.left.borrow_mut().insert(source, left);
            }
            _ => {}
        }
    }

    /// Findings and lines in all, and the lines of those who have left the same.
    pub(super) fn all_left(&self) -> (u64, Vec<String>) {
        let all = self.left.borrow();
        let mut same: Vec<(Vec<u32>, &Vec<String>)> = Vec::new();
        let mut findings = 0u64;
        for (rank, (count, lines)) in all.iter() {
            findings = findings.saturating_add(*count).saturating_add(lines.len() as u64);
            if lines.is_empty() {
                continue;
            }
            match same.iter_mut().find(|(_, known)| *known == lines) {
                Some((ranks, _)) => ranks.push(*rank),
                None => same.push((vec![*rank], lines)),
            }
        }
        let of_ranks = |(ranks, lines): (Vec<u32>, &Vec<String>)| {
            let who = ranks_text(&ranks);
            lines
                .iter()
                .map(|line| format!("{who}: {line}"))
                .collect::<Vec<_>>()
        };
        (findings, same.into_iter().flat_map(of_ranks).collect())
    }
}

impl Check {
    /// A message or record goes to process `peer`.
    pub(super) fn meet(&self, peer: u32) {
        self.channel.met.borrow_mut().insert(peer);
    }

    /// The program calls `MPI_Finalize`.
    pub(crate) fn finish(&self, cx: &'static Cx) -> Result<()> {
        let world = cx.world();
        self.collective(cx, call(), world.comm_world(), Default::default());
        self.hear_all(cx)?;
        // Who had learnt of it joined no more of them.
        let revoked = world.revoked_contexts();
        self.ledger.broken.borrow_mut().extend(revoked);
        let mut lines = self.ledger.unfinished(&self.sites);
        lines.extend(self.unreceived(cx)?);
        lines.extend(self.requests_left(cx));
        lines.extend(self.objects_left(cx));
        lines.extend(self.findings.untold());
        let mut record = Writer::default();
        let told = lines.len().min(MOST_LINES);
        if lines.len() > told {
            lines[told - 1] = format!("and {} more", lines.len() - told + 1);
            lines.truncate(told);
        }
        record.word(LEFT).word(self.findings.count()).word(told as u64);
        for line in &lines {
            record.text(line.as_bytes());
        }
        self.send(cx, 0, &record.done());
        let all = if self.rank == 0 { world.size() } else { 0 };
        world.wait_until(|| {
            self.poll(cx);
            let left = self.ending.left.borrow();
            let told = (0..all).all(|rank| left.contains_key(&rank) || cx.is_gone(rank));
            Ok(self.has_sent_all() && told || self.is_closed())
        })?;
        if self.rank == 0 {
            self.tell_left(cx);
        }
        // Nobody goes before the job may have to end.
        self.meet_all(cx)?;
        self.close(world);
        Ok(())
    }

    /// Wait for everybody.
    pub(crate) fn meet_all(&self, cx: &'static Cx) -> Result<()> {
        let (world, comm) = (cx.world(), &self.channel.comm);
        world.run_collective(comm, coll::barrier(&world.site(comm))?)
    }

    /// Until everything that was sent to this process is here.
    fn hear_all(&self, cx: &'static Cx) -> Result<()> {
        let (world, comm) = (cx.world(), &self.channel.comm);
        let met: Vec<u32> = self
            .channel
            .met
            .borrow()
            .iter()
            .copied()
            .filter(|peer| *peer != self.rank)
            .collect();
        let mine: Vec<Cell<u32>> = (0..world.size())
            .map(|peer| Cell::new(met.contains(&peer).into()))
            .collect();
        let expected = Cell::new(0u32);
        let number = Datatype::predefined(0x20d).unwrap_or_else(|| Datatype::from_basic(Basic::INT));
        // SAFETY: both outlive the collective, which is run to its end here.
        let (send, recv) = unsafe {
            (
                Block::new(mine.as_ptr().cast_mut().cast(), mine.len() as u64, number.clone()),
                Block::new(expected.as_ptr().cast(), 1, number),
            )
        };
        for peer in met {
            self.send(cx, peer, &Writer::default().word(NOTHING_FOLLOWS).done());
        }
        let plan = coll::reduce_scatter_block(&world.site(comm), Some(send), recv, &Op::SUM)?;
        world.run_collective(comm, plan)?;
        world.wait_until(|| {
            self.poll(cx);
            let through = self.ending.through.get() >= expected.get();
            Ok(through || self.is_closed() || (0..world.size()).any(|rank| cx.is_gone(rank)))
        })
    }

    /// Messages that nobody received. They are taken.
    fn unreceived(&self, cx: &'static Cx) -> Result<Vec<String>> {
        let world = cx.world();
        let mut comms: Vec<CommRef> = vec![world.comm_world().clone(), world.comm_self().clone()];
        comms.extend(
            world
                .comm_handles()
                .into_iter()
                .filter_map(|handle| world.comm(handle)),
        );
        let mut lines = Vec::new();
        for comm in comms {
            while let Some((message, mut status)) = world.improbe(&comm, ANY_SOURCE, ANY_TAG)? {
                let (room, header) = header_only()?;
                let receiving = world.imrecv(message, room)?;
                // That it is cut off is as it should be.
                world.wait(receiving)?;
                strip(&mut status);
                let by = match Sent::read(&header) {
                    Some(sent) => format!(", sent by {}", self.call_text(sent.call)),
                    None => String::new(),
                };
                lines.push(format!(
                    "a message of {} bytes from rank {} of {} with tag {} was never received{by}",
                    status.bytes,
                    status.source,
                    comm_name(&comm),
                    status.tag
                ));
            }
        }
        Ok(lines)
    }

    fn requests_left(&self, _: &Cx) -> Vec<String> {
        let line = |handle| {
            let made = self.maker(What::Request, handle)?;
            let call = self.call_text(made);
            let what = if made.fun.name().ends_with("_init") || made.fun.name().ends_with("_init_c") {
                "was never freed (MPI_Request_free)"
            } else {
                "was never completed (MPI_Wait, MPI_Test, ...)"
            };
            Some(format!("the request of {call} {what}"))
        };
        self.live(What::Request).into_iter().filter_map(line).collect()
    }

    fn objects_left(&self, cx: &Cx) -> Vec<String> {
        let world = cx.world();
        let named = |handle: usize| {
            let name = world.comm(handle).map(|comm| comm.name.borrow().clone());
            (
                handle,
                String::from_utf8_lossy(&name.unwrap_or_default()).into_owned(),
            )
        };
        let comms = world.comm_handles().into_iter().map(named).collect();
        let types = cx.objects.types.borrow();
        let types = types.derived().map(|ty| (ty.handle(), ty.name())).collect();
        let live = |what, kind| {
            let handles = self.live(what).into_iter();
            let handles = handles.filter(|handle| kind == Handles::of(*handle) || what == What::Keyval);
            handles.map(|handle| (handle, String::new())).collect::<Vec<_>>()
        };
        let kinds = [
            (What::Comm, "communicator", "MPI_Comm_free", comms),
            (What::Datatype, "datatype", "MPI_Type_free", types),
            (
                What::Group,
                "group",
                "MPI_Group_free",
                live(What::Group, Some(Handles::Group)),
            ),
            (
                What::Op,
                "operation",
                "MPI_Op_free",
                live(What::Op, Some(Handles::Op)),
            ),
            (
                What::Errhandler,
                "error handler",
                "MPI_Errhandler_free",
                live(What::Errhandler, Some(Handles::Errhandler)),
            ),
            (
                What::Info,
                "info object",
                "MPI_Info_free",
                live(What::Info, Some(Handles::Info)),
            ),
            (
                What::Message,
                "message handle",
                "MPI_Mrecv",
                live(What::Message, Some(Handles::Message)),
            ),
            (
                What::Keyval,
                "attribute key",
                "MPI_Comm_free_keyval, MPI_Type_free_keyval",
                live(What::Keyval, None),
            ),
        ];
        let mut lines = Vec::new();
        for (what, noun, free, handles) in kinds {
            for (handle, name) in handles {
                let name = if name.is_empty() { name } else { format!(" {name}") };
                let made = match self.maker(what, handle) {
                    Some(made) => format!("made by {}", self.call_text(made)),
                    None => "made before MPI_Init, or by a function that gives several handles".into(),
                };
                lines.push(format!("the {noun}{name} {made} was never freed ({free})"));
            }
        }
        lines
    }

    /// Rank 0 tells what all have left, once for those who have left the same, and ends the job if that was asked for.
    fn tell_left(&self, cx: &Cx) {
        let (findings, lines) = self.ending.all_left();
        for line in lines {
            self.tell(&line);
        }
        if self.mode.error && findings > 0 {
            cx.abort(
                EXIT_CODE,
                "findings of the check end the job (FARPOST_CHECK=error)",
            );
        }
    }
}

/// `rank 3`, `ranks 0-3, 7`.
fn ranks_text(ranks: &[u32]) -> String {
    if let [rank] = ranks {
        return format!("rank {rank}");
    }
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *rank => *last = *rank,
            _ => runs.push((*rank, *rank)),
        }
    }
    let text = |(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    format!("ranks {}", runs.iter().map(text).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ranks_have_left_is_told_once_and_counted_whatever_they_say() {
        let ending = Ending::default();
        for (rank, findings, line) in [(0, 1, "a request"), (1, u64::MAX, "a request"), (2, 5, "a group")] {
            let record = Writer::default()
                .word(findings)
                .word(1)
                .text(line.as_bytes())
                .done();
            ending.take(LEFT, rank, &mut Reader(&record));
        }
        let lines = ["ranks 0, 1: a request", "rank 2: a group"].map(String::from);
        assert_eq!(ending.all_left(), (u64::MAX, lines.to_vec()));
    }

    #[test]
    fn ranks_are_told_in_runs() {
        assert_eq!(ranks_text(&[3]), "rank 3");
        assert_eq!(ranks_text(&[0, 1, 2, 3, 7, 9, 10]), "ranks 0-3, 7, 9, 10");
    }
}
