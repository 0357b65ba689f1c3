//! Which carrier, and its settings.

use farpost_fm::FmTunables;
use farpost_portals::agent::Access;
use farpost_portals::net::NetTunables;

/// Names the device; the same for all ranks.
pub const VARIABLE: &str = "FARPOST_DEVICE";

/// What carries MPI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// Postboxes in the fabric's remote memory.
    #[default]
    Postbox,
    /// Fast Messages, to every peer.
    Fm,
    /// JAM, to peers of other hosts.
    Jam,
    /// Portals, to every peer, which matches as well.
    Portals,
}

impl Device {
    const ALL: [Device; 4] = [Device::Postbox, Device::Fm, Device::Jam, Device::Portals];

    /// As in [`VARIABLE`].
    pub fn name(self) -> &'static str {
        match self {
            Device::Postbox => "postbox",
            Device::Fm => "fm",
            Device::Jam => "jam",
            Device::Portals => "portals",
        }
    }

    /// The device of that name; none named is the postbox.
    ///
    /// # Errors
    /// A sentence.
    pub fn named(value: &str) -> Result<Device, String> {
        if value.is_empty() {
            return Ok(Device::default());
        }
        let found = Device::ALL.into_iter().find(|device| device.name() == value);
        found.ok_or_else(|| format!("{VARIABLE}={value}: allowed are postbox, fm, jam and portals"))
    }
}

farpost_tunables::tunables! {
    /// Tunables of the devices.
    pub struct DeviceTunables {
        /// Ranks of one host reach each other through shared memory (1) or by JAM as well (0): for measuring and testing on one host.
        jam_local: "FARPOST_JAM_LOCAL" = 1, 0..=1, "yes or no";
        /// By JAM, longer messages are offered and go by block transfer, where the fabric transfers between memories; others by PIO at once, 84 bytes a message.
        jam_rdma: "FARPOST_JAM_RDMA" = 1024, 0..=1 << 20, "bytes";
        /// By Portals, memory for short messages that came before their receives, in three buffers. What others may have on its way to a process is bounded by it; with none of it left, messages stay with their senders until they are received.
        portals_unexpected: "FARPOST_PORTALS_UNEXPECTED" = 8 << 20, 64 << 10..=1 << 40, "bytes";
        /// By Portals, messages that stay with their sender and have a match entry each by which their receivers fetch them. Of further ones only the headers go, and a receiver asks for an entry first.
        portals_exposed: "FARPOST_PORTALS_EXPOSED" = 32 << 10, 0..=32 << 10, "messages";
        /// By Portals, posted receives that have a match entry each. Later ones are matched with what has come by MPI itself.
        portals_posted: "FARPOST_PORTALS_POSTED" = 16 << 10, 0..=16 << 10, "receives";
        /// By Portals, messages that stay with their senders and that a process fetches at a time; and of its own announced messages those for which it gives others an entry at a time.
        portals_fetches: "FARPOST_PORTALS_FETCHES" = 4 << 10, 1..=4 << 10, "messages";
    }
}

/// Which device, and its settings.
#[derive(Clone, Debug, Default)]
pub struct DeviceConfig {
    pub device: Device,
    pub tunables: DeviceTunables,
    pub fm: FmTunables,
    pub portals: NetTunables,
    /// Where the job has Portals agents: who is reached by way of them.
    pub agents: Option<Access>,
}

impl DeviceConfig {
    /// Set what the variable `name` is about; false: it is about nothing here.
    ///
    /// # Errors
    /// A sentence: what is allowed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        if name == VARIABLE {
            self.device = Device::named(value)?;
            return Ok(true);
        }
        self.tunables.set(name, value).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_goes_by_its_name() {
        for device in Device::ALL {
            assert_eq!(Device::named(device.name()), Ok(device));
        }
        assert_eq!(Device::named(""), Ok(Device::Postbox));
        let refused = Device::named("FM").unwrap_err();
        assert!(refused.contains("FARPOST_DEVICE=FM") && refused.contains("postbox, fm, jam and portals"));
    }
}
