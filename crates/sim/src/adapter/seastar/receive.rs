//! The receiving half: for each source its frames in their order, and for each message the place of its body.

use super::*;

/// A node that messages come from.
#[derive(Default)]
pub(super) struct Inbound {
    /// What has arrived and is not taken in yet.
    frames: VecDeque<Frame>,
    /// The first of them is being dealt with.
    busy: bool,
    /// The message whose body comes.
    current: Option<Current>,
    /// The number of the message that is wanted next.
    wanted: u64,
}

impl Inbound {
    pub fn is_idle(&self) -> bool {
        self.frames.is_empty() && !self.busy && self.current.is_none()
    }
}

/// A message whose body is coming.
struct Current {
    left: u64,
    /// The engine knows where the body goes, or that it goes nowhere.
    open: bool,
    place: Place,
    /// Its number among those that ever waited for a get.
    kept: u64,
}

/// Where a body goes.
enum Place {
    /// To the host, with its header.
    Packet(Box<Message>),
    /// Where a get says.
    Kept(u64),
    /// Where the operation says.
    Operation {
        op: OpId,
        descriptor: Box<Descriptor>,
        /// Who is told by an interrupt.
        interrupt: Option<Peer>,
        mark: Mark,
    },
    Nowhere,
}

impl SeaStar {
    /// A frame is in the receive FIFO.
    pub(super) fn frame(&mut self, kernel: &mut Kernel, source: HostId, frame: Frame) {
        if self.panicked.is_some() {
            if let Frame::Header(message) = &frame {
                let why = self.panicked.clone().unwrap_or_default();
                self.give_up(kernel, &message.content, &why);
            }
            return self.take_frame(kernel, source, &frame);
        }
        self.inbound.entry(source).or_default().frames.push_back(frame);
        self.go_on(kernel, source);
    }

    /// Room in the FIFO, of which the sender hears by the links' credits.
    fn take_frame(&mut self, kernel: &mut Kernel, source: HostId, frame: &Frame) {
        let bytes = match frame {
            Frame::Header(_) => self.params.packet,
            Frame::Body(bytes) => *bytes,
        };
        let event = Event::Credit(self.host, bytes);
        kernel.at(kernel.now, source, AdapterEvent::SeaStar(event));
    }

    /// Deal with the first frame of a source, if that can be done now.
    fn go_on(&mut self, kernel: &mut Kernel, source: HostId) {
        let inbound = self.inbound.entry(source).or_default();
        if inbound.busy {
            return;
        }
        let now = kernel.now;
        match (inbound.frames.front(), &inbound.current) {
            (Some(Frame::Header(message)), _) => {
                inbound.busy = true;
                let mut cost = self.params.header_in;
                if self.params.accelerated && matches!(message.content, Content::Packet { answer: false, .. })
                {
                    cost += self.params.match_entry;
                }
                let at = self.firmware(now, cost);
                self.later(kernel, at, Event::HeaderIn(source));
            }
            (Some(Frame::Body(bytes)), Some(Current { open: true, .. })) => {
                inbound.busy = true;
                let time = self.params.hypertransport.time(u64::from(*bytes));
                self.receiving = self.receiving.max(now) + time;
                self.later(kernel, self.receiving, Event::Drained(source));
            }
            // Of a message that was refused.
            (Some(Frame::Body(_)), None) => {
                let frame = inbound.frames.pop_front().expect("the first");
                self.take_frame(kernel, source, &frame);
                self.go_on(kernel, source);
            }
            _ => {}
        }
    }

    /// The firmware has taken in a header: it takes structures, or there are none.
    pub(super) fn header_in(&mut self, kernel: &mut Kernel, source: HostId) {
        let inbound = self.inbound.entry(source).or_default();
        inbound.busy = false;
        let Some(frame @ Frame::Header(_)) = inbound.frames.pop_front() else {
            return;
        };
        self.take_frame(kernel, source, &frame);
        if let Frame::Header(message) = frame {
            match message.content {
                Content::Taken(next) => self.taken(kernel, source, next),
                Content::Refused(seq) => self.refused(kernel, source, seq),
                _ => self.accept(kernel, source, *message),
            }
        }
        self.go_on(kernel, source);
    }

    fn accept(&mut self, kernel: &mut Kernel, source: HostId, message: Outbound) {
        let wanted = self.inbound.entry(source).or_default().wanted;
        if self.params.go_back_n && message.seq != wanted {
            // Behind what was refused, or come again.
            self.figures.dropped += 1;
            return;
        }
        let needs = matches!(message.content, Content::Packet { .. });
        let what = if !self.has_source(source) {
            Some("source structure")
        } else if needs && self.rx_pendings >= self.params.pendings / 2 {
            Some("pending structure")
        } else {
            None
        };
        let inbound = self.inbound.entry(source).or_default();
        if let Some(what) = what {
            self.figures.refused += 1;
            if !self.params.go_back_n {
                let why = "its node has panicked";
                self.give_up(kernel, &message.content, why);
                return self.panic(kernel, what);
            }
            return self.tell(kernel, source, Content::Refused(wanted));
        }
        inbound.wanted += 1;
        if self.params.go_back_n {
            self.tell(kernel, source, Content::Taken(wanted + 1));
        }
        self.figures.received += 1;
        if needs {
            self.rx_pendings += 1;
            self.note_pendings();
        }
        self.begin_message(kernel, source, message);
    }

    fn begin_message(&mut self, kernel: &mut Kernel, source: HostId, message: Outbound) {
        let in_memory = kernel.now + self.params.hypertransport_latency;
        let (left, mark) = (message.body, message.mark);
        let mut current = |open, place| {
            self.kept += 1;
            let kept = self.kept;
            let inbound = self.inbound.entry(source).or_default();
            inbound.current = Some(Current {
                left,
                open,
                place,
                kept,
            });
            kept
        };
        match message.content {
            Content::Packet {
                from,
                to,
                lane,
                answer,
                bytes,
                key,
            } => {
                let what = What::Packet { lane, bytes };
                let message = Box::new(Message { from, to, what, mark });
                // Nothing is to be matched for an answer.
                let interrupt = (!answer).then_some(to);
                match key {
                    None if left == 0 => {
                        self.later(
                            kernel,
                            in_memory,
                            Event::Posted(Seen::Message(message), interrupt),
                        );
                    }
                    // The firmware knows the place of an answer.
                    None if answer || self.params.accelerated => {
                        current(true, Place::Packet(message));
                    }
                    None => {
                        current(false, Place::Packet(message));
                        self.later(kernel, in_memory, Event::Posted(Seen::Header(source), interrupt));
                    }
                    Some(key) => {
                        let kept = current(false, Place::Kept(key));
                        self.later(
                            kernel,
                            in_memory,
                            Event::Posted(Seen::Message(message), interrupt),
                        );
                        self.later(kernel, in_memory + self.params.hold, Event::Hold(source, kept));
                    }
                }
            }
            Content::Moved { op, descriptor, .. } => {
                let descriptor = Box::new(descriptor);
                let place = Place::Operation {
                    op,
                    descriptor,
                    interrupt: None,
                    mark,
                };
                if left == 0 {
                    self.complete(kernel, place);
                } else {
                    current(true, place);
                }
            }
            Content::Fetch {
                from,
                to,
                op,
                descriptor,
            } => {
                kernel.recorder.arrives(mark, kernel.now);
                // On its way back it is a put of this side's.
                let descriptor = Descriptor {
                    direction: Direction::Put,
                    local: descriptor.remote,
                    remote: descriptor.local,
                    ..descriptor
                };
                let content = Content::Moved {
                    to: from,
                    op,
                    descriptor,
                };
                let body = descriptor.len as u64;
                let answer = Outbound {
                    to: source,
                    seq: 0,
                    content,
                    body,
                    own: true,
                    mark: kernel.mark(MessageKind::Transfer, (to, from), body),
                };
                self.command(kernel, Box::new(answer));
            }
            Content::Ring(from, to) => {
                let what = What::Ring;
                let message = Box::new(Message { from, to, what, mark });
                self.later(kernel, in_memory, Event::Posted(Seen::Message(message), Some(to)));
            }
            Content::Taken(_) | Content::Refused(_) => {}
        }
    }

    /// The host gives the receive command for a source's message.
    pub(super) fn give_receive_command(&mut self, kernel: &mut Kernel, source: HostId) {
        self.later(
            kernel,
            kernel.now + self.params.post,
            Event::ReceiveCommand(source),
        );
    }

    pub(super) fn open(&mut self, kernel: &mut Kernel, source: HostId) {
        let inbound = self.inbound.entry(source).or_default();
        if let Some(current) = &mut inbound.current {
            current.open = true;
        }
        self.go_on(kernel, source);
    }

    /// A get asks for the body that is held: it is the receive command. False: no such body is here.
    pub(super) fn ask_for_kept(
        &mut self,
        kernel: &mut Kernel,
        (me, source): (Peer, HostId),
        op: OpId,
        descriptor: &Descriptor,
    ) -> bool {
        let inbound = self.inbound.entry(source).or_default();
        let Some(current) = &mut inbound.current else {
            return false;
        };
        match &current.place {
            Place::Kept(key) if *key == descriptor.key && !current.open => {
                current.place = Place::Operation {
                    op,
                    descriptor: Box::new(*descriptor),
                    interrupt: Some(me),
                    mark: Mark::NONE,
                };
            }
            _ => return false,
        }
        self.give_receive_command(kernel, source);
        true
    }

    /// A body has waited for so long: it goes nowhere, and others have the room.
    pub(super) fn held_long(&mut self, kernel: &mut Kernel, source: HostId, kept: u64) {
        self.discard(kernel, source, |current| current.kept == kept);
    }

    /// The memory that a body comes from is needed no longer: it is not wanted.
    pub(super) fn withdrawn(&mut self, kernel: &mut Kernel, source: HostId, of: u64) {
        self.discard(
            kernel,
            source,
            |current| matches!(current.place, Place::Kept(key) if key == of),
        );
    }

    fn discard(&mut self, kernel: &mut Kernel, source: HostId, is: impl FnOnce(&Current) -> bool) {
        let inbound = self.inbound.entry(source).or_default();
        if let Some(current) = &mut inbound.current
            && matches!(current.place, Place::Kept(_))
            && is(current)
        {
            (current.place, current.open) = (Place::Nowhere, true);
            self.figures.dropped += 1;
            self.go_on(kernel, source);
        }
    }

    /// A frame of a body is in memory.
    pub(super) fn drained(&mut self, kernel: &mut Kernel, source: HostId) {
        let inbound = self.inbound.entry(source).or_default();
        inbound.busy = false;
        let Some(frame) = inbound.frames.pop_front() else {
            return;
        };
        if let Frame::Body(bytes) = frame
            && let Some(current) = &mut inbound.current
        {
            current.left = current.left.saturating_sub(u64::from(bytes));
            if current.left == 0
                && let Some(current) = inbound.current.take()
            {
                self.complete(kernel, current.place);
            }
        }
        self.take_frame(kernel, source, &frame);
        self.go_on(kernel, source);
    }

    /// The body of a message is whole.
    fn complete(&mut self, kernel: &mut Kernel, place: Place) {
        let at = self.firmware(kernel.now, self.params.completion);
        let (seen, interrupt) = match place {
            Place::Packet(message) => {
                let to = message.to;
                (Seen::Message(message), Some(to))
            }
            Place::Operation {
                op,
                descriptor,
                interrupt,
                mark,
            } => (Seen::Moved(op, descriptor, mark), interrupt),
            Place::Kept(_) | Place::Nowhere => return,
        };
        let in_memory = at + self.params.hypertransport_latency;
        self.later(kernel, in_memory, Event::Posted(seen, interrupt));
    }
}
