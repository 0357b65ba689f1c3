//! The part of libfabric's C interface that is used here, typed from its headers (API 1.9 and later), and checked
//! against the installed ones by a test (`ofi::tests::layout`).
//!
//! Only functions of the shared object are looked up there; the other calls are inline functions of the
//! headers that go through tables of functions in the objects, and so do ours (`calls.rs`). Structures that we pass
//! grow at their ends from one version to the next, so `fi_info` is always allocated by the library itself and nothing
//! is passed by value.
#![allow(missing_docs)]

use std::ffi::{c_char, c_int, c_void};

/// A function or object that is not used.
pub type Unused = *const c_void;

/// Declares a C structure; [`layouts`] tells where its fields are.
macro_rules! c_structs {
    ($($(#[$meta:meta])* $c:literal $name:ident { $($field:ident : $type:ty,)* })*) => {
        $($(#[$meta])* #[repr(C)] #[derive(Clone, Copy)]
        pub struct $name { $(pub $field: $type,)* })*

        /// Every structure declared here: its name in C, its size, its fields with their offsets.
        #[cfg(test)]
        pub fn layouts() -> Vec<(&'static str, usize, Vec<(&'static str, usize)>)> {
            vec![$((
                $c,
                size_of::<$name>(),
                vec![$((stringify!($field).trim_start_matches("r#"), std::mem::offset_of!($name, $field)),)*],
            ),)*]
        }
    };
}

/// Declares constants under their C names.
macro_rules! c_constants {
    ($($name:ident : $type:ty = $value:expr;)*) => {
        $(pub const $name: $type = $value;)*

        /// Every constant declared here.
        #[cfg(test)]
        pub fn constants() -> Vec<(&'static str, i128)> {
            vec![$((stringify!($name), $name as i128),)*]
        }
    };
}

c_constants! {
    FI_MSG: u64 = 1 << 1;
    FI_RMA: u64 = 1 << 2;
    FI_READ: u64 = 1 << 8;
    FI_WRITE: u64 = 1 << 9;
    FI_RECV: u64 = 1 << 10;
    FI_SEND: u64 = 1 << 11;
    FI_REMOTE_READ: u64 = 1 << 12;
    FI_REMOTE_WRITE: u64 = 1 << 13;
    FI_DELIVERY_COMPLETE: u64 = 1 << 28;
    FI_NUMERICHOST: u64 = 1 << 55;
    FI_SOURCE: u64 = 1 << 57;
    FI_TRANSMIT: u64 = 1 << 11;
    FI_CONTEXT: u64 = 1 << 59;
    FI_CONTEXT2: u64 = 1 << 52;
    FI_MR_LOCAL: c_int = 1 << 2;
    FI_MR_VIRT_ADDR: c_int = 1 << 4;
    FI_MR_ALLOCATED: c_int = 1 << 5;
    FI_MR_PROV_KEY: c_int = 1 << 6;
    FI_MR_ENDPOINT: c_int = 1 << 9;
    FI_EP_RDM: c_int = 3;
    FI_PROGRESS_MANUAL: c_int = 2;
    FI_THREAD_DOMAIN: c_int = 3;
    FI_RM_ENABLED: c_int = 2;
    FI_ORDER_SAS: u64 = 1 << 8;
    FI_SOCKADDR_IN: u32 = 2;
    FI_SOCKADDR_IN6: u32 = 3;
    FI_CQ_FORMAT_MSG: c_int = 2;
    FI_WAIT_NONE: c_int = 0;
    FI_WAIT_FD: c_int = 3;
    FI_GETWAIT: c_int = 5;
    FI_ENABLE: c_int = 6;
    FI_EAGAIN: c_int = 11;
    FI_EAVAIL: c_int = 259;
    FI_ENOKEY: c_int = 266;
    FI_ADDR_UNSPEC: u64 = u64::MAX;
    FI_ADDR_NOTAVAIL: u64 = u64::MAX;
}

/// `FI_VERSION(major, minor)`.
pub const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}

pub type ErrorText =
    unsafe extern "C" fn(*mut FidCq, c_int, *const c_void, *mut c_char, usize) -> *const c_char;

c_structs! {
    "struct fi_tx_attr" TxAttr {
        caps: u64,
        mode: u64,
        op_flags: u64,
        msg_order: u64,
        comp_order: u64,
        inject_size: usize,
        size: usize,
        iov_limit: usize,
        rma_iov_limit: usize,
        tclass: u32,
    }
    "struct fi_rx_attr" RxAttr {
        caps: u64,
        mode: u64,
        op_flags: u64,
        msg_order: u64,
        comp_order: u64,
        total_buffered_recv: usize,
        size: usize,
        iov_limit: usize,
    }
    "struct fi_ep_attr" EpAttr {
        r#type: c_int,
        protocol: u32,
        protocol_version: u32,
        max_msg_size: usize,
        msg_prefix_size: usize,
        max_order_raw_size: usize,
        max_order_war_size: usize,
        max_order_waw_size: usize,
        mem_tag_format: u64,
        tx_ctx_cnt: usize,
        rx_ctx_cnt: usize,
        auth_key_size: usize,
        auth_key: *mut u8,
    }
    "struct fi_domain_attr" DomainAttr {
        domain: Unused,
        name: *mut c_char,
        threading: c_int,
        control_progress: c_int,
        data_progress: c_int,
        resource_mgmt: c_int,
        av_type: c_int,
        mr_mode: c_int,
        mr_key_size: usize,
        cq_data_size: usize,
        cq_cnt: usize,
        ep_cnt: usize,
        tx_ctx_cnt: usize,
        rx_ctx_cnt: usize,
        max_ep_tx_ctx: usize,
        max_ep_rx_ctx: usize,
        max_ep_stx_ctx: usize,
        max_ep_srx_ctx: usize,
        cntr_cnt: usize,
        mr_iov_limit: usize,
        caps: u64,
        mode: u64,
        auth_key: *mut u8,
        auth_key_size: usize,
        max_err_data: usize,
        mr_cnt: usize,
        tclass: u32,
    }
    "struct fi_fabric_attr" FabricAttr {
        fabric: Unused,
        name: *mut c_char,
        prov_name: *mut c_char,
        prov_version: u32,
        api_version: u32,
    }
    "struct fi_info" Info {
        next: *mut Info,
        caps: u64,
        mode: u64,
        addr_format: u32,
        src_addrlen: usize,
        dest_addrlen: usize,
        src_addr: *mut c_void,
        dest_addr: *mut c_void,
        handle: Unused,
        tx_attr: *mut TxAttr,
        rx_attr: *mut RxAttr,
        ep_attr: *mut EpAttr,
        domain_attr: *mut DomainAttr,
        fabric_attr: *mut FabricAttr,
        nic: Unused,
    }
    "struct fi_ops" Ops {
        size: usize,
        close: unsafe extern "C" fn(*mut Fid) -> c_int,
        bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
        control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
        ops_open: Unused,
    }
    "struct fid" Fid {
        fclass: usize,
        context: *mut c_void,
        ops: *const Ops,
    }
    "struct fi_ops_fabric" OpsFabric {
        size: usize,
        domain: unsafe extern "C" fn(*mut FidFabric, *mut Info, *mut *mut FidDomain, *mut c_void) -> c_int,
        passive_ep: Unused,
        eq_open: Unused,
        wait_open: Unused,
        trywait: unsafe extern "C" fn(*mut FidFabric, *mut *mut Fid, c_int) -> c_int,
    }
    "struct fid_fabric" FidFabric {
        fid: Fid,
        ops: *const OpsFabric,
        api_version: u32,
    }
    "struct fi_ops_domain" OpsDomain {
        size: usize,
        av_open: unsafe extern "C" fn(*mut FidDomain, *mut AvAttr, *mut *mut FidAv, *mut c_void) -> c_int,
        cq_open: unsafe extern "C" fn(*mut FidDomain, *mut CqAttr, *mut *mut FidCq, *mut c_void) -> c_int,
        endpoint: unsafe extern "C" fn(*mut FidDomain, *mut Info, *mut *mut FidEp, *mut c_void) -> c_int,
    }
    "struct fi_ops_mr" OpsMr {
        size: usize,
        reg: unsafe extern "C" fn(
            *mut Fid, *const c_void, usize, u64, u64, u64, u64, *mut *mut FidMr, *mut c_void,
        ) -> c_int,
    }
    "struct fid_domain" FidDomain {
        fid: Fid,
        ops: *const OpsDomain,
        mr: *const OpsMr,
    }
    "struct fid_mr" FidMr {
        fid: Fid,
        mem_desc: *mut c_void,
        key: u64,
    }
    "struct fi_av_attr" AvAttr {
        r#type: c_int,
        rx_ctx_bits: c_int,
        count: usize,
        ep_per_node: usize,
        name: *const c_char,
        map_addr: *mut c_void,
        flags: u64,
    }
    "struct fi_ops_av" OpsAv {
        size: usize,
        insert: unsafe extern "C" fn(*mut FidAv, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int,
    }
    "struct fid_av" FidAv {
        fid: Fid,
        ops: *const OpsAv,
    }
    "struct fi_cq_attr" CqAttr {
        size: usize,
        flags: u64,
        format: c_int,
        wait_obj: c_int,
        signaling_vector: c_int,
        wait_cond: c_int,
        wait_set: Unused,
    }
    "struct fi_cq_msg_entry" CqMsgEntry {
        op_context: *mut c_void,
        flags: u64,
        len: usize,
    }
    "struct fi_cq_err_entry" CqErrEntry {
        op_context: *mut c_void,
        flags: u64,
        len: usize,
        buf: *mut c_void,
        data: u64,
        tag: u64,
        olen: usize,
        err: c_int,
        prov_errno: c_int,
        err_data: *mut c_void,
        err_data_size: usize,
    }
    "struct fi_ops_cq" OpsCq {
        size: usize,
        read: unsafe extern "C" fn(*mut FidCq, *mut c_void, usize) -> isize,
        readfrom: Unused,
        readerr: unsafe extern "C" fn(*mut FidCq, *mut CqErrEntry, u64) -> isize,
        sread: Unused,
        sreadfrom: Unused,
        signal: Unused,
        strerror: ErrorText,
    }
    "struct fid_cq" FidCq {
        fid: Fid,
        ops: *const OpsCq,
    }
    "struct fi_ops_cm" OpsCm {
        size: usize,
        setname: Unused,
        getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
    }
    "struct fi_ops_msg" OpsMsg {
        size: usize,
        recv: unsafe extern "C" fn(*mut FidEp, *mut c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
        recvv: Unused,
        recvmsg: Unused,
        send: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
        sendv: Unused,
        sendmsg: Unused,
        inject: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64) -> isize,
    }
    "struct iovec" IoVec {
        iov_base: *mut c_void,
        iov_len: usize,
    }
    "struct fi_rma_iov" RmaIov {
        addr: u64,
        len: usize,
        key: u64,
    }
    "struct fi_msg_rma" MsgRma {
        msg_iov: *const IoVec,
        desc: *mut *mut c_void,
        iov_count: usize,
        addr: u64,
        rma_iov: *const RmaIov,
        rma_iov_count: usize,
        context: *mut c_void,
        data: u64,
    }
    "struct fi_ops_rma" OpsRma {
        size: usize,
        read: unsafe extern "C" fn(
            *mut FidEp, *mut c_void, usize, *mut c_void, u64, u64, u64, *mut c_void,
        ) -> isize,
        readv: Unused,
        readmsg: Unused,
        write: unsafe extern "C" fn(
            *mut FidEp, *const c_void, usize, *mut c_void, u64, u64, u64, *mut c_void,
        ) -> isize,
        writev: Unused,
        writemsg: unsafe extern "C" fn(*mut FidEp, *const MsgRma, u64) -> isize,
    }
    "struct fid_ep" FidEp {
        fid: Fid,
        ops: Unused,
        cm: *const OpsCm,
        msg: *const OpsMsg,
        rma: *const OpsRma,
    }
}

pub type GetInfo =
    unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info) -> c_int;
pub type FreeInfo = unsafe extern "C" fn(*mut Info);
pub type DupInfo = unsafe extern "C" fn(*const Info) -> *mut Info;
pub type OpenFabric = unsafe extern "C" fn(*mut FabricAttr, *mut *mut FidFabric, *mut c_void) -> c_int;
pub type GetVersion = unsafe extern "C" fn() -> u32;
pub type StrError = unsafe extern "C" fn(c_int) -> *const c_char;
