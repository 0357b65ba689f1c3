//! One body per function of `api/portals3.toml`, under its name in lower case.

pub(crate) use super::error_text::{ptlerrormessage, ptlerrorstr, ptleventkindstr, ptlnifailstr};
pub(crate) use super::events::*;
pub(crate) use super::interface::{
    ptlfini, ptlgetid, ptlgetjid, ptlgetnidmap, ptlgetpidmap, ptlgetrank, ptlgetrankid, ptlgetuid, ptlinit,
    ptljobfence, ptlnidist, ptlnifini, ptlniinit,
};
pub(crate) use super::moving::*;
pub(crate) use super::objects::*;
