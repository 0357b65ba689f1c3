//! The error status of a process, in the manner of the Cluster Error Status Register of Sun Fire Link (section 2.7 of the
//! paper): what its own accesses and signals met, sticky until it is read.

use crate::names::{NodeId, SegId};
use farpost_fabric::FabricError;

/// Codes of the register that occur here, with the numbers of Sun Fire Link's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Cause {
    /// The segment was withdrawn, or its owner does not permit this.
    TranslationViolation = 2,
    /// Whom an interrupt was for has not taken it.
    InterruptBusy = 8,
    /// A value came that cannot be right.
    InvalidTransaction = 9,
    /// A get found no answer.
    ReadTimeOut = 10,
    /// A put did not arrive.
    WriteTimeOut = 12,
}

/// The oldest error since the status was read last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReport {
    /// What happened.
    pub cause: Cause,
    /// With whom.
    pub node: NodeId,
    /// With which of its segments.
    pub segment: SegId,
    /// Errors since the status was read last, this one included.
    pub count: u64,
    /// For people.
    pub message: String,
}

/// The register.
#[derive(Default)]
pub struct Cesr(Option<ErrorReport>);

impl Cesr {
    /// An error that nobody waited for.
    #[cold]
    pub fn record(&mut self, cause: Cause, (node, segment): (NodeId, SegId), message: String) {
        match &mut self.0 {
            Some(first) => first.count += 1,
            None => {
                self.0 = Some(ErrorReport {
                    cause,
                    node,
                    segment,
                    count: 1,
                    message,
                });
            }
        }
    }

    /// The code of the oldest error, 0 without one.
    pub fn code(&self) -> u64 {
        self.0.as_ref().map_or(0, |report| report.cause as u64)
    }

    /// What is there; nothing afterwards.
    pub fn take(&mut self) -> Option<ErrorReport> {
        self.0.take()
    }
}

/// The cause of a put (or get) that the fabric refused.
pub fn cause(error: &FabricError, put: bool) -> Cause {
    match error {
        FabricError::NotPublished { .. } | FabricError::Denied { .. } | FabricError::OutOfRange { .. } => {
            Cause::TranslationViolation
        }
        FabricError::Corrupt { .. } => Cause::InvalidTransaction,
        _ if put => Cause::WriteTimeOut,
        _ => Cause::ReadTimeOut,
    }
}
