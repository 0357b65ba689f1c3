//! One body per function of `api/fm.toml`, under its name in lower case.

use core::ffi::c_ulong;

use crate::cx::Cx;
use crate::interfaces::fm::{FM_nodeid, FM_numnodes};
use crate::node::{self, Interface};
use crate::process;

pub(crate) fn fm_initialize(cx: &'static Cx) {
    match node::open(cx, Interface::Fm) {
        Ok(node) => {
            FM_nodeid.set(cx, c_ulong::from(node.job.rank()));
            FM_numnodes.set(cx, c_ulong::from(node.job.size()));
        }
        Err(why) => process::abort(cx, 1, &format!("FM_initialize: {why}")),
    }
}

pub(crate) fn fm_finalize(cx: &'static Cx) {
    if let Some(node) = cx.node.get() {
        node.close(Interface::Fm);
    }
}
