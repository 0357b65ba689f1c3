//! Transmit pendings: messages that are being sent, each with its header packet ready to travel.
//!
//! Cost class: fast path.

use super::bodies::BodyRoute;
use crate::memory::Segments;
use crate::net::queue::Chain;
use crate::net::table::NONE;
use crate::net::wire::PacketKind;
use farpost_fabric::PACKET_BYTES;

/// A message being sent.
pub struct TransmitPending {
    /// The next of its channel.
    pub next: u16,
    /// Packets, header packet included.
    pub packets: u32,
    pub kind: PacketKind,
    pub header_len: u8,
    pub packet_len: u8,
    pub route: BodyRoute,
    pub token: u64,
    /// Its place in the one FIFO, where there is one.
    pub ticket: u64,
    pub length: usize,
    pub body: Segments,
    /// The place of the copy that `body` is.
    pub copy: Option<u16>,
    pub packet: [u8; PACKET_BYTES],
}

impl TransmitPending {
    fn new() -> Self {
        Self {
            next: NONE,
            packets: 1,
            kind: PacketKind::Short,
            header_len: 0,
            packet_len: 0,
            route: BodyRoute::Inline,
            token: 0,
            ticket: 0,
            length: 0,
            body: Segments::default(),
            copy: None,
            packet: [0; PACKET_BYTES],
        }
    }

    /// It is a message of one packet, whose body comes with its header.
    #[inline(always)]
    pub fn is_short(&mut self, header: usize, packet: usize) {
        self.packet_len = packet as u8;
        self.header_len = header as u8;
        self.packets = 1;
        self.next = NONE;
        self.kind = PacketKind::Short;
        self.route = BodyRoute::Inline;
    }
}

/// All pendings of a process. Each channel has its own: answers never wait for requests.
pub struct Pendings {
    all: Box<[TransmitPending]>,
    free: [Vec<u16>; 2],
    scarce: usize,
}

impl Pendings {
    /// So many for each channel.
    pub fn new(each: usize) -> Self {
        Self {
            all: (0..2 * each).map(|_| TransmitPending::new()).collect(),
            free: [
                (0..each as u16).rev().collect(),
                (each as u16..2 * each as u16).rev().collect(),
            ],
            scarce: each / 4,
        }
    }

    /// How many of a channel are free.
    #[inline(always)]
    pub fn available(&self, index: usize) -> usize {
        self.free[index].len()
    }

    /// How many left of a channel are few.
    #[inline(always)]
    pub fn few(&self) -> usize {
        self.scarce
    }

    /// Whether few are left.
    #[inline(always)]
    pub fn are_scarce(&self, index: usize) -> bool {
        self.free[index].len() <= self.scarce
    }

    /// The one that [`take`](Self::take) would take.
    #[inline(always)]
    pub fn next_free(&self, index: usize) -> Option<u16> {
        self.free[index].last().copied()
    }

    #[inline(always)]
    pub fn take(&mut self, index: usize) -> Option<u16> {
        self.free[index].pop()
    }

    #[inline(always)]
    pub fn give_back(&mut self, index: usize, number: u16) {
        self.free[index].push(number);
    }

    #[inline(always)]
    pub fn at(&mut self, number: u16) -> &mut TransmitPending {
        &mut self.all[usize::from(number)]
    }
}

impl Chain for Pendings {
    #[inline(always)]
    fn packets(&self, number: u16) -> u32 {
        self.all[usize::from(number)].packets
    }

    #[inline(always)]
    fn next(&self, number: u16) -> u16 {
        self.all[usize::from(number)].next
    }

    #[inline(always)]
    fn set_next(&mut self, number: u16, next: u16) {
        self.all[usize::from(number)].next = next;
    }
}
