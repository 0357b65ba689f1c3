//! The Myrinet API of Myricom's, with which the paper compares itself: a model of its own, as nothing is known of its program.
//!
//! A message takes a constant, in which all its features and its synchronisation with the LANai are, and then one after the other what passes each byte once:
//!
//! | Call | Each byte |
//! |---|---|
//! | `myri_cmd_send_imm()` | read for the checksum, stored over the SBus in double words |
//! | `myri_cmd_send()` | read for the checksum, copied to the DMA region, fetched by DMA |
//!
//! The constant is fitted for the first (105 us). For the second it is larger by what DMA in both directions adds to `t_0` in section 4.3, as simulated. The
//! asymptotic rate is the SBus's for stores, as in the paper, whose messages were too short to measure it: no result of this model.

use super::machine::lanai;
use super::metrics::{MEBI, Metrics};
use farpost_sim::machine::Machine;

/// `t_0` of `myri_cmd_send_imm()`, in microseconds; fitted to F7.
pub const OVERHEAD: f64 = 105.0;
/// A double word.
const STORE_BYTES: f64 = 8.0;

/// A call of the API.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// In microseconds.
    overhead: f64,
    per_byte: f64,
    /// The bound that the paper takes for `r_inf`, in 2^20 bytes a second.
    bound: f64,
}

impl Call {
    /// `myri_cmd_send_imm()`.
    pub fn immediate(machine: &Machine, overhead: f64) -> Self {
        let store = machine.host.device_store.value.micros() / STORE_BYTES;
        Self {
            overhead,
            per_byte: checksum(machine) + store,
            bound: 1.0 / store * 1e6 / MEBI,
        }
    }

    /// `myri_cmd_send()`, whose constant is larger by so much.
    pub fn dma(machine: &Machine, overhead: f64, more: f64) -> Self {
        let copy = machine.host.copy.last().expect("a level").rate.value;
        let fetch = lanai(machine).sbus_dma.value;
        let byte = |rate: f64| 1e6 / rate;
        Self {
            overhead: overhead + more,
            per_byte: checksum(machine) + byte(copy.0) + byte(fetch.0),
            ..Self::immediate(machine, overhead)
        }
    }

    /// A message, in microseconds.
    pub fn time(&self, bytes: f64) -> f64 {
        self.overhead + self.per_byte * bytes
    }

    pub fn metrics(&self) -> Metrics {
        // bytes / time = bound / 2
        let wanted = 2.0 / (self.bound * MEBI * 1e-6);
        Metrics {
            t0: self.overhead,
            rinf: self.bound,
            half: self.overhead / (wanted - self.per_byte),
        }
    }
}

/// The processor reads a byte, at the rate of its memory.
fn checksum(machine: &Machine) -> f64 {
    1e6 / machine.host.copy[0].rate.value.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_predicted_moves_with_the_fitted_constant() {
        let machine = Machine::open("myrinet-fm").expect("it comes with Farpost");
        let half = |overhead| Call::immediate(&machine, overhead).metrics().half;
        assert!(half(1.2 * OVERHEAD) > 1.15 * half(OVERHEAD));
    }
}
