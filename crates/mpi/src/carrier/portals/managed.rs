//! Messages that came before their receives: short ones in managed buffers, which are renewed when they are full, of kept ones
//! the header.

use super::memory;
use super::{bits, descriptor, user};
use farpost_fabric::{Cost, Fabric, Peer};
use farpost_portals::{
    AnyInterface, Error as PortalsError, Handle, NetworkInterface, NiFail, Position, ProcessId, Unlink,
    option,
};

/// Buffers that are ready at any time, the one being filled included.
const BUFFERS: u64 = 3;

/// Where the bytes of a message are.
pub(super) enum Place {
    /// In a buffer, as soon as the END with this link has come.
    Coming { link: u32, buffer: usize, at: usize },
    /// In a buffer.
    Here { buffer: usize, at: usize },
    /// In memory of their own: their buffer was renewed.
    Copied(Box<[u8]>),
    /// At the sender, who calls them that.
    Kept { id: u64 },
    /// Nowhere.
    Failed(NiFail),
}

/// A message that came before its receive.
pub(super) struct Message {
    pub peer: Peer,
    pub total: u64,
    pub place: Place,
    /// The receive that has taken it and waits for the END.
    pub taker: Option<usize>,
    /// Nobody will receive it.
    pub dropped: bool,
    /// Its memory is the sender's again when it is forgotten, and has not been before.
    pub owed: bool,
}

struct Buffer {
    memory: Box<[u8]>,
}

/// Buffers and messages.
pub(super) struct Managed {
    eq: Handle,
    /// The entry that buffers stand before.
    rest: Handle,
    buffers: Vec<Buffer>,
    short_max: u64,
    messages: Vec<Option<Message>>,
    free: Vec<u32>,
    /// Messages whose END has not come.
    coming: Vec<u32>,
}

impl Managed {
    /// `bytes` of memory, for messages of at most `short_max` each.
    pub fn new<F: Fabric>(
        ni: &AnyInterface<F>,
        rest: Handle,
        eq: Handle,
        bytes: u64,
        short_max: u64,
    ) -> Result<Self, PortalsError> {
        // What does not fit at the end of a buffer is lost to it.
        let each = (bytes / BUFFERS + short_max) as usize;
        let mut new = Self {
            eq,
            rest,
            buffers: Vec::new(),
            short_max,
            messages: Vec::new(),
            free: Vec::new(),
            coming: Vec::new(),
        };
        for number in 0..BUFFERS as usize {
            new.buffers.push(Buffer {
                memory: vec![0; each].into(),
            });
            new.link(ni, number)?;
        }
        Ok(new)
    }

    /// Put a buffer at the end of the list, empty.
    fn link<F: Fabric>(&mut self, ni: &AnyInterface<F>, number: usize) -> Result<(), PortalsError> {
        let me = ni.me_insert(
            self.rest,
            ProcessId::ANY,
            (0, !bits::KEPT),
            Unlink::Unlink,
            Position::Before,
        )?;
        let buffer = &mut self.buffers[number].memory;
        let mut md = descriptor(
            buffer.as_mut_ptr().expose_provenance(),
            buffer.len() as u64,
            option::OP_PUT | option::ACK_DISABLE | option::MAX_SIZE,
            user::of(user::BUFFER, number),
            self.eq,
        );
        md.options &= !option::EVENT_START_DISABLE;
        md.max_size = self.short_max;
        memory::attach(ni, me, md, None, Unlink::Unlink)?;
        Ok(())
    }

    /// A buffer is full and nothing is coming to it any more: what is still in it gets memory of its own, and it begins again.
    pub fn renew<F: Fabric>(
        &mut self,
        fabric: &F,
        ni: &AnyInterface<F>,
        number: usize,
    ) -> Result<(), PortalsError> {
        let Some(buffer) = self.buffers.get(number) else {
            return Ok(());
        };
        for message in self.messages.iter_mut().flatten() {
            if let Place::Here { buffer: in_it, at } = message.place
                && in_it == number
            {
                let bytes = &buffer.memory[at..at + message.total as usize];
                fabric.charge(Cost::Copy(bytes.len()));
                message.place = Place::Copied(bytes.into());
            }
        }
        self.link(ni, number)
    }

    /// Note a message; its number.
    pub fn note(&mut self, message: Message) -> u32 {
        let coming = matches!(message.place, Place::Coming { .. });
        let number = match self.free.pop() {
            Some(number) => {
                self.messages[number as usize] = Some(message);
                number
            }
            None => {
                self.messages.push(Some(message));
                self.messages.len() as u32 - 1
            }
        };
        if coming {
            self.coming.push(number);
        }
        number
    }

    /// The END with this link: the message is here, or has failed. Its number.
    pub fn arrived(&mut self, link: u32, fail: NiFail) -> Option<u32> {
        let messages = &mut self.messages;
        let at = self.coming.iter().position(|number| {
            matches!(&messages[*number as usize], Some(Message { place: Place::Coming { link: of, .. }, .. }) if *of == link)
        })?;
        let number = self.coming.remove(at);
        let message = messages[number as usize].as_mut()?;
        if let Place::Coming { buffer, at, .. } = message.place {
            message.place = match fail {
                NiFail::OK => Place::Here { buffer, at },
                fail => Place::Failed(fail),
            };
        }
        Some(number)
    }

    /// Whether the message is one that its sender keeps as `id`, and that nobody has taken.
    pub fn is_kept(&self, number: u32, id: u64) -> bool {
        let message = self.messages.get(number as usize).and_then(Option::as_ref);
        message.is_some_and(|message| matches!(message.place, Place::Kept { id: of } if of == id))
    }

    pub fn get(&mut self, number: u32) -> Option<&mut Message> {
        self.messages.get_mut(number as usize)?.as_mut()
    }

    /// The bytes of a message that is here.
    pub fn bytes(&self, number: u32) -> Option<&[u8]> {
        let message = self.messages.get(number as usize)?.as_ref()?;
        match &message.place {
            Place::Here { buffer, at } => {
                let memory = &self.buffers.get(*buffer)?.memory;
                memory.get(*at..*at + message.total as usize)
            }
            Place::Copied(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Forget a message.
    pub fn forget(&mut self, number: u32) -> Option<Message> {
        let message = self.messages.get_mut(number as usize)?.take();
        if message.is_some() {
            self.free.push(number);
        }
        message
    }

    /// Messages that are coming.
    pub fn awaited(&self) -> usize {
        self.coming.len()
    }
}
