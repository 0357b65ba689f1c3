//! The transmitting half: one list of messages, whatever they are and wherever they go.

use super::*;
use crate::net::Hop;
use crate::topology::Port;
use farpost_fabric::Route;

/// A host that is sent to.
#[derive(Default)]
pub(super) struct Target {
    /// Bytes on their way to it, or waiting there.
    under_way: u32,
    next: u64,
    /// What it has not said that it has taken: in go-back-n.
    untaken: VecDeque<Outbound>,
    /// Messages of the list.
    listed: u32,
    /// It has refused, and nothing has been sent again yet.
    refused: bool,
    /// The last transfer that was begun to it.
    moving: Option<OpId>,
}

impl Target {
    pub fn is_idle(&self) -> bool {
        self.under_way == 0 && self.untaken.is_empty() && self.listed == 0
    }
}

impl SeaStar {
    /// The firmware takes a transmit command.
    pub(super) fn command(&mut self, kernel: &mut Kernel, message: Box<Outbound>) {
        let at = self.firmware(kernel.now, self.params.command);
        self.later(kernel, at, Event::Command(message));
    }

    /// The firmware has a message to transmit: at the end of the list.
    pub(super) fn enqueue(&mut self, kernel: &mut Kernel, mut message: Outbound) {
        self.commands -= u32::from(!message.own);
        if self.panicked.is_some() {
            return;
        }
        if !self.has_source(message.to) {
            if self.params.go_back_n {
                // The firmware looks again when something may have ended.
                self.commands += u32::from(!message.own);
                let event = Event::Command(Box::new(message));
                return self.later(kernel, kernel.now + self.params.resend, event);
            }
            return self.panic(kernel, "source structure");
        }
        let target = self.targets.entry(message.to).or_default();
        if !message.content.is_control() {
            message.seq = target.next;
            target.next += 1;
            if self.params.go_back_n {
                target.untaken.push_back(message.clone());
            }
        }
        let target = self.targets.entry(message.to).or_default();
        target.listed += 1;
        self.list.push_back(message);
        self.begin(kernel);
    }

    /// Program the engine for the first of the list, if it is free.
    fn begin(&mut self, kernel: &mut Kernel) {
        if self.sending || self.stalled || self.list.is_empty() || self.panicked.is_some() {
            return;
        }
        self.sending = true;
        let at = self.firmware(kernel.now, self.params.transmit);
        // The header is read out of the host's memory.
        self.later(kernel, at + self.params.hypertransport_latency, Event::Next);
    }

    /// The next frame of the first message, if there is room for it ahead.
    pub(super) fn next_frame(&mut self, kernel: &mut Kernel) {
        let Some(message) = self.list.front() else {
            self.sending = false;
            return;
        };
        let (to, body) = (message.to, message.body);
        kernel.sending = message.mark;
        let packet = self.params.packet;
        let train = if body < LONG { packet } else { packet * TRAIN };
        let (bytes, frame) = match self.gone {
            None => (packet, Frame::Header(Box::new(message.clone()))),
            Some(gone) => {
                let bytes = (body - gone).min(u64::from(train)) as u32;
                (bytes, Frame::Body(bytes))
            }
        };
        let ahead = self.params.ahead.max(4 * train);
        let target = self.targets.entry(to).or_default();
        if target.under_way > 0 && target.under_way + bytes > ahead {
            (self.sending, self.stalled) = (false, true);
            return;
        }
        (self.sending, self.stalled) = (true, false);
        let ends = [self.host, to].map(|host| Port { host, rail: 0 });
        let before = [Hop {
            resource: self.out,
            lane: 0,
        }];
        let Some(path) = kernel.path((ends[0], ends[1]), 1, Route::Fixed(0), &before, &[]) else {
            let message = self.list.pop_front().expect("the first");
            self.gone = None;
            self.give_up(kernel, &message.content, "no way that works leads there");
            self.over(kernel, message);
            return self.later(kernel, kernel.now, Event::Next);
        };
        target.under_way += bytes;
        if let (None, Content::Moved { op, .. }) = (self.gone, &self.list[0].content) {
            target.moving = Some(*op);
        }
        let done = kernel.now + self.params.dma.time(u64::from(bytes));
        let load = Load::Own(Box::new(AdapterEvent::SeaStar(Event::Frame(frame))));
        kernel.send((self.host, to), bytes, 1, &path, kernel.now, load);
        let gone = self.gone.map_or(0, |gone| gone + u64::from(bytes));
        self.gone = Some(gone);
        if gone < body {
            return self.later(kernel, done, Event::Next);
        }
        // It has been sent: the firmware unlinks it, and begins with the next one.
        self.gone = None;
        let message = self.list.pop_front().expect("the first");
        self.figures.sent += 1;
        self.later(kernel, done, Event::Left(Box::new(message)));
    }

    pub(super) fn sent(&mut self, kernel: &mut Kernel, message: Outbound) {
        self.over(kernel, message);
        self.sending = false;
        self.begin(kernel);
    }

    /// A message is out of the list.
    fn over(&mut self, kernel: &mut Kernel, message: Outbound) {
        let target = self.targets.entry(message.to).or_default();
        target.listed = target.listed.saturating_sub(1);
        let kept = self.params.go_back_n && !message.content.is_control();
        if !kept {
            self.free(kernel, &message);
        }
    }

    /// The host has its pending back, and those who waited for one look again.
    fn free(&mut self, kernel: &mut Kernel, message: &Outbound) {
        if !message.own {
            self.tx_pendings = self.tx_pendings.saturating_sub(1);
        }
        for peer in std::mem::take(&mut self.waiting) {
            let now = kernel.now;
            kernel.procs.touch(peer, now);
        }
    }

    /// A receiver has taken bytes out of its FIFO.
    pub(super) fn credit(&mut self, kernel: &mut Kernel, host: HostId, bytes: u32) {
        let target = self.targets.entry(host).or_default();
        target.under_way = target.under_way.saturating_sub(bytes);
        if self.stalled && self.list.front().is_some_and(|first| first.to == host) {
            self.next_frame(kernel);
        }
    }

    /// A message of the firmware's own, for its like.
    pub(super) fn tell(&mut self, kernel: &mut Kernel, to: HostId, content: Content) {
        let message = Outbound {
            to,
            seq: 0,
            content,
            body: 0,
            own: true,
            mark: Mark::NONE,
        };
        self.command(kernel, Box::new(message));
    }

    /// All messages to `host` before this one are taken.
    pub(super) fn taken(&mut self, kernel: &mut Kernel, host: HostId, next: u64) {
        while let Some(target) = self.targets.get_mut(&host)
            && target.untaken.front().is_some_and(|first| first.seq < next)
            && let Some(message) = target.untaken.pop_front()
        {
            self.free(kernel, &message);
        }
    }

    /// `host` has refused this one and those behind it.
    pub(super) fn refused(&mut self, kernel: &mut Kernel, host: HostId, seq: u64) {
        self.taken(kernel, host, seq);
        let target = self.targets.entry(host).or_default();
        if !std::mem::replace(&mut target.refused, true) {
            self.later(kernel, kernel.now + self.params.resend, Event::Resend(host));
        }
    }

    /// Go back to what was refused.
    pub(super) fn resend(&mut self, kernel: &mut Kernel, host: HostId) {
        let under_way = self.gone.is_some();
        let target = self.targets.entry(host).or_default();
        target.refused = false;
        // What of them has not gone yet comes in its turn.
        let waiting: BTreeSet<u64> = self
            .list
            .iter()
            .skip(usize::from(under_way))
            .filter(|message| message.to == host && !message.content.is_control())
            .map(|message| message.seq)
            .collect();
        let again: Vec<Outbound> = target
            .untaken
            .iter()
            .filter(|message| !waiting.contains(&message.seq))
            .cloned()
            .collect();
        target.listed += again.len() as u32;
        self.figures.resent += again.len() as u64;
        // Before all others to that host, whose numbers are higher.
        let at = self
            .list
            .iter()
            .skip(usize::from(under_way))
            .position(|message| message.to == host)
            .map_or(self.list.len(), |at| at + usize::from(under_way));
        for (index, message) in again.into_iter().enumerate() {
            self.list.insert(at + index, message);
        }
        self.begin(kernel);
    }

    /// A message will not arrive.
    pub(super) fn give_up(&mut self, kernel: &mut Kernel, content: &Content, why: &str) {
        let now = kernel.now;
        match content {
            Content::Packet { from, to, .. } => {
                let error = FabricError::dead(*to, why);
                kernel.fault(*from, Fault { peer: *to, error });
            }
            Content::Moved { to, op, .. } | Content::Fetch { to, op, .. } => {
                kernel.procs.finish(*op, now, Err(FabricError::dead(*to, why)));
            }
            Content::Taken(_) | Content::Refused(_) | Content::Ring(..) => {}
        }
    }

    /// A header was lost: with go-back-n it is as one that was refused; else the message is.
    pub(super) fn lost_header(&mut self, kernel: &mut Kernel, message: Outbound, why: &str) {
        if !self.params.go_back_n {
            return self.give_up(kernel, &message.content, why);
        }
        match message.content {
            Content::Taken(_) | Content::Refused(_) => {
                let event = Event::Mailed(Box::new(message));
                self.later(kernel, kernel.now + self.params.resend, event);
            }
            _ => self.refused(kernel, message.to, message.seq),
        }
    }

    /// A part of a body was lost, of which nobody keeps more than that: processes at both ends are told, and the transfer fails.
    pub(super) fn lost_body(&mut self, kernel: &mut Kernel, to: HostId, why: &str) {
        let on = |kernel: &Kernel, host: HostId| -> Vec<Peer> {
            let all = (0..kernel.procs.size()).map(Peer);
            all.filter(|peer| kernel.procs.host_of(*peer) == host).collect()
        };
        let (mine, theirs) = (on(kernel, self.host), on(kernel, to));
        for (me, you) in mine
            .iter()
            .flat_map(|me| theirs.iter().map(move |you| (*me, *you)))
        {
            for (of, peer) in [(me, you), (you, me)] {
                let error = FabricError::dead(peer, why);
                kernel.fault(of, Fault { peer, error });
            }
        }
        let target = self.targets.entry(to).or_default();
        if let Some(op) = target.moving.take() {
            let (now, peer) = (kernel.now, theirs.first().copied().unwrap_or(Peer(0)));
            kernel.procs.finish(op, now, Err(FabricError::dead(peer, why)));
        }
    }
}
