//! What carries MPI messages: a folder each, behind one trait, which is the engine's. The engine knows requests, statuses, contexts, messages that came
//! before their receives, and what is lost with a peer; which carrier it has is decided when it is made, and nothing outside this
//! folder asks.
//!
//! Two families. *Matched here*: a carrier brings the envelope, and the engine's queues say which receive takes it: [`postbox`],
//! postboxes and blocks in memory that both sides see or that the fabric writes to, and [`messages`], whole messages by Fast Messages or
//! by JAM. *Matched there*: the layer has the receives and matches by itself: [`portals`].

mod config;
pub(crate) mod messages;
pub(crate) mod portals;
pub(crate) mod postbox;

pub use config::{Device, DeviceConfig, DeviceTunables, VARIABLE};

use crate::engine::carrier::{Direct, Limits, carrier_methods};
use crate::engine::envelope::Envelope;
use crate::engine::request::{Mode, Payload};
use crate::engine::{Carrier, EngineTunables, Parts};
use crate::{Rank, Result};
use farpost_channel::{ChannelTunables, Postboxes};
use farpost_fabric::wait::WaitTunables;
use farpost_fabric::{Fabric, Line, Peer, PeerFlags};
use messages::{ByFm, ByJam, ByMessages, Messages};
use std::rc::Rc;

/// The carrier of an engine, with what it keeps.
pub(crate) enum Chosen<F: Fabric> {
    /// What it keeps is the engine's own, one load nearer.
    Postbox,
    Fm(Box<Messages<ByFm<F>>>),
    Jam(Box<Messages<ByJam<F>>>),
    Portals(Box<portals::Portals<F>>),
}

/// Each method of the carrier that an engine has.
macro_rules! forward {
    ($($(#[$doc:meta])* fn $name:ident($engine:ident: $of:ty $(, $arg:ident: $type:ty)* $(,)?) $(-> $result:ty)?;)*) => {
        impl<F: Fabric> Carrier<F> for Chosen<F> {
            $(
                #[inline]
                fn $name($engine: $of $(, $arg: $type)*) $(-> $result)? {
                    match $engine.carrier {
                        Chosen::Postbox => postbox::Postbox::$name($engine $(, $arg)*),
                        Chosen::Fm(_) => ByMessages::<F, ByFm<F>>::$name($engine $(, $arg)*),
                        Chosen::Jam(_) => ByMessages::<F, ByJam<F>>::$name($engine $(, $arg)*),
                        Chosen::Portals(_) => portals::ByPortals::$name($engine $(, $arg)*),
                    }
                }
            )*
        }
    };
}

carrier_methods!(forward, Engine<F>);

/// An engine with the carrier that was chosen.
pub(crate) type Engine<F> = crate::engine::Engine<F, Chosen<F>>;

/// An engine on `fabric`, with the carrier that `config` names.
pub(crate) fn engine<F: Fabric>(
    fabric: Rc<F>,
    channel: &ChannelTunables,
    mut tunables: EngineTunables,
    config: (&DeviceConfig, &WaitTunables),
) -> Engine<F> {
    let post = Postboxes::new(Rc::clone(&fabric), channel);
    // An eager message is posted whole or not at all: it must fit, blocks and postboxes.
    let in_pieces = postbox::bytes_in_pieces(post.block_bytes(), post.slots());
    let most = post.bytes_at_once().min(in_pieces);
    tunables.eager_max = tunables.eager_max.min(most);
    tunables.eager_far = tunables.eager_far.min(most);
    let (carrier, by_postbox) = Chosen::new(&fabric, channel, &tunables, config);
    Engine::new(Parts {
        limits: carrier.limits(),
        fabric,
        post,
        tunables,
        carrier,
        by_postbox,
    })
}

impl<F: Fabric> Chosen<F> {
    /// The carrier that `config` names, and whether it brings what goes to each peer by postboxes.
    pub fn new(
        fabric: &Rc<F>,
        channel: &ChannelTunables,
        tunables: &EngineTunables,
        (config, wait): (&DeviceConfig, &WaitTunables),
    ) -> (Self, PeerFlags) {
        let size = fabric.size() as usize;
        let near = |peer| fabric.maps(peer) && config.tunables.jam_local != 0;
        let by_postbox = match config.device {
            Device::Postbox => PeerFlags::new(size, true),
            Device::Jam => PeerFlags::from_fn(size, near),
            Device::Fm | Device::Portals => PeerFlags::new(size, false),
        };
        let bounds = (channel, tunables, config);
        let chosen = match config.device {
            _ if by_postbox.all() => Chosen::Postbox,
            Device::Postbox => Chosen::Postbox,
            Device::Fm => Chosen::Fm(Messages::new(
                ByFm::new(Rc::clone(fabric), &config.fm),
                fabric,
                bounds,
            )),
            Device::Jam => Chosen::Jam(Messages::new(ByJam::new(Rc::clone(fabric)), fabric, bounds)),
            Device::Portals => {
                let short = tunables.eager_max.max(tunables.eager_far);
                Chosen::Portals(Box::new(portals::Portals::new(fabric, config, wait, short)))
            }
        };
        (chosen, by_postbox)
    }

    /// Whether an agent moves messages that this process has to look after, even while its program computes.
    pub fn serves_agent(&self) -> bool {
        matches!(self, Chosen::Portals(portals) if portals.serves_agent())
    }

    /// What the carrier can tell apart.
    pub fn limits(&self) -> Limits {
        match self {
            Chosen::Postbox | Chosen::Fm(_) | Chosen::Jam(_) => postbox::LIMITS,
            Chosen::Portals(portals) => portals.limits(),
        }
    }
}
