//! The layout plan of a datatype: where the bytes of its packed stream are in memory.
//!
//! A tree of repeated, scattered and listed runs. Merging happens while it is built, so that what is
//! regular ends as one run or one strided loop whatever constructors made it. Every node knows how many
//! bytes it yields, so that a walk can start at any byte: one division per loop, one binary search per
//! list. Offsets are relative to the buffer address; they wrap, because a stream never leaves the
//! bounds that the constructors checked.

use std::rc::Rc;

/// A part of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Added to every offset inside.
    pub off: i64,
    /// Bytes of data.
    pub size: u64,
    pub kind: LayoutKind,
}

#[derive(Clone, Debug)]
pub(crate) enum LayoutKind {
    /// `size` adjacent bytes.
    Run,
    /// Runs of `block` bytes, `stride` apart.
    Strided { block: u64, stride: i64 },
    /// Copies of `body`, `stride` apart.
    Loop { stride: i64, body: Rc<Node> },
    /// Copies of `body` at these offsets.
    Scatter { disps: Rc<[i64]>, body: Rc<Node> },
    /// Runs of different lengths at these offsets; `starts[i]` is the stream position of run `i`, one more
    /// entry than runs.
    Ragged { disps: Rc<[i64]>, starts: Rc<[u64]> },
    /// Different parts; `starts` as in `Ragged`.
    Seq { parts: Rc<[Node]>, starts: Rc<[u64]> },
}

/// Receives the pieces of a walk in stream order. Returning `false` ends the walk.
pub(crate) trait Sink {
    /// `count` runs of `block` bytes at `off`, `off + stride`, ...
    fn blocks(&mut self, off: i64, stride: i64, block: u64, count: u64) -> bool;

    /// Runs of `block` bytes at `base + disp` for each displacement.
    #[inline]
    fn scattered(&mut self, base: i64, disps: &[i64], block: u64) -> bool {
        disps
            .iter()
            .all(|disp| self.blocks(base.wrapping_add(*disp), 0, block, 1))
    }

    /// Runs at `base + disps[i]` of `starts[i + 1] - starts[i]` bytes.
    #[inline]
    fn ragged(&mut self, base: i64, disps: &[i64], starts: &[u64]) -> bool {
        let lengths = starts.windows(2).map(|pair| pair[1] - pair[0]);
        disps
            .iter()
            .zip(lengths)
            .all(|(disp, len)| self.blocks(base.wrapping_add(*disp), 0, len, 1))
    }
}

impl Node {
    pub fn run(off: i64, size: u64) -> Node {
        Node {
            off,
            size,
            kind: LayoutKind::Run,
        }
    }

    fn shifted(mut self, by: i64) -> Node {
        self.off = self.off.wrapping_add(by);
        self
    }

    /// `count` copies, `stride` apart.
    pub fn repeat(&self, count: u64, stride: i64) -> Node {
        if count == 0 || self.size == 0 {
            return Node::run(0, 0);
        }
        if count == 1 {
            return self.clone();
        }
        let size = self.size * count;
        let kind = match &self.kind {
            LayoutKind::Run if stride == self.size as i64 => LayoutKind::Run,
            LayoutKind::Run => LayoutKind::Strided {
                block: self.size,
                stride,
            },
            LayoutKind::Strided { block, stride: inner }
                if (*inner as i128) * (self.size / block) as i128 == stride as i128 =>
            {
                LayoutKind::Strided {
                    block: *block,
                    stride: *inner,
                }
            }
            LayoutKind::Loop { stride: inner, body }
                if (*inner as i128) * (self.size / body.size) as i128 == stride as i128 =>
            {
                LayoutKind::Loop {
                    stride: *inner,
                    body: body.clone(),
                }
            }
            _ => {
                return Node {
                    off: 0,
                    size,
                    kind: LayoutKind::Loop {
                        stride,
                        body: Rc::new(self.clone()),
                    },
                };
            }
        };
        Node {
            off: self.off,
            size,
            kind,
        }
    }

    /// Copies at each displacement.
    pub fn scatter(&self, disps: &Rc<[i64]>) -> Node {
        if self.size == 0 || disps.is_empty() {
            return Node::run(0, 0);
        }
        if let Some(stride) = progression(disps) {
            return self.repeat(disps.len() as u64, stride).shifted(disps[0]);
        }
        if let LayoutKind::Run = self.kind {
            return Node::runs(disps.iter().map(|disp| (disp.wrapping_add(self.off), self.size)));
        }
        Node {
            off: 0,
            size: self.size * disps.len() as u64,
            kind: LayoutKind::Scatter {
                disps: disps.clone(),
                body: Rc::new(self.clone()),
            },
        }
    }

    /// Runs `(offset, length)` in stream order; neighbours are merged.
    pub fn runs(list: impl Iterator<Item = (i64, u64)>) -> Node {
        let mut disps: Vec<i64> = Vec::new();
        let mut starts: Vec<u64> = Vec::new();
        let mut at = 0;
        for (off, len) in list.filter(|(_, len)| *len > 0) {
            let joined = disps
                .last()
                .zip(starts.last())
                .is_some_and(|(disp, start)| disp.wrapping_add((at - start) as i64) == off);
            if !joined {
                disps.push(off);
                starts.push(at);
            }
            at += len;
        }
        starts.push(at);
        match disps.len() {
            0 => return Node::run(0, 0),
            1 => return Node::run(disps[0], at),
            _ => {}
        }
        let block = starts[1];
        if !starts.windows(2).all(|pair| pair[1] - pair[0] == block) {
            return Node {
                off: 0,
                size: at,
                kind: LayoutKind::Ragged {
                    disps: disps.into(),
                    starts: starts.into(),
                },
            };
        }
        if let Some(stride) = progression(&disps) {
            return Node::run(disps[0], block).repeat(disps.len() as u64, stride);
        }
        Node {
            off: 0,
            size: at,
            kind: LayoutKind::Scatter {
                disps: disps.into(),
                body: Rc::new(Node::run(0, block)),
            },
        }
    }

    /// Parts one after the other in the stream, each moved by its displacement.
    pub fn sequence(parts: impl Iterator<Item = (i64, Node)>) -> Node {
        let mut list: Vec<Node> = Vec::new();
        for (disp, node) in parts.filter(|(_, node)| node.size > 0) {
            let node = node.shifted(disp);
            if let (LayoutKind::Run, Some(last)) = (&node.kind, list.last_mut())
                && matches!(last.kind, LayoutKind::Run)
                && last.off.wrapping_add(last.size as i64) == node.off
            {
                last.size += node.size;
                continue;
            }
            list.push(node);
        }
        if list.iter().all(|node| matches!(node.kind, LayoutKind::Run)) {
            return Node::runs(list.iter().map(|node| (node.off, node.size)));
        }
        if list.len() == 1 {
            return list.remove(0);
        }
        let mut starts = Vec::with_capacity(list.len() + 1);
        let mut at = 0;
        for node in &list {
            starts.push(at);
            at += node.size;
        }
        starts.push(at);
        Node {
            off: 0,
            size: at,
            kind: LayoutKind::Seq {
                parts: list.into(),
                starts: starts.into(),
            },
        }
    }

    /// Whether the data are one run.
    pub fn is_run(&self) -> bool {
        matches!(self.kind, LayoutKind::Run)
    }
}

/// The common difference of two or more displacements; 0 for a single one.
fn progression(disps: &[i64]) -> Option<i64> {
    let stride = match disps {
        [first, second, ..] => second.wrapping_sub(*first),
        _ => 0,
    };
    disps
        .windows(2)
        .all(|pair| pair[1].wrapping_sub(pair[0]) == stride)
        .then_some(stride)
}

/// Cuts stream range `from..from+len` into pieces of bodies of `size` bytes each: a partial first, whole
/// ones, a partial last. `part(index, from, len)`, `whole(first index, count)`.
#[inline]
fn cut<C>(
    size: u64,
    from: u64,
    len: u64,
    context: &mut C,
    part: impl Fn(&mut C, u64, u64, u64) -> bool,
    whole: impl Fn(&mut C, u64, u64) -> bool,
) -> bool {
    let (mut index, skip) = if from == 0 {
        (0, 0)
    } else {
        (from / size, from % size)
    };
    let mut left = len;
    if skip > 0 {
        let piece = left.min(size - skip);
        if !part(context, index, skip, piece) {
            return false;
        }
        left -= piece;
        index += 1;
    }
    let count = left / size;
    if count > 0 && !whole(context, index, count) {
        return false;
    }
    let rest = left - count * size;
    rest == 0 || part(context, index + count, 0, rest)
}

#[inline]
fn at(base: i64, index: u64, stride: i64) -> i64 {
    base.wrapping_add((index as i64).wrapping_mul(stride))
}

#[inline]
fn strided<S: Sink>(base: i64, block: u64, stride: i64, from: u64, len: u64, sink: &mut S) -> bool {
    cut(
        block,
        from,
        len,
        sink,
        |sink, index, skip, piece| {
            sink.blocks(at(base, index, stride).wrapping_add(skip as i64), 0, piece, 1)
        },
        |sink, index, count| sink.blocks(at(base, index, stride), stride, block, count),
    )
}

fn looped<S: Sink>(base: i64, stride: i64, body: &Node, from: u64, len: u64, sink: &mut S) -> bool {
    cut(
        body.size,
        from,
        len,
        sink,
        |sink, index, skip, piece| walk(body, at(base, index, stride), skip, piece, sink),
        |sink, index, count| {
            let mut places = (index..index + count).map(|index| at(base, index, stride));
            // Arrays of structures with gaps, the usual case, without a walk for each.
            let (first, disps) = (body.off, body_list(body));
            match disps {
                Some((disps, Lengths::Same(block))) => {
                    places.all(|base| sink.scattered(base.wrapping_add(first), disps, block))
                }
                Some((disps, Lengths::Starts(starts))) => {
                    places.all(|base| sink.ragged(base.wrapping_add(first), disps, starts))
                }
                None => places.all(|base| walk(body, base, 0, body.size, sink)),
            }
        },
    )
}

enum Lengths<'a> {
    Same(u64),
    Starts(&'a [u64]),
}

/// The runs of a node that is a plain list of them.
#[inline]
fn body_list(node: &Node) -> Option<(&[i64], Lengths<'_>)> {
    match &node.kind {
        LayoutKind::Scatter { disps, body } if body.is_run() && body.off == 0 => {
            Some((disps, Lengths::Same(body.size)))
        }
        LayoutKind::Ragged { disps, starts } => Some((disps, Lengths::Starts(starts))),
        _ => None,
    }
}

/// Hands bytes `from..from+len` of the stream of `node` to `sink`.
pub(crate) fn walk<S: Sink>(node: &Node, base: i64, from: u64, len: u64, sink: &mut S) -> bool {
    debug_assert!(from + len <= node.size);
    if len == 0 {
        return true;
    }
    let base = base.wrapping_add(node.off);
    match &node.kind {
        LayoutKind::Run => sink.blocks(base.wrapping_add(from as i64), 0, len, 1),
        LayoutKind::Strided { block, stride } => strided(base, *block, *stride, from, len, sink),
        LayoutKind::Loop { stride, body } => looped(base, *stride, body, from, len, sink),
        LayoutKind::Scatter { disps, body } => {
            let place = |index: u64| base.wrapping_add(disps[index as usize]);
            cut(
                body.size,
                from,
                len,
                sink,
                |sink, index, skip, piece| walk(body, place(index), skip, piece, sink),
                |sink, index, count| {
                    if body.is_run() {
                        let some = &disps[index as usize..(index + count) as usize];
                        return sink.scattered(base.wrapping_add(body.off), some, body.size);
                    }
                    (index..index + count).all(|index| walk(body, place(index), 0, body.size, sink))
                },
            )
        }
        LayoutKind::Ragged { disps, starts } if len == node.size => sink.ragged(base, disps, starts),
        LayoutKind::Ragged { disps, starts } => listed(starts, from, len, |index, skip, piece| {
            let off = base.wrapping_add(disps[index]).wrapping_add(skip as i64);
            sink.blocks(off, 0, piece, 1)
        }),
        LayoutKind::Seq { parts, starts } => listed(starts, from, len, |index, skip, piece| {
            walk(&parts[index], base, skip, piece, sink)
        }),
    }
}

/// Walks a list with prefix sums: `piece(index, from, len)` for each entry touched.
#[inline]
fn listed(starts: &[u64], from: u64, len: u64, mut piece: impl FnMut(usize, u64, u64) -> bool) -> bool {
    let mut index = if from == 0 {
        0
    } else {
        starts.partition_point(|start| *start <= from) - 1
    };
    let (mut from, end) = (from, from + len);
    while from < end {
        let stop = end.min(starts[index + 1]);
        if !piece(index, from - starts[index], stop - from) {
            return false;
        }
        from = stop;
        index += 1;
    }
    true
}

/// As [`walk`] for elements `extent` apart; the range must lie within the elements there are.
pub(crate) fn walk_many<S: Sink>(node: &Node, extent: i64, from: u64, len: u64, sink: &mut S) -> bool {
    if len == 0 {
        return true;
    }
    match &node.kind {
        LayoutKind::Run if extent == node.size as i64 => {
            sink.blocks(node.off.wrapping_add(from as i64), 0, len, 1)
        }
        LayoutKind::Run => strided(node.off, node.size, extent, from, len, sink),
        LayoutKind::Strided { block, stride }
            if (*stride as i128) * (node.size / block) as i128 == extent as i128 =>
        {
            strided(node.off, *block, *stride, from, len, sink)
        }
        _ => looped(0, extent, node, from, len, sink),
    }
}
