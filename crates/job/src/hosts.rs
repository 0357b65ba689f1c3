//! Which rank is on which host.

use crate::layout::MAX_RANKS;

/// Hosts are numbered in the order of their lowest ranks, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostMap {
    host_of: Vec<u32>,
    lowest: Vec<u32>,
}

impl HostMap {
    /// All ranks on one host.
    pub fn single(size: u32) -> HostMap {
        HostMap {
            host_of: vec![0; size as usize],
            lowest: vec![0],
        }
    }

    /// From anything that is the same for two ranks exactly if they are on one host; an element per rank.
    pub fn of<T: Eq + std::hash::Hash>(nodes: impl IntoIterator<Item = T>) -> HostMap {
        let mut seen = std::collections::HashMap::new();
        let (mut host_of, mut lowest) = (Vec::new(), Vec::new());
        for (rank, node) in nodes.into_iter().enumerate() {
            let host = *seen.entry(node).or_insert_with(|| {
                lowest.push(rank as u32);
                lowest.len() as u32 - 1
            });
            host_of.push(host);
        }
        HostMap { host_of, lowest }
    }

    /// Read `PMI_process_mapping`: `(vector,BLOCK,...)`, a block being `(first node,nodes,ranks per node)`, or a node for
    /// one rank, or `[BLOCK,...]xTIMES`. Ranks fill the nodes of each block in order; when the blocks are used up before
    /// the ranks are, the first block follows again. `None`: the text is empty, the launcher does not say.
    pub fn parse(text: &str, size: u32) -> Result<Option<HostMap>, String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let mut reader = Reader {
            rest: text,
            size: size as usize,
        };
        match reader.mapping() {
            Some(nodes) => Ok(Some(HostMap::of(nodes.into_iter().cycle().take(size as usize)))),
            None => Err(format!(
                "its process mapping '{}' is damaged {} characters before its end",
                crate::error::clip(text),
                reader.rest.len()
            )),
        }
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.lowest.len() as u32
    }

    /// The host of each rank.
    pub fn host_of(&self) -> &[u32] {
        &self.host_of
    }

    /// The lowest rank on the host of `rank`.
    pub fn lowest_beside(&self, rank: u32) -> u32 {
        self.lowest[self.host_of[rank as usize] as usize]
    }

    /// How many ranks are on the host of `rank`, itself included.
    pub fn count_beside(&self, rank: u32) -> u32 {
        let host = self.host_of[rank as usize];
        self.host_of.iter().filter(|h| **h == host).count() as u32
    }

    /// The ranks on the host of `rank`, ascending.
    pub fn beside(&self, rank: u32) -> Vec<u32> {
        let host = self.host_of[rank as usize];
        (0..self.host_of.len() as u32)
            .filter(|r| self.host_of[*r as usize] == host)
            .collect()
    }
}

/// A process mapping that is being read. All methods are `None` when the text is not what they read.
struct Reader<'a> {
    rest: &'a str,
    size: usize,
}

impl Reader<'_> {
    fn mapping(&mut self) -> Option<Vec<u32>> {
        self.literal("(")?;
        self.literal("vector")?;
        self.literal(",")?;
        let nodes = self.list(true)?;
        self.literal(")")?;
        (self.rest.is_empty() && !nodes.is_empty()).then_some(nodes)
    }

    fn literal(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(text)?.trim_start();
        Some(())
    }

    fn number(&mut self) -> Option<u32> {
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(self.rest.len());
        let number = self.rest[..end].parse().ok().filter(|n| *n <= MAX_RANKS)?;
        self.rest = self.rest[end..].trim_start();
        Some(number)
    }

    /// Blocks with commas between them: the nodes of at most `size` ranks.
    fn list(&mut self, groups: bool) -> Option<Vec<u32>> {
        let mut nodes = Vec::new();
        loop {
            let room = self.size.saturating_sub(nodes.len());
            if groups && self.literal("[").is_some() {
                let group = self.list(false)?;
                self.literal("]")?;
                self.literal("x")?;
                let times = self.number().filter(|n| *n > 0)? as usize;
                nodes.extend(group.iter().cycle().take((group.len() * times).min(room)));
            } else if self.literal("(").is_some() {
                let first = self.number()?;
                self.literal(",")?;
                let count = self.number().filter(|n| *n > 0)?;
                self.literal(",")?;
                let ranks = self.number().filter(|n| *n > 0)? as usize;
                self.literal(")")?;
                nodes.extend(
                    (first..first + count)
                        .flat_map(|n| std::iter::repeat_n(n, ranks))
                        .take(room),
                );
            } else {
                nodes.extend(Some(self.number()?).filter(|_| room > 0));
            }
            if self.literal(",").is_none() {
                return Some(nodes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mapped(text: &str, size: u32) -> Vec<u32> {
        HostMap::parse(text, size).unwrap().unwrap().host_of().to_vec()
    }

    #[test]
    fn mappings_are_read() {
        assert_eq!(mapped("(vector,(0,1,4))", 4), [0, 0, 0, 0]);
        assert_eq!(mapped("(vector,(0,2,2))", 4), [0, 0, 1, 1]);
        assert_eq!(mapped("(vector,(0,2,1))", 5), [0, 1, 0, 1, 0]);
        assert_eq!(mapped("(vector,(0,1,3),(1,2,1))", 5), [0, 0, 0, 1, 2]);
        assert_eq!(mapped(" (vector, (5,1,1), (2,1,2)) ", 3), [0, 1, 1]);
        assert_eq!(mapped("(vector,[(0,2,1)]x2,0)", 5), [0, 1, 0, 1, 0]);
        assert_eq!(mapped("(vector,(0,1,2),1,(2,1,2))", 5), [0, 0, 1, 2, 2]);
        assert_eq!(
            mapped("(vector,[3,(0,1,2)]x2,[1]x9)", 8),
            [0, 1, 1, 0, 1, 1, 2, 2]
        );
        assert_eq!(mapped("(vector,[(0,16384,16384)]x16384)", 3), [0, 0, 0]);
        assert_eq!(HostMap::parse("", 3), Ok(None));
        let map = HostMap::parse("(vector,(0,2,1))", 5).unwrap().unwrap();
        assert_eq!(
            (map.hosts(), map.lowest_beside(3), map.beside(2)),
            (2, 1, vec![0, 2, 4])
        );
    }

    #[test]
    fn what_is_not_a_mapping_is_refused() {
        for text in [
            "vector",
            "()",
            "(vector)",
            "(vector,(0,1))",
            "(vector,(0,0,1))",
            "(vector,(0,1,0))",
            "(vector,(0,1,1)x,(0,1,1))",
            "(vector,(-1,1,1))",
            "(vector,(0,1,99999999999))",
            "(matrix,(0,1,1))",
            "(vector,(0,1,1)",
            "(vector,(0,1,1)) ,",
            "(vector,[0,1]x0)",
            "(vector,[0,1])",
            "(vector,[[0]x1]x1)",
            "(vector,,0)",
            "(vector,0,)",
        ] {
            let error = HostMap::parse(text, 2);
            assert!(error.is_err(), "{text}: {error:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "[(]vector[]\\[(),x0-9]{0,30}[)]", size in 1u32..50) {
            if let Ok(Some(map)) = HostMap::parse(&text, size) {
                prop_assert_eq!(map.host_of().len(), size as usize);
                prop_assert!(map.host_of().iter().all(|h| *h < map.hosts()));
            }
        }
    }
}
