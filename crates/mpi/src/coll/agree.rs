//! One rank's block told to everybody, in both groups of an intercommunicator: what communicators are made with.

use super::mem::Block;
use super::plan::{Lane, Plan};
use super::{Site, bcast};

/// `buf` from rank 0 to everybody; on an intercommunicator from rank 0 of the group at which `leads` is true
/// to both groups.
pub(crate) fn agree(site: &Site<'_>, buf: Block, leads: bool) -> Plan {
    let mut b = site.builder();
    if site.inter() && b.rank == 0 {
        if leads {
            b.send_on(Lane::Remote, &buf, 0, &[]);
        } else {
            b.recv_on(Lane::Remote, &buf, 0, &[]);
            b.round();
        }
    }
    bcast::intra(&mut b, site.tuning, &buf, 0);
    b.finish()
}
