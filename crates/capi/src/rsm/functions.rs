//! One body per function of `api/rsm.toml`, under its name in lower case.

pub(crate) use super::controllers::*;
pub(crate) use super::export::*;
pub(crate) use super::import::*;
pub(crate) use super::requests::*;
pub(crate) use super::signals::*;
pub(crate) use super::transfers::*;
