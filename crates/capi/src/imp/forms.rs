//! The three forms of a collective: blocking, nonblocking, persistent.

use core::ffi::c_void;

use farpost_mpi::Result;
use farpost_mpi::coll::Plan;

/// Makes the plan of one collective anew, for a persistent one at each start.
pub(crate) type Maker = Box<dyn Fn() -> Result<Plan>>;

/// The three forms of a collective, whose common arguments `maker` turns into a maker of plans. Named by the
/// generator: keep the names on the first line.
macro_rules! three_ways {
    ($blocking:ident, $nonblocking:ident, $init:ident, $maker:ident($($arg:ident: $ty:ty),*)) => {
        three_ways!($blocking, $nonblocking, $init, $maker($($arg: $ty),*), |_cx, _comm| false);
    };
    // As above; `$quick` may do the blocking form in a better way and says whether it did.
    ($blocking:ident, $nonblocking:ident, $init:ident, $maker:ident($($arg:ident: $ty:ty),*),
     |$cx:ident, $comm:ident| $quick:expr) => {
        #[allow(clippy::too_many_arguments)] // The standard's own list.
        pub(crate) unsafe fn $blocking(cx: &'static $crate::cx::Cx, $($arg: $ty,)* comm: &$crate::cx::CommRef) -> farpost_mpi::Result<()> {
            let ($cx, $comm) = (cx, comm);
            if $quick {
                return Ok(());
            }
            // SAFETY: the buffers are there for the call.
            let maker = unsafe { $maker(cx, comm, $($arg),*) }?;
            cx.world().run_collective(comm, maker()?)
        }

        #[allow(clippy::too_many_arguments)] // The standard's own list.
        pub(crate) unsafe fn $nonblocking(
            cx: &'static $crate::cx::Cx,
            $($arg: $ty,)*
            comm: &$crate::cx::CommRef,
            request: $crate::args::Out<usize>,
        ) -> farpost_mpi::Result<()> {
            // SAFETY: the buffers are there until the request completes.
            let maker = unsafe { $maker(cx, comm, $($arg),*) }?;
            request.set(cx.world().start_collective(comm, maker()?)?);
            Ok(())
        }

        #[allow(clippy::too_many_arguments)] // The standard's own list.
        pub(crate) unsafe fn $init(
            cx: &'static $crate::cx::Cx,
            $($arg: $ty,)*
            comm: &$crate::cx::CommRef,
            _info: Option<$crate::cx::InfoRef>,
            request: $crate::args::Out<usize>,
        ) -> farpost_mpi::Result<()> {
            // SAFETY: the buffers are there until the request is freed.
            let plan = unsafe { $maker(cx, comm, $($arg),*) }?;
            // What is wrong is said now, not at the first start.
            plan()?;
            request.set(cx.world().persistent_collective(comm, plan)?);
            Ok(())
        }
    };
}

/// A buffer that is read.
pub(crate) type Ptr = *const c_void;
/// A buffer that is written.
pub(crate) type PtrMut = *mut c_void;

/// A maker that calls `$build` with the site of `$comm`.
macro_rules! maker {
    ($cx:expr, $comm:expr, |$site:ident| $build:expr) => {{
        let (cx, comm): (&'static $crate::cx::Cx, $crate::cx::CommRef) = ($cx, std::rc::Rc::clone($comm));
        Ok(Box::new(move || {
            let $site = &cx.world().site(&comm);
            $build
        }))
    }};
}

pub(crate) use {maker, three_ways};
