//! Operations that an agent is asked for.

use super::record::{Update, command};
use crate::error::Error;
use crate::library::{Library, Target};
use crate::types::{AckReq, Handle, Iovec, Md};

/// An operation that an agent is asked for.
pub struct Request<'a> {
    pub kind: u8,
    /// What is sent, or where a get's reply lands; of a get-put what is sent, then where what was there lands.
    pub md: Handle,
    pub get_md: Handle,
    pub region: Option<(u64, u64)>,
    pub ack: AckReq,
    pub target: &'a Target,
    pub hdr_data: u64,
}

impl<'a> Request<'a> {
    #[inline]
    pub fn put(
        md: Handle,
        region: Option<(u64, u64)>,
        ack: AckReq,
        target: &'a Target,
        hdr_data: u64,
    ) -> Self {
        Self {
            kind: command::PUT,
            md,
            get_md: Handle::NONE,
            region,
            ack,
            target,
            hdr_data,
        }
    }

    #[inline]
    pub fn get(md: Handle, region: Option<(u64, u64)>, target: &'a Target) -> Self {
        Self {
            kind: command::GET,
            ..Self::put(md, region, AckReq::NoAck, target, 0)
        }
    }

    /// Of a put of which only the header goes.
    #[inline]
    pub fn put_header(length: u64, target: &'a Target, hdr_data: u64) -> Self {
        Self {
            kind: command::PUT_HEADER,
            ..Self::put(Handle::NONE, Some((0, length)), AckReq::NoAck, target, hdr_data)
        }
    }

    #[inline]
    pub fn get_put(get_md: Handle, put_md: Handle, target: &'a Target, hdr_data: u64) -> Self {
        Self {
            kind: command::GET_PUT,
            get_md,
            ..Self::put(put_md, None, AckReq::NoAck, target, hdr_data)
        }
    }
}

impl Update {
    /// `PtlMDUpdate`, done by this library.
    pub fn apply(
        self,
        library: &mut Library,
        (md, testq): (Handle, Handle),
        old: Option<&mut Md>,
        new: Option<(Md, Iovec)>,
    ) -> Result<(), Error> {
        match (self, new) {
            (Self::ReplaceUnlessLogged, Some(new)) => library.md_update_unless_logged(md, new, testq),
            (_, new) => library.md_update(md, old, new, testq),
        }
    }
}
