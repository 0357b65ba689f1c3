//! The typemap in the form the constructors leave it: byte displacements over child types. Bounds, plan
//! and element counts derive from it.
//!
//! Requirements of MPI-5.0 sections 5.1.1, 5.1.7, 5.1.8.

use super::Datatype;
use super::basic::Basic;
use super::layout::Node;
use crate::errors::Result;
use std::rc::Rc;

pub(crate) enum Shape {
    Basic(Basic),
    /// A value and, `at` bytes on, an index.
    Pair {
        value: Basic,
        index: Basic,
        at: u64,
    },
    /// `count` blocks of `block` children, blocks `stride` bytes apart.
    Repeat {
        count: u64,
        block: u64,
        stride: i64,
        child: Datatype,
    },
    /// Blocks of `block` children at each displacement.
    Blocks {
        block: u64,
        disps: Rc<[i64]>,
        child: Datatype,
    },
    /// Blocks of differing lengths.
    Indexed {
        blocks: Rc<[u64]>,
        disps: Rc<[i64]>,
        child: Datatype,
    },
    /// Blocks of differing lengths and types.
    Struct {
        blocks: Rc<[u64]>,
        disps: Rc<[i64]>,
        children: Vec<Datatype>,
    },
    /// The child's typemap, with bounds of its own or not.
    Same(Datatype),
    /// No data, but a bound: `MPI_LB` or `MPI_UB` of MPI-1.
    Mark(Mark),
}

/// Which bound a mark sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Lower,
    Upper,
}

/// What the constructors compute.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    pub size: u64,
    pub lb: i64,
    pub extent: i64,
    pub true_lb: i64,
    pub true_extent: i64,
    /// Strictest alignment of the leaves.
    pub align: u8,
    /// Lower and upper bound were set explicitly somewhere inside; they win over the data's.
    pub marked: (bool, bool),
    pub elements: u64,
    pub basic: Option<Basic>,
}

/// Sums up blocks in arithmetic that cannot overflow, and checks at the end.
#[derive(Default)]
struct Tally {
    size: i128,
    elements: i128,
    data: Option<(i128, i128)>,
    /// From the lower to the upper bounds of the children, which may have padding behind their data.
    span: Option<(i128, i128)>,
    /// The lowest lower and the highest upper bound that were set explicitly (MPI-5.0 section 5.1.6).
    low_mark: Option<i128>,
    high_mark: Option<i128>,
    align: u8,
    basic: Option<Basic>,
    mixed: bool,
}

fn widen(range: &mut Option<(i128, i128)>, low: i128, high: i128) {
    *range = Some(match *range {
        Some((old_low, old_high)) => (old_low.min(low), old_high.max(high)),
        None => (low, high),
    });
}

impl Tally {
    /// `count` blocks of `block` children; the first at `disp`, the next `stride` on.
    fn add(&mut self, child: &Datatype, count: u64, block: u64, disp: i64, stride: i64) {
        if count == 0 || block == 0 {
            return;
        }
        let metrics = &child.0.metrics;
        let copies = count as i128 * block as i128;
        // Sizes saturate far above what fits, so that sums of sums stay below 2^127.
        let most = 1i128 << 90;
        self.size = (self.size + copies.saturating_mul(metrics.size as i128)).min(most);
        self.elements = (self.elements + copies.saturating_mul(metrics.elements as i128)).min(most);
        let last_block = (count as i128 - 1) * stride as i128;
        let last_child = (block as i128 - 1).saturating_mul(metrics.extent as i128);
        let low = disp as i128 + last_block.min(0) + last_child.min(0);
        let high = disp as i128 + last_block.max(0) + last_child.max(0);
        if metrics.size > 0 {
            let true_ub = metrics.true_lb as i128 + metrics.true_extent as i128;
            widen(&mut self.data, low + metrics.true_lb as i128, high + true_ub);
            let ub = metrics.lb as i128 + metrics.extent as i128;
            widen(&mut self.span, low + metrics.lb as i128, high + ub);
            self.leaf(metrics.align, metrics.basic);
        }
        let (low_marked, high_marked) = metrics.marked;
        if low_marked {
            let lb = low + metrics.lb as i128;
            self.low_mark = Some(self.low_mark.map_or(lb, |mark| mark.min(lb)));
        }
        if high_marked {
            let ub = high + metrics.lb as i128 + metrics.extent as i128;
            self.high_mark = Some(self.high_mark.map_or(ub, |mark| mark.max(ub)));
        }
    }

    fn leaf(&mut self, align: u8, basic: Option<Basic>) {
        self.align = self.align.max(align);
        match (basic, self.basic) {
            _ if self.mixed => {}
            (Some(new), None) => self.basic = Some(new),
            (Some(new), Some(old)) if new == old => {}
            _ => {
                self.mixed = true;
                self.basic = None;
            }
        }
    }

    fn finish(self, bounds: Option<(i64, i64)>) -> Result<Metrics> {
        let (true_lb, true_ub) = self.data.unwrap_or((0, 0));
        let align = self.align.max(1);
        let true_extent = true_ub - true_lb;
        let (lb, extent) = match bounds {
            Some((lb, extent)) => (lb as i128, extent as i128),
            None => {
                let (align, (lb, ub)) = (align as i128, self.span.or(self.data).unwrap_or((0, 0)));
                let lb = self.low_mark.unwrap_or(lb);
                let extent = match self.high_mark {
                    Some(ub) => ub - lb,
                    // What follows the data up to the next place for such an element.
                    None => (ub - lb + align - 1).div_euclid(align) * align,
                };
                (lb, extent)
            }
        };
        let fits = |value: i128, what: &str| match i64::try_from(value) {
            Ok(value) => Ok(value),
            Err(_) => {
                fail!(ERR_VALUE_TOO_LARGE: "the new datatype's {what} would be outside the range of MPI_Count (63 bits and sign)")
            }
        };
        let size = fits(self.size, "size")? as u64;
        fits(true_ub, "true upper bound")?;
        fits(lb + extent, "upper bound")?;
        Ok(Metrics {
            size,
            lb: fits(lb, "lower bound")?,
            extent: fits(extent, "extent")?,
            true_lb: fits(true_lb, "true lower bound")?,
            true_extent: fits(true_extent, "true extent")?,
            align,
            marked: (
                bounds.is_some() || self.low_mark.is_some(),
                bounds.is_some() || self.high_mark.is_some(),
            ),
            elements: fits(self.elements, "number of basic elements")? as u64,
            basic: self.basic,
        })
    }
}

impl Shape {
    pub fn of(basic: Basic) -> Shape {
        match basic.info().pair {
            None => Shape::Basic(basic),
            Some((value, index)) => Shape::pair(Basic::known(value as usize), Basic::known(index as usize)),
        }
    }

    /// As C lays out `struct { value; index; }`.
    pub fn pair(value: Basic, index: Basic) -> Shape {
        Shape::Pair {
            value,
            index,
            at: value.size().next_multiple_of(index.info().align as u64),
        }
    }

    pub fn metrics(&self, bounds: Option<(i64, i64)>) -> Result<Metrics> {
        let mut tally = Tally::default();
        match self {
            Shape::Basic(basic) => {
                tally.size = basic.size() as i128;
                tally.elements = 1;
                tally.data = Some((0, basic.size() as i128));
                tally.leaf(basic.info().align, Some(*basic));
            }
            Shape::Pair { value, index, at } => {
                tally.size = (value.size() + index.size()) as i128;
                tally.elements = 2;
                tally.data = Some((0, (*at + index.size()) as i128));
                tally.leaf(value.info().align, Some(*value));
                tally.leaf(index.info().align, Some(*index));
            }
            Shape::Repeat {
                count,
                block,
                stride,
                child,
            } => tally.add(child, *count, *block, 0, *stride),
            Shape::Blocks { block, disps, child } => {
                for disp in disps.iter() {
                    tally.add(child, 1, *block, *disp, 0);
                }
            }
            Shape::Indexed { blocks, disps, child } => {
                for (block, disp) in blocks.iter().zip(disps.iter()) {
                    tally.add(child, 1, *block, *disp, 0);
                }
            }
            Shape::Struct {
                blocks,
                disps,
                children,
            } => {
                for ((block, disp), child) in blocks.iter().zip(disps.iter()).zip(children.iter()) {
                    tally.add(child, 1, *block, *disp, 0);
                }
            }
            Shape::Same(child) => tally.add(child, 1, 1, 0, 0),
            Shape::Mark(Mark::Lower) => tally.low_mark = Some(0),
            Shape::Mark(Mark::Upper) => tally.high_mark = Some(0),
        }
        tally.finish(bounds)
    }

    /// The plan. Only for shapes whose metrics fit.
    pub fn layout(&self) -> Node {
        match self {
            Shape::Basic(basic) => Node::run(0, basic.size()),
            Shape::Pair { value, index, at } => {
                Node::runs([(0, value.size()), (*at as i64, index.size())].into_iter())
            }
            Shape::Repeat {
                count,
                block,
                stride,
                child,
            } => child
                .layout()
                .repeat(*block, child.extent())
                .repeat(*count, *stride),
            Shape::Blocks { block, disps, child } => {
                child.layout().repeat(*block, child.extent()).scatter(disps)
            }
            Shape::Indexed { blocks, disps, child } if child.is_contiguous() => {
                let (off, size) = (child.layout().off, child.size());
                let place = |(block, disp): (&u64, &i64)| (disp.wrapping_add(off), block * size);
                Node::runs(blocks.iter().zip(disps.iter()).map(place))
            }
            Shape::Indexed { blocks, disps, child } => Node::sequence(
                blocks
                    .iter()
                    .zip(disps.iter())
                    .map(|(block, disp)| (*disp, child.layout().repeat(*block, child.extent()))),
            ),
            Shape::Struct {
                blocks,
                disps,
                children,
            } => Node::sequence(
                blocks
                    .iter()
                    .zip(disps.iter())
                    .zip(children.iter())
                    .map(|((block, disp), child)| (*disp, child.layout().repeat(*block, child.extent()))),
            ),
            Shape::Same(child) => child.layout().clone(),
            Shape::Mark(_) => Node::run(0, 0),
        }
    }
}
