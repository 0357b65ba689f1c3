//! The ways, by name.

use super::ends::{HUGE, LARGEST};
use crate::abi::Result;

/// The ways, each with its name in options and JSON, its name in tables and plots, and what it adds to a bare line.
macro_rules! layers {
    ($($(#[$doc:meta])* $layer:ident: $key:literal, $title:literal, $adds:literal;)*) => {
        /// One way to get messages across.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Layer {
            $($(#[$doc])* $layer,)*
        }

        impl Layer {
            /// All, from the lowest to the highest.
            pub const ALL: &[Layer] = &[$(Layer::$layer,)*];

            /// Its name in options and JSON.
            pub fn key(self) -> &'static str {
                match self { $($layer => $key,)* }
            }

            /// Its name in tables and plots.
            pub fn title(self) -> &'static str {
                match self { $($layer => $title,)* }
            }

            /// What it adds to a bare line.
            pub fn adds(self) -> &'static str {
                match self { $($layer => $adds,)* }
            }
        }
    };
}

layers! {
    /// Nothing: the floor alone.
    Line: "line", "bare cache line", "nothing: 56 bytes and a number in one line, to and fro";
    /// A ring of lines.
    Queue: "queue", "queue of lines",
        "room for 256 lines each way, the receiver tells how far it is; no library";
    RsmPut: "rsm-put", "RSM put and flag",
        "any memory of the peer's, access rights, errors told; a ring of 32 slots made by the program";
    JamPio: "jam-pio", "JAM PIO", "any sender, two priorities, CRC-16, a tag; 2 to 22 words";
    JamVi: "jam-vi", "JAM VI", "a ring in memory and one doorbell for 16 messages";
    JamRdma: "jam-rdma", "JAM RDMA", "blocks of any size, the receiver owned by one sender at a time";
    JamRpc: "jam-rpc", "JAM RPC", "a procedure runs at the receiver, argument of any size";
    FmSend4: "fm-send-4", "FM_send_4",
        "a handler runs at the receiver, nothing is lost: return-to-sender flow control; 4 words";
    FmSend: "fm-send", "FM_send", "the same with up to 128 bytes";
    /// FM_send with the features of the paper's Table 4, row by row.
    FmBare: "fm-bare", "FM_send, bare",
        "a handler runs at the receiver; no queues of FM's own, no flow control";
    FmBuffers: "fm-buffers", "FM_send + buffers",
        "buffer management: every frame by the send queue and the host receive queue";
    FmBuffersSwitch: "fm-buffers-switch", "FM_send + switch()",
        "the same, with every frame looked into when it is moved";
    FmFlow: "fm-flow", "FM_send + flow ctrl.",
        "buffer management and return-to-sender flow control: FM 1.0 as it was built";
    FmFlowSwitch: "fm-flow-switch", "FM_send + both", "the same, with switch()";
    FmStream: "fm-stream", "FM 2.x stream",
        "messages of any length in order, in pieces, handlers that wait for more";
    PortalsPut: "portals-put", "Portals put",
        "a match list, a descriptor and an event of the target's, who need not call";
    PortalsGet: "portals-get", "Portals get",
        "the same, asked for: one get and its reply, one after the other";
    /// Puts that meet many entries before theirs.
    PortalsMatch: "portals-match", "Portals put, 1,000th", "a put behind 1,000 entries that do not match";
    /// Portals by way of an agent, matched by the client.
    GenericPut: "portals-generic-put", "Portals put, generic",
        "a put by way of an agent, a process between: the target matches, after an interrupt";
    GenericGet: "portals-generic-get", "Portals get, generic", "the same, asked for";
    /// The same, matched by the agent.
    AcceleratedPut: "portals-accelerated-put", "Portals put, accel.",
        "a put by way of an agent, which matches in the target's place";
    AcceleratedGet: "portals-accelerated-get", "Portals get, accel.", "the same, asked for";
    /// Portals between processes of a host, whosever they are.
    HostPut: "portals-host-put", "Portals put, host",
        "a put by way of the host's agent, between processes of any jobs: who is who by the kernel's word";
    MpiPostbox: "mpi-postbox", "MPI, postboxes", "matching by source, tag and communicator, any datatype";
    MpiFm: "mpi-fm", "MPI over FM", "the same, carried by FM";
    MpiJam: "mpi-jam", "MPI over JAM", "the same, carried by JAM, within the host too (FARPOST_JAM_LOCAL=0)";
    MpiPortals: "mpi-portals", "MPI over Portals", "the same, carried and matched by Portals";
}

use Layer::*;

/// Features of Fast Messages (the FM paper's Table 4).
macro_rules! features {
    ($buffers:literal, $flow:literal, $switch:literal) => {
        &[
            ("FARPOST_FM_BUFFERS", $buffers),
            ("FARPOST_FM_FLOW", $flow),
            ("FARPOST_FM_SWITCH", $switch),
        ]
    };
}

/// Variables that would make a layer something else.
pub(crate) const UNSET: [&str; 7] = [
    "FARPOST_DEVICE",
    "FARPOST_JAM_LOCAL",
    "FARPOST_PORTALS",
    "FARPOST_FM_BUFFERS",
    "FARPOST_FM_FLOW",
    "FARPOST_FM_SWITCH",
    "FARPOST_FM_FRAME",
];

impl Layer {
    /// The layer of that key.
    pub fn parse(key: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|l| l.key() == key).ok_or_else(|| {
            let all: Vec<&str> = Self::ALL.iter().map(|l| l.key()).collect();
            usage!("layer \"{key}\": allowed are {}", all.join(", "))
        })
    }

    /// Whether it has messages of so many bytes.
    pub fn carries(self, bytes: usize) -> bool {
        match self {
            Line => false,
            FmSend4 => bytes == 16,
            FmSend | FmBare | FmBuffers | FmBuffersSwitch | FmFlow | FmFlowSwitch => {
                (1..=128).contains(&bytes)
            }
            JamPio | JamVi => (8..=88).contains(&bytes) && bytes.is_multiple_of(4),
            Queue | RsmPut | JamRdma | JamRpc | FmStream => (1..=LARGEST).contains(&bytes),
            PortalsMatch => (1..=64).contains(&bytes),
            PortalsPut | PortalsGet | GenericPut | GenericGet | AcceleratedPut | AcceleratedGet | HostPut => {
                (1..=HUGE).contains(&bytes)
            }
            MpiPostbox | MpiPortals => bytes <= HUGE,
            MpiFm | MpiJam => bytes <= LARGEST,
        }
    }

    /// Whether it can answer requests, as the LogP benchmark asks them.
    pub fn answers(self) -> bool {
        matches!(self, JamPio | FmSend4 | MpiPostbox | MpiFm | MpiJam | MpiPortals)
    }

    /// Whether it goes by way of an agent, a third process of the job.
    pub fn has_agent(self) -> bool {
        matches!(self, GenericPut | GenericGet | AcceleratedPut | AcceleratedGet)
    }

    /// Whether it goes by way of the host's agent, which is of no job.
    pub fn has_host_agent(self) -> bool {
        self == HostPut
    }

    /// Whether its messages are asked for.
    pub fn is_get(self) -> bool {
        matches!(self, PortalsGet | GenericGet | AcceleratedGet)
    }

    /// Settings that make it what it is: without the second, MPI uses JAM between hosts only.
    pub fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            FmBare => features!("0", "0", "0"),
            FmBuffers => features!("2", "0", "0"),
            FmBuffersSwitch => features!("2", "0", "1"),
            FmFlow => features!("2", "1", "0"),
            FmFlowSwitch => features!("2", "1", "1"),
            GenericPut | GenericGet => &[("FARPOST_PORTALS", "generic")],
            AcceleratedPut | AcceleratedGet => &[("FARPOST_PORTALS", "accelerated")],
            MpiFm => &[("FARPOST_DEVICE", "fm")],
            MpiPortals => &[("FARPOST_DEVICE", "portals")],
            MpiJam => &[("FARPOST_DEVICE", "jam"), ("FARPOST_JAM_LOCAL", "0")],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row of the FM paper's Table 4 is another layer, and says so to its ranks.
    #[test]
    fn features_are_settings() {
        let rows = [FmSend, FmBare, FmBuffers, FmBuffersSwitch, FmFlow, FmFlowSwitch];
        let settings: std::collections::BTreeSet<_> = rows.iter().map(|row| row.settings()).collect();
        assert_eq!(settings.len(), rows.len());
        for layer in Layer::ALL {
            for (name, _) in layer.settings() {
                assert!(UNSET.contains(name), "{name}");
            }
        }
    }

    #[test]
    fn keys_are_different_and_parse_back() {
        for &layer in Layer::ALL {
            assert_eq!(Layer::parse(layer.key()).unwrap(), layer);
        }
        let err = Layer::parse("fm_send").unwrap_err().to_string();
        assert!(err.contains("fm_send") && err.contains("fm-send-4"), "{err}");
        assert!(Layer::FmSend4.carries(16) && !Layer::FmSend4.carries(8));
        assert!(Layer::FmBare.carries(128) && !Layer::FmFlowSwitch.carries(129));
        assert!(Layer::JamPio.carries(56) && !Layer::JamPio.carries(92) && !Layer::JamPio.carries(10));
    }
}
