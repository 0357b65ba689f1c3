//! Access control (section 3.12): the initiator names an entry, the target checks it. Who the initiator is comes from the
//! trusted layer.

use super::drops::DropReason;
use crate::types::{ANY, Identity, ProcessId};

/// Whom an entry admits, and to which portal; any part may be [`ANY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessEntry {
    /// Node and process.
    pub id: ProcessId,
    /// User.
    pub uid: u32,
    /// Job.
    pub jid: u32,
    /// Portal index.
    pub pt_index: u32,
}

impl AccessEntry {
    /// Every process of user `uid`, on any portal: what all entries are at the start. The document says so of entry 0
    /// only; the reference initialises all of them that way, and so do we.
    pub fn of_user(uid: u32) -> Self {
        Self {
            id: ProcessId::ANY,
            uid,
            jid: ANY,
            pt_index: ANY,
        }
    }

    /// Section 4.2, rule 4: user, portal, job, node, process, in this order.
    #[inline]
    pub fn check(&self, who: &Identity, pt_index: u32) -> Result<(), DropReason> {
        let admits = |wanted: u32, given: u32| wanted == ANY || wanted == given;
        if !admits(self.uid, who.uid) {
            Err(DropReason::AccessUid)
        } else if !admits(self.pt_index, pt_index) {
            Err(DropReason::AccessPortal)
        } else if !admits(self.jid, who.jid) {
            Err(DropReason::AccessJid)
        } else if !admits(self.id.nid, who.id.nid) {
            Err(DropReason::AccessNid)
        } else if !admits(self.id.pid, who.id.pid) {
            Err(DropReason::AccessPid)
        } else {
            Ok(())
        }
    }
}
