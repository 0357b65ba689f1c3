//! Choosing members by rank: incl, excl and their range forms (MPI-5.0 section 7.3.2).

use super::Group;
use crate::{Error, ErrorClass, Rank, Result};

impl Group {
    /// `MPI_Group_incl`: the members with `ranks`, in that order.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`: a rank the group does not have, or one given twice.
    pub fn incl(&self, ranks: &[Rank]) -> Result<Self> {
        self.marked(ranks, |at| format!("ranks[{at}]"))?;
        Ok(self.picked(ranks))
    }

    /// `MPI_Group_excl`: the members without `ranks`, in the order of the group.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`: a rank the group does not have, or one given twice.
    pub fn excl(&self, ranks: &[Rank]) -> Result<Self> {
        let marks = self.marked(ranks, |at| format!("ranks[{at}]"))?;
        Ok(self.unmarked(&marks))
    }

    /// `MPI_Group_range_incl`: each range is `[first, last, stride]`, with the last included when the
    /// stride meets it.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: a stride of zero or one that leads away from `last`. `MPI_ERR_RANK`: a rank the group
    /// does not have, or one named twice.
    pub fn range_incl(&self, ranges: &[[i32; 3]]) -> Result<Self> {
        let (ranks, owners) = self.expanded(ranges)?;
        self.marked(&ranks, |at| range_name(ranges, owners[at]))?;
        Ok(self.picked(&ranks))
    }

    /// `MPI_Group_range_excl`: the members outside every range, in the order of the group.
    ///
    /// # Errors
    /// As [`Group::range_incl`].
    pub fn range_excl(&self, ranges: &[[i32; 3]]) -> Result<Self> {
        let (ranks, owners) = self.expanded(ranges)?;
        let marks = self.marked(&ranks, |at| range_name(ranges, owners[at]))?;
        Ok(self.unmarked(&marks))
    }

    fn picked(&self, ranks: &[Rank]) -> Self {
        let pids: Vec<u32> = ranks.iter().filter_map(|rank| self.pid(*rank)).collect();
        Self::from_pids(&pids)
    }

    fn unmarked(&self, marks: &[bool]) -> Self {
        let pids: Vec<u32> = self
            .iter()
            .zip(marks)
            .filter_map(|(pid, out)| (!out).then_some(pid))
            .collect();
        Self::from_pids(&pids)
    }

    /// One mark per rank of the group, set for `ranks`; `name` says which argument an index stands for.
    fn marked(&self, ranks: &[Rank], name: impl Fn(usize) -> String) -> Result<Vec<bool>> {
        let mut marks = vec![false; self.size() as usize];
        for (at, rank) in ranks.iter().enumerate() {
            let mark = usize::try_from(*rank).ok().and_then(|rank| marks.get_mut(rank));
            let complaint = match mark {
                Some(mark) if !*mark => {
                    *mark = true;
                    continue;
                }
                Some(_) => "that rank is named twice, and ranks must be distinct".to_string(),
                None => format!("the group has {}", self.ranks_sentence()),
            };
            return fail!(ERR_RANK: "{}={rank}: {complaint}", name(at));
        }
        Ok(marks)
    }

    /// The ranks that `ranges` stand for, each with the index of its range.
    fn expanded(&self, ranges: &[[i32; 3]]) -> Result<(Vec<Rank>, Vec<usize>)> {
        let mut ranks = Vec::new();
        let mut owners = Vec::new();
        for (at, [first, last, stride]) in ranges.iter().copied().enumerate() {
            let complain = |class, what: &str| {
                let text = format!("ranges[{at}]=({first}, {last}, {stride}): {what}");
                Err(Error::new(class, text))
            };
            if stride == 0 {
                return complain(ErrorClass::ERR_ARG, "the stride must not be 0");
            }
            if first != last && (first < last) != (stride > 0) {
                return complain(ErrorClass::ERR_ARG, "the stride leads away from the last rank");
            }
            // Both ends are checked before anything is expanded: a wild range must not take memory.
            let (first, last, stride) = (i64::from(first), i64::from(last), i64::from(stride));
            let reached = first + (last - first) / stride * stride;
            let size = i64::from(self.size());
            if !(0..size).contains(&first) || !(0..size).contains(&reached) {
                let has = format!("the group has {}", self.ranks_sentence());
                return complain(ErrorClass::ERR_RANK, &has);
            }
            for step in 0..=(last - first) / stride {
                if ranks.len() as i64 > size {
                    return complain(
                        ErrorClass::ERR_RANK,
                        "a rank is named twice, and ranks must be distinct",
                    );
                }
                ranks.push((first + step * stride) as Rank);
                owners.push(at);
            }
        }
        Ok((ranks, owners))
    }
}

fn range_name(ranges: &[[i32; 3]], at: usize) -> String {
    let [first, last, stride] = ranges[at];
    format!("ranges[{at}]=({first}, {last}, {stride}): rank")
}
