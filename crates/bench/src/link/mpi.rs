//! MPI's blocking calls, whatever device carries them.

use super::ends::{Ends, HUGE, Link, MOST_PERTURBED, REQUEST};
use crate::abi::{self, Result};

const DATA: i32 = 31;
const ASK: i32 = 32;
const ANSWER: i32 = 33;
const NEVER_SENT: i32 = 34;

/// MPI between ranks 0 and 1.
pub struct Mpi {
    mpi: abi::Mpi,
    peer: usize,
    ends: Ends,
}

impl Mpi {
    pub fn open() -> Result<Self> {
        let mpi = abi::Mpi::init()?;
        let ends = Ends::new(mpi.rank(), HUGE + MOST_PERTURBED);
        let peer = usize::from(ends.rank == 0);
        Ok(Self { mpi, peer, ends })
    }
}

impl Link for Mpi {
    fn ends(&mut self) -> &mut Ends {
        &mut self.ends
    }

    #[inline]
    fn send(&mut self, bytes: usize) -> Result<()> {
        self.mpi.send(&self.ends.out.bytes()[..bytes], self.peer, DATA)
    }

    #[inline]
    fn receive(&mut self, bytes: usize) -> Result<()> {
        self.mpi
            .recv(&mut self.ends.into.bytes_mut()[..bytes], self.peer, DATA)
    }

    /// Two blocking sends would wait for each other.
    #[inline]
    fn both(&mut self, bytes: usize) -> Result<()> {
        let out = (&self.ends.out.bytes()[..bytes], bytes.max(1));
        let into = (&mut self.ends.into.bytes_mut()[..bytes], bytes.max(1));
        self.mpi.window(self.peer, DATA, out, into)
    }

    fn poll(&mut self) -> Result<()> {
        self.mpi.progress(self.peer, NEVER_SENT)
    }

    #[inline]
    fn ask(&mut self) -> Result<u64> {
        self.mpi.send(&self.ends.out.bytes()[..REQUEST], self.peer, ASK)?;
        Ok(0)
    }

    /// MPI has no poll that takes a message in: this waits for it.
    #[inline]
    fn take(&mut self) -> Result<u64> {
        self.mpi
            .recv(&mut self.ends.into.bytes_mut()[..REQUEST], self.peer, ANSWER)?;
        Ok(1)
    }

    #[inline]
    fn answer(&mut self) -> Result<u64> {
        self.mpi
            .recv(&mut self.ends.into.bytes_mut()[..REQUEST], self.peer, ASK)?;
        self.mpi
            .send(&self.ends.into.bytes()[..REQUEST], self.peer, ANSWER)?;
        Ok(1)
    }

    fn close(self) -> Result<()> {
        self.mpi.finalize()
    }
}
