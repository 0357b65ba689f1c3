//! Sun MPI's collectives, as far as its own numbers tell which they are.
//!
//! Table 2 gives most of it away. A broadcast's vector comes to the last of 16 processes at a quarter of a pair's bandwidth, as in four steps of a binomial tree of
//! blocking sends. `1/41 + 1/183 = 1/33.5`: an all-reduce takes as long as a reduction and a broadcast after it, and so do all gathers as a gather and a broadcast, and
//! a reduce-scatter as a reduction and a scatter. Nothing else here is Sun's: messages and their protocols are Farpost's.

use super::machine::Rank;

/// Parent of a rank in the binomial tree with root 0, and its children, those with the largest subtrees first.
fn relatives(me: usize, size: usize) -> (Option<usize>, Vec<usize>) {
    let low = if me == 0 {
        size.next_power_of_two()
    } else {
        me & me.wrapping_neg()
    };
    let below = std::iter::successors(Some(low / 2), |step| Some(step / 2)).take_while(|step| *step > 0);
    let children = below.map(|step| me + step).filter(|child| *child < size);
    ((me > 0).then(|| me - low), children.collect())
}

/// From rank 0 to all.
pub fn bcast(rank: &Rank, vector: &mut [u8]) {
    let (parent, children) = relatives(rank.me, rank.size);
    if let Some(parent) = parent {
        rank.recv(vector, parent);
    }
    children.into_iter().for_each(|child| rank.send(vector, child));
}

/// To rank 0, whose `vector` stands for the result.
pub fn reduce(rank: &Rank, vector: &mut [u8]) {
    let (parent, children) = relatives(rank.me, rank.size);
    let mut other = vec![0; vector.len()];
    for child in children.into_iter().rev() {
        rank.recv(&mut other, child);
        rank.combine(vector.len());
    }
    if let Some(parent) = parent {
        rank.send(vector, parent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_but_the_root_has_one_parent_of_which_it_is_a_child() {
        for size in [1, 2, 5, 16, 92] {
            for me in 1..size {
                let (parent, _) = relatives(me, size);
                let parent = parent.expect("no root");
                assert!(relatives(parent, size).1.contains(&me), "{me} of {size}");
            }
            let children: usize = (0..size).map(|me| relatives(me, size).1.len()).sum();
            assert_eq!((children, relatives(0, size).0), (size - 1, None));
        }
        assert_eq!(relatives(0, 16).1, [8, 4, 2, 1]);
    }
}
