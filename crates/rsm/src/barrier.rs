//! Barriers: scopes in which errors of accesses are found.
//!
//! Cost class: *queued path*: a round trip between hosts; on memory that is mapped a fence of the processor, a load, and a
//! look whether the owner lives.

use crate::error::{Code, Result, RsmError};
use crate::state::{Import, ImportState, Mode};
use farpost_fabric::{Fabric, FabricError, Remote};

/// What the errors of a scope are counted from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Failed accesses.
    pub errors: u64,
    /// Changes of the route to the owner.
    pub reroutes: u64,
}

/// A scope for one import (`rsmapi_barrier_t`). As made by `default`, it is not initialised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Barrier {
    /// Connection it is initialised for; 0: none.
    connection: u32,
    /// How things stood when it was opened.
    open: Option<Mark>,
}

impl<F: Fabric> ImportState<F> {
    /// A scope begins.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            errors: self.errors.get(),
            reroutes: self.inner.fabric.reroutes(self.peer),
        }
    }

    /// All accesses so far are complete: or what has happened since `before`. `accessed`: there was one besides
    /// those of explicit mode.
    pub(crate) fn complete(&self, before: Mark, puts: bool, accessed: bool) -> Result<()> {
        let gone = self.is_aborted();
        self.inner.progress();
        // What a program stores to its mapping nobody sees: it may have.
        let accessed = self.open.replace(false) || accessed || self.mapped.get();
        let fenced = match &self.memory {
            Some(memory) if puts => memory.fence(),
            _ => Ok(()),
        };
        if gone {
            // What the fence says is no news, and the next connection's fence should not say it.
            if accessed {
                self.lost_again();
            }
            return self.check_connected();
        }
        if let Err(error) = fenced {
            self.failed(&error, true);
            if matches!(error, FabricError::PeerDead { .. }) {
                self.abort(&error.to_string());
            }
        }
        self.check_connected()?;
        let failed = self.errors.get() - before.errors;
        if failed > 0 {
            return fail!(
                BARRIER_FAILURE: "segment {:#x} of node {}: {failed} accesses did not arrive; repeat them",
                self.id, self.peer.0
            );
        }
        if self.inner.fabric.reroutes(self.peer) != before.reroutes {
            return fail!(
                BARRIER_FAILURE: "segment {:#x} of node {}: a rail failed, and what was on its way went by another; repeat the accesses",
                self.id, self.peer.0
            );
        }
        Ok(())
    }
}

impl<F: Fabric> Import<F> {
    /// Whether the barrier is this connection's.
    fn own(&self, barrier: &Barrier) -> Result<()> {
        if barrier.connection == 0 {
            return Err(RsmError::of(Code::BARRIER_UNINITIALIZED));
        }
        if barrier.connection != self.state.connection {
            return fail!(BAD_BARRIER_PTR: "the barrier is another segment's");
        }
        Ok(())
    }

    /// Whether the barrier is this connection's, and there is a connection.
    fn check(&self, barrier: &Barrier) -> Result<()> {
        self.own(barrier)?;
        self.state.check_handle()
    }

    /// Make a barrier of this segment's (`rsm_memseg_import_init_barrier`).
    ///
    /// # Errors
    /// `BAD_SEG_HNDL`: disconnected.
    pub fn init_barrier(&self) -> Result<Barrier> {
        self.state.check_handle()?;
        self.state.barriers.set(self.state.barriers.get() + 1);
        Ok(Barrier {
            connection: self.state.connection,
            open: None,
        })
    }

    /// From here on errors count (`rsm_memseg_import_open_barrier`). Opened again, it forgets those before.
    ///
    /// # Errors
    /// `BARRIER_UNINITIALIZED`, `BAD_BARRIER_PTR`: it is another segment's.
    pub fn open_barrier(&self, barrier: &mut Barrier) -> Result<()> {
        self.check(barrier)?;
        barrier.open = Some(self.state.mark());
        Ok(())
    }

    /// All accesses so far are complete before any later one, or here is the error (`rsm_memseg_import_order_barrier`).
    /// The scope stays open, and an error in it is reported again when it is closed.
    ///
    /// # Errors
    /// `BARRIER_UNINITIALIZED`, `BARRIER_NOT_OPENED`, `CONN_ABORTED`, `BARRIER_FAILURE`.
    pub fn order_barrier(&self, barrier: &mut Barrier) -> Result<()> {
        self.check(barrier)?;
        let Some(before) = barrier.open else {
            return Err(RsmError::of(Code::BARRIER_NOT_OPENED));
        };
        self.state.complete(before, true, false)
    }

    /// As [`order_barrier`](Self::order_barrier), and the scope ends (`rsm_memseg_import_close_barrier`).
    ///
    /// # Errors
    /// As there.
    pub fn close_barrier(&self, barrier: &mut Barrier) -> Result<()> {
        let result = self.order_barrier(barrier);
        barrier.open = None;
        result
    }

    /// The end of a barrier (`rsm_memseg_import_destroy_barrier`).
    ///
    /// # Errors
    /// `BARRIER_UNINITIALIZED`, `BAD_BARRIER_PTR`.
    pub fn destroy_barrier(&self, barrier: &mut Barrier) -> Result<()> {
        self.own(barrier)?;
        *barrier = Barrier::default();
        self.state.barriers.set(self.state.barriers.get() - 1);
        Ok(())
    }

    /// Who opens and closes barriers (`rsm_memseg_import_get_mode`).
    pub fn mode(&self) -> Mode {
        self.state.mode.get()
    }

    /// Choose who does (`rsm_memseg_import_set_mode`).
    pub fn set_mode(&self, mode: Mode) {
        self.state.mode.set(mode);
    }
}
