//! Framing, and delivery exactly once over rails that may break: everything of a fabric between hosts that has
//! nothing to do with sockets.
//!
//! A [`Link`] is all that goes between this process and one peer, over 1 to 32 *rails* (a rail: one connection by one
//! pair of interfaces, a reliable byte stream while it lasts). It is a state machine: it has no sockets and no clock.
//! Times are nanoseconds of any monotonic clock, addresses of user memory are plain numbers that come back in
//! [`Piece::Memory`] and [`Link::place`]; nothing here dereferences them.
//!
//! Cost class: *fast path* for ordered frames on one rail (no heap allocation, one copy into the log, none on
//! arrival); everything about broken rails is *queued path*.
//!
//! # What it promises
//! - **Ordered frames** (puts, lines, words, packets, rings, control, requests for bulk data) are delivered exactly
//!   once, in the order in which they were pushed, whatever rail they came by. They lie in a log until acknowledged;
//!   acknowledgements ride on every header. They go by one rail, the *lead*: the one with the shortest round trip,
//!   kept unless another is better by a fifth. A log at its bound answers [`PushError::Full`].
//! - **Bulk data** go from the owner's memory to the asker's, in chunks that any rail may carry in any order, by
//!   measured speed of the rails. They are remembered as ranges, never copied. Ranges that come twice count once.
//! - **Eager zero-copy payloads** are bulk data that nobody asked for: they follow an ordered frame by the lead rail and are numbered by their
//!   sender, who sends no more than the receiver has granted ([`Link::grant_zcopy`]). Frames of [`FrameKind::BulkData`] with
//!   the flag [`ZCOPY`] go to [`Link::on_zcopy_header`], [`Link::place_zcopy`] and [`Link::on_zcopy`] instead.
//! - **A rail** on which nothing is acknowledged for `FARPOST_RAIL_SUSPECT_MS` (or 8 round trips) is *suspect*: its
//!   traffic moves to another rail at once, without it being given up. Silent for half the bound, it is dropped and
//!   connected anew; a reset does so immediately. A rail that comes back is used again.
//! - When no rail has worked for `FARPOST_RAIL_BOUND_MS`, the link says [`Event::Lost`], once, and is closed. For the first
//!   connection there is more time ([`LinkConfig::connect`]), unless every way is refused for as long as the bound.
//!
//! A peer's *process* may compute for minutes without reading. Its *host* answers all the same, and only the
//! transport sees that. So before suspecting a rail the link asks ([`Event::Ask`]) and the driver reports what the
//! transport knows ([`TransportReport`]; for TCP: `TCP_INFO`). A transport without that knowledge sets
//! [`LinkConfig::reports`] to false, and its peers must answer within the bound by themselves.
//!
//! # How a driver calls it
//! One link a peer, made at the first message in either direction. Its rails are down; the first [`Link::poll`] asks
//! for connections. Both sides are asked to connect: when both succeed the driver keeps one (say, the one that the lower
//! rank dialled) before either says [`Link::on_rail_up`]. A side that must not dial should try all the same, to see
//! whether the peer's host answers, and say [`Link::on_rail_alive`]: the peer's process may be computing, and not dial.
//!
//! ```no_run
//! use farpost_tcp::link::*;
//! # struct Socket; impl Socket {
//! # fn writev(&self, _: &[Piece]) -> std::io::Result<usize> { unimplemented!() }
//! # fn info(&self) -> (u64, u64, u64) { unimplemented!() }
//! # fn buffered(&self) -> &[u8] { &[] } fn consume(&self, _: usize) {}
//! # fn read_into(&self, _address: usize, _len: usize) -> usize { 0 } fn skip(&self, _len: usize) -> usize { 0 } }
//! # fn apply(_: &Header, _: &[u8], _: &mut Link) {} fn finished(_ticket: u32) {}
//! /// Called from `progress`; `sockets[rail]` is None while the rail is down.
//! fn drive(link: &mut Link, sockets: &mut [Option<Socket>], now: u64) -> Result<(), LinkError> {
//!     // 1. Read first: what has arrived must be known before the clock is looked at.
//!     for rail in 0..sockets.len() {
//!         if let Some(socket) = &sockets[rail] {
//!             receive(link, rail, socket, now)?; // an error: close this socket, count it, link.on_rail_down(rail)
//!         }
//!     }
//!     // 2. Timers and rails. Cheap when nothing is due (one comparison with link.next_deadline()).
//!     link.poll(now);
//!     while let Some(event) = link.next_event() {
//!         match event {
//!             Event::Ask(rail) => {
//!                 if let Some(socket) = &sockets[rail] {
//!                     let (bytes_acked, unacked, probes) = socket.info(); // getsockopt TCP_INFO
//!                     let report = TransportReport { acknowledged: bytes_acked, in_flight: unacked != 0 || probes > 1 };
//!                     link.on_report(rail, report, now);
//!                 }
//!             }
//!             Event::Drop { rail, .. } => sockets[rail] = None,      // close it; on_rail_down need not be called
//!             Event::Reconnect(rail) => { let _ = rail; }            // connect, then the handshake, then
//!                                                                    // link.on_rail_up(rail, checks, now). Connected, but the
//!                                                                    // handshake not answered yet: on_rail_alive
//!             Event::Lost { .. } => return Ok(()),                   // Fault { PeerDead }, close everything
//!         }
//!     }
//!     // 3. Write. After events every rail may have got something to send.
//!     for rail in 0..sockets.len() {
//!         if let Some(socket) = &sockets[rail] {
//!             send(link, rail, socket, now);
//!         }
//!     }
//!     Ok(()) // sleep until a socket is ready or link.next_deadline(), whichever is first
//! }
//!
//! /// True: everything went out. False: the socket is full, wait for it to become writable (EPOLLOUT).
//! fn send(link: &mut Link, rail: usize, socket: &Socket, now: u64) -> bool {
//!     loop {
//!         let mut pieces = [Piece::Bytes(&[]); PIECES_MAX]; // in practice straight into an array of iovecs
//!         let mut count = 0;
//!         let mut offered = 0;
//!         for (slot, piece) in pieces.iter_mut().zip(link.next_send(rail, now)) {
//!             offered += piece.len();
//!             *slot = piece;
//!             count += 1;
//!         }
//!         if count == 0 {
//!             return true;
//!         }
//!         // EAGAIN counts as 0; any other error: close it and link.on_rail_down(rail, now).
//!         let taken = socket.writev(&pieces[..count]).unwrap_or(0);
//!         link.sent(rail, taken, now); // always, before any other call of the link
//!         if taken < offered {
//!             return false;
//!         }
//!     }
//! }
//!
//! fn receive(link: &mut Link, rail: usize, socket: &Socket, now: u64) -> Result<(), LinkError> {
//!     // The buffer holds at least HEADER_BYTES + ORDERED_MAX bytes.
//!     while let Some(head) = socket.buffered().first_chunk::<HEADER_BYTES>() {
//!         let header = link.parse(rail, head)?;
//!         if header.kind == FrameKind::BulkData {
//!             // Kept by the driver per rail until the payload is complete: header, bytes done.
//!             link.on_bulk_header(rail, &header, now)?;
//!             socket.consume(HEADER_BYTES);
//!             let mut done = 0;
//!             while done < header.len as usize {
//!                 let left = header.len as usize - done;
//!                 // Asked again before EVERY read: the transfer may be complete by another rail meanwhile, and then
//!                 // its memory is somebody else's.
//!                 done += match link.place(header.object, header.offset + done as u64, left as u64) {
//!                     Some(address) => socket.read_into(address, left), // first what is in the buffer, then recv
//!                     None => socket.skip(left),
//!                 };
//!             }
//!             if let Some(ticket) = link.on_bulk(rail, &header, now)? {
//!                 finished(ticket);
//!             }
//!             continue;
//!         }
//!         if socket.buffered().len() < header.total() {
//!             link.on_bytes(rail, now);
//!             break;
//!         }
//!         let payload = &socket.buffered()[HEADER_BYTES..header.total()];
//!         if link.on_frame(rail, &header, payload, now)? == Arrival::Deliver {
//!             apply(&header, payload, link);
//!             while let Some((header, payload)) = link.next_held()? {
//!                 apply(&header, &payload, link);
//!             }
//!         }
//!         socket.consume(header.total());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! `apply` does what the kind says: `Put`, `PutLine`, `PutWord` write to the segment `header.object` at
//! `header.offset` (both unchecked so far: they are the peer's claim); `Packet` and `Ring` as they are; `BulkGet`
//! looks up the key of its [`GetRequest`] and answers with [`Link::serve`] or [`Link::refuse`]; `BulkRefused` fails the
//! ticket `header.object` ([`Header::refusal`] says why); `BulkDone` is the link's own and needs nothing; `Control`
//! and `Fault` are the driver's. Words and lines travel in native byte order.
//!
//! A fence is a [`Link::push_control`] that the peer answers, or, where "in the peer process's hands" is enough,
//! [`Link::mark`] and [`Link::acknowledged`]. Before closing: [`Link::push_bye`], drive until [`Link::drained`] and
//! [`Link::bye_heard`] or the bound has passed; after a bye is heard, rails that go down are not missed.

mod bulk;
mod frame;
mod health;
#[expect(clippy::module_inception)]
mod link;
mod log;
mod push;
mod rail;
mod receive;
mod reorder;
mod send;
#[cfg(test)]
mod tests;
mod zcopy;

pub use bulk::{ALL_RAILS, ZCOPY_MAX};
pub use frame::{
    CHUNK_MAX, CONTROL_MAX, FAULT_MAX, FrameError, FrameKind, GetRequest, HEADER_BYTES, Header, OFFSET_LIMIT,
    ORDERED_MAX, PACKET_BYTES, Refusal, ZCOPY,
};
pub use link::{Arrival, Event, HostRoute, Link, LinkCounters, LinkError, PushError};
pub use log::SpareLogs;
pub use rail::{Checks, RailState, TransportReport};
pub use send::{Gather, Piece};

/// A rail of a link, from 0.
pub type RailNumber = usize;

/// Pieces that [`Link::next_send`] gives at most.
pub const PIECES_MAX: usize = 2 * (OFFER_ITEMS + 8) + 2;

/// Frames, or runs of frames, offered at most.
const OFFER_ITEMS: usize = 16;
/// Largest bound of a log; a peer may not be further ahead.
const LINK_LOG_MAX: usize = 256 << 20;
/// Transfers that one peer may have under way.
const SERVES_MAX: usize = 1 << 16;
/// Separate pieces of one transfer.
const PIECES_LIMIT: usize = 4096;
/// Acknowledgements of bulk data that wait.
const BULK_ACKS_MAX: usize = 1024;

farpost_tunables::tunables! {
    /// Tunables of links between hosts.
    pub struct LinkTunables {
        /// No rail to a peer works for this long: the peer is given up. A rail silent for half of it is connected anew.
        bound: "FARPOST_RAIL_BOUND_MS" = 1000, 20..=3_600_000, "ms";
        /// What was sent on a rail is not acknowledged for this long (or 8 round trips): its traffic moves to another rail.
        suspect: "FARPOST_RAIL_SUSPECT_MS" = 20, 1..=60_000, "ms";
        /// A rail on which nothing is heard for this long is pinged, so that a dead one is found before it is needed; of the links to the processes of one host, one for all. 0 turns it off.
        idle: "FARPOST_RAIL_IDLE_MS" = 250, 0..=3_600_000, "ms";
        /// Bytes of ordered frames to one peer that may wait for its acknowledgement.
        log: "FARPOST_LINK_LOG" = 16 << 20, 256 << 10..=256 << 20, "bytes";
        /// An acknowledgement of its own is sent after this many bytes.
        ack_bytes: "FARPOST_LINK_ACK_BYTES" = 256 << 10, 1..=16 << 20, "bytes";
        /// An acknowledgement of its own is sent after this time.
        ack_delay: "FARPOST_LINK_ACK_MS" = 5, 1..=1000, "ms";
        /// Bytes of a large message that go on one rail in one piece, while several share it. Smaller is fairer, larger costs less.
        chunk: "FARPOST_RAIL_CHUNK" = 128 << 10, 4096..=2 << 20, "bytes";
    }
}

/// What a link needs to know from the start.
#[derive(Clone, Debug, Default)]
pub struct LinkConfig {
    /// Rails, 1 to 32, in the order of preference.
    pub rails: usize,
    /// The first rail must be up within this time, nanoseconds; after that the bound of the tunables holds.
    pub connect: u64,
    /// Whether the driver answers [`Event::Ask`].
    pub reports: bool,
    /// Times and sizes.
    pub tunables: LinkTunables,
    /// Memory of logs that all links of a process share.
    pub spare: SpareLogs,
}
