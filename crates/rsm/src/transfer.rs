//! Scatter and gather: `rsm_memseg_import_putv` and `getv`.

use crate::error::{Code, Result, RsmError};
use crate::signal::Accumulate;
use crate::state::Import;
use farpost_fabric::Fabric;

/// Most transfers in one list (`RSM_MAX_SGIOREQS`).
pub const SG_MAX: usize = 16;

/// One end of a transfer that is here.
pub enum Local<'a> {
    /// To be put.
    From(&'a [u8]),
    /// To be filled.
    To(&'a mut [u8]),
}

/// One transfer.
pub struct Transfer<'a> {
    /// Here.
    pub local: Local<'a>,
    /// There.
    pub offset: usize,
}

/// What became of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vectored {
    /// Transfers that are not complete: the failed one and those after it.
    pub residual: usize,
    /// The first error.
    pub result: Result<()>,
}

impl<F: Fabric> Import<F> {
    /// Put or get a list of transfers in order, up to the first that fails. In implicit mode each is in a barrier of its
    /// own; in explicit mode it takes one to know that they are complete. With `signal`, a signal is posted to the
    /// exporter after, and only after, all have succeeded.
    pub fn transfer(&self, list: &mut [Transfer<'_>], signal: Option<Accumulate>) -> Vectored {
        let all = list.len();
        if all == 0 || all > SG_MAX {
            let what = format!("a list of {all} transfers: 1 to {SG_MAX} are possible");
            return Vectored {
                residual: all,
                result: Err(RsmError::new(Code::BAD_SGIO, what)),
            };
        }
        for (done, transfer) in list.iter_mut().enumerate() {
            let result = match &mut transfer.local {
                Local::From(from) => self.put(transfer.offset, from),
                Local::To(to) => self.get(transfer.offset, to),
            };
            if result.is_err() {
                return Vectored {
                    residual: all - done,
                    result,
                };
            }
        }
        let result = match signal {
            Some(accumulate) => self.post(accumulate),
            None => Ok(()),
        };
        Vectored { residual: 0, result }
    }
}
