//! Events of the tool information interface. The library raises none: there are no event types, so no registrations and no instances, and
//! no sources (MPI-5.0 section 15.3.8 asks for none).
//!
//! Requirements of MPI-5.0 section 15.3.8.

use farpost_mpi::{Result, fail};

use super::arg;
use super::tools::{needed, shared, string};
use crate::cx::Cx;

fn no_index(cx: &'static Cx, index: i32) -> Result<()> {
    shared(cx)?;
    fail!(T_ERR_INVALID_INDEX: "index={index}: there are none")
}

fn no_registration(cx: &'static Cx) -> Result<()> {
    shared(cx)?;
    fail!(T_ERR_INVALID_HANDLE: "not a registration or an instance of an event: there are no event types")
}

pub(crate) fn mpi_t_event_get_num(cx: &'static Cx, a: arg::TEventGetNum) -> Result<()> {
    shared(cx)?;
    needed(a.num_events, 0)
}

pub(crate) fn mpi_t_event_get_info(cx: &'static Cx, a: arg::TEventGetInfo) -> Result<()> {
    no_index(cx, a.event_index)
}

pub(crate) fn mpi_t_event_get_index(cx: &'static Cx, a: arg::TEventGetIndex) -> Result<()> {
    shared(cx)?;
    string(a.name)?;
    fail!(T_ERR_INVALID_NAME: "there are no event types")
}

pub(crate) fn mpi_t_event_handle_alloc(cx: &'static Cx, a: arg::TEventHandleAlloc) -> Result<()> {
    no_index(cx, a.event_index)
}

pub(crate) fn mpi_t_event_handle_free(cx: &'static Cx, _: arg::TEventHandleFree) -> Result<()> {
    no_registration(cx)
}

pub(crate) fn mpi_t_event_handle_get_info(cx: &'static Cx, _: arg::TEventHandleGetInfo) -> Result<()> {
    no_registration(cx)
}

pub(crate) fn mpi_t_event_handle_set_info(cx: &'static Cx, _: arg::TEventHandleSetInfo) -> Result<()> {
    no_registration(cx)
}

pub(crate) fn mpi_t_event_register_callback(cx: &'static Cx, _: arg::TEventRegisterCallback) -> Result<()> {
    no_registration(cx)
}

pub(crate) fn mpi_t_event_callback_get_info(cx: &'static Cx, _: arg::TEventCallbackGetInfo) -> Result<()> {
    no_registration(cx)
}

pub(crate) fn mpi_t_event_callback_set_info(cx: &'static Cx, _: arg::TEventCallbackSetInfo) -> Result<()> {
    no_registration(cx)
}

pub(crate) fn mpi_t_event_set_dropped_handler(
    cx: &'static Cx,
    _: arg::TEventSetDroppedHandler,
) -> Result<()> {
    no_registration(cx)
}

pub(crate) fn mpi_t_event_read(cx: &'static Cx, _: arg::TEventRead) -> Result<()> {
    no_registration(cx)
}

pub(crate) fn mpi_t_event_copy(cx: &'static Cx, _: arg::TEventCopy) -> Result<()> {
    no_registration(cx)
}

pub(crate) fn mpi_t_event_get_timestamp(cx: &'static Cx, _: arg::TEventGetTimestamp) -> Result<()> {
    no_registration(cx)
}

pub(crate) fn mpi_t_event_get_source(cx: &'static Cx, _: arg::TEventGetSource) -> Result<()> {
    no_registration(cx)
}

pub(crate) fn mpi_t_source_get_num(cx: &'static Cx, a: arg::TSourceGetNum) -> Result<()> {
    shared(cx)?;
    needed(a.num_sources, 0)
}

pub(crate) fn mpi_t_source_get_info(cx: &'static Cx, a: arg::TSourceGetInfo) -> Result<()> {
    no_index(cx, a.source_index)
}

pub(crate) fn mpi_t_source_get_timestamp(cx: &'static Cx, a: arg::TSourceGetTimestamp) -> Result<()> {
    no_index(cx, a.source_index)
}
