//! Where the library of Portals runs (paper, section 3): in the process itself, or with an *agent* of its host, a service process
//! that mpiexec starts when [`PORTALS`] asks for it.

use farpost_fabric::Fabric;
use farpost_portals::AnyInterface;
use farpost_portals::agent::Mode;

/// Variable: where the library of Portals runs for this process. mpiexec reads it too.
pub const PORTALS: &str = "FARPOST_PORTALS";

/// Variable: the number of the user whose agent of the host is asked; this process's own by default.
pub(crate) const OWNER: &str = "FARPOST_PORTALS_HOST";

/// Where the library of Portals runs for a process.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr, strum::EnumString, strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum PortalsPlace {
    /// In the process itself, as is the network layer.
    #[default]
    Inline,
    /// In the process; an agent has the network layer, and an interrupt tells of what has arrived.
    Generic,
    /// With an agent.
    Accelerated,
}

impl PortalsPlace {
    /// As [`PORTALS`] calls it.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What [`PORTALS`] says; empty is the default.
    pub(crate) fn parse(value: &str) -> Result<Self, String> {
        if value.is_empty() {
            return Ok(Self::default());
        }
        let found = value.parse();
        found.map_err(|_| format!("{PORTALS}={value}: allowed are inline, generic and accelerated"))
    }

    /// Where an interface's library runs.
    pub fn of<F: Fabric>(interface: &AnyInterface<F>) -> Self {
        match interface.mode() {
            None => Self::Inline,
            Some(Mode::Generic) => Self::Generic,
            Some(Mode::Accelerated) => Self::Accelerated,
        }
    }

    pub(crate) fn mode(self) -> Option<Mode> {
        match self {
            Self::Inline => None,
            Self::Generic => Some(Mode::Generic),
            Self::Accelerated => Some(Mode::Accelerated),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::VariantArray;

    #[test]
    fn places_have_names() {
        for &place in PortalsPlace::VARIANTS {
            assert_eq!(PortalsPlace::parse(place.name()), Ok(place));
        }
        assert_eq!(PortalsPlace::parse(""), Ok(PortalsPlace::Inline));
        let error = PortalsPlace::parse("there").unwrap_err();
        assert!(error.contains("inline, generic and accelerated"), "{error}");
    }
}
