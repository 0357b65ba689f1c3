//! The names of MPI's functions, and a function by its number among them.

include!(concat!(env!("OUT_DIR"), "/names.rs"));

/// Functions beside the standard's that raise errors as those do (`api/mpix.toml`), in the order of [`Fun::mpix`].
const MPIX: [&str; 8] = [
    "MPIX_Comm_revoke",
    "MPIX_Comm_is_revoked",
    "MPIX_Comm_get_failed",
    "MPIX_Comm_ack_failed",
    "MPIX_Comm_agree",
    "MPIX_Comm_iagree",
    "MPIX_Comm_shrink",
    "MPIX_Comm_ishrink",
];

/// A function of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fun(pub(crate) u16);

impl Fun {
    /// Its C name.
    pub(crate) fn name(self) -> &'static str {
        let at = usize::from(self.0);
        NAMES
            .get(at)
            .or_else(|| MPIX.get(at.wrapping_sub(NAMES.len())))
            .copied()
            .unwrap_or("MPI")
    }

    /// One of the functions beside the standard's.
    pub(crate) fn mpix(name: &str) -> Self {
        let at = MPIX.iter().position(|known| *known == name);
        Self((NAMES.len() + at.unwrap_or(MPIX.len())) as u16)
    }

    /// Whether the number is a function's: for those that come from other processes.
    pub(crate) fn exists(self) -> bool {
        usize::from(self.0) < NAMES.len()
    }
}
