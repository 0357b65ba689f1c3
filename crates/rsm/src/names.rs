//! Permissions and segment identifiers: their ranges, and the file that sets ranges aside.

use crate::error::Result;

/// A node of the interconnect: a process of the job.
pub type NodeId = u32;

/// Identifies a published segment among those of its node.
pub type SegId = u32;

/// Permission bits: an owner/group/other triple as of files, without execution (`rsm_permission_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Perm(pub u32);

impl Perm {
    /// Nothing (`RSM_PERM_NONE`).
    pub const NONE: Perm = Perm(0);
    /// Get and load (`RSM_PERM_READ`).
    pub const READ: Perm = Perm(0o400);
    /// Put and store (`RSM_PERM_WRITE`).
    pub const WRITE: Perm = Perm(0o200);
    /// Both (`RSM_PERM_RDWR`).
    pub const RDWR: Perm = Perm(0o600);

    /// Whether all of `wanted`'s bits are here.
    pub fn allows(self, wanted: Perm) -> bool {
        wanted.0 & !self.0 == 0
    }

    /// What the triple gives to a user, as the owner's bits: the owner's for the owner, the group's for members of the
    /// owner's group, else the others'.
    pub fn of_user(self, owner: (u32, u32), user: &Identity) -> Perm {
        let shift = if user.uid == owner.0 {
            0
        } else if user.gid == owner.1 || user.groups.contains(&owner.1) {
            3
        } else {
            6
        };
        Perm(self.0 << shift & Self::RDWR.0)
    }

    /// Whether the triple gives all users the same.
    pub fn is_same_for_all(self) -> bool {
        let of = |shift: u32| self.0 << shift & Self::RDWR.0;
        of(0) == of(3) && of(0) == of(6)
    }

    /// What the triple gives to anybody at all: what an adapter, which knows no users, must let through.
    pub fn of_anybody(self) -> Perm {
        Perm((self.0 | self.0 << 3 | self.0 << 6) & Self::RDWR.0)
    }
}

/// Who a process is to the second level of access checks.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Identity {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Other groups.
    pub groups: Vec<u32>,
}

/// Who may connect from where, and with which rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessEntry {
    /// The node.
    pub node: NodeId,
    /// The triple for its users.
    pub permission: Perm,
}

/// First identifier that the system assigns.
pub const FIRST_ASSIGNED: SegId = 0x8000_0000;

/// Last identifier of the ranges that are kept for drivers, transports, libraries and networks.
pub const LAST_RESERVED: SegId = 0x3f_ffff;

/// Whether a program may choose `id`. 0 asks the system to choose.
pub fn check_chosen(id: SegId) -> Result<()> {
    if (1..=LAST_RESERVED).contains(&id) || id >= FIRST_ASSIGNED {
        return fail!(
            RESERVED_SEGID: "segment {id:#x}: programs choose from {:#x} to {:#x}, or 0 for one that the system assigns",
            LAST_RESERVED + 1, FIRST_ASSIGNED - 1
        );
    }
    Ok(())
}

/// The range that the `text` of a file of segment identifiers sets aside for application `appid`: lines
/// `reserved <appid> <hexadecimal base> <decimal length>`, and comments from `#` on.
///
/// # Errors
/// `BAD_CONF`: a line is malformed; `BAD_APPID`: no line is about the application.
pub fn segmentid_range(text: &str, appid: &str) -> Result<(SegId, u32)> {
    let mut found = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let bad = || {
            error!(
                BAD_CONF: "line {} of the file of segment identifiers: {line:?} is not `reserved NAME BASE LENGTH`",
                number + 1
            )
        };
        let fields: Vec<&str> = line.split_whitespace().collect();
        let ["reserved", name, base, length] = fields[..] else {
            return Err(bad());
        };
        let base = base
            .strip_prefix("0x")
            .or(base.strip_prefix("0X"))
            .unwrap_or(base);
        let base = SegId::from_str_radix(base, 16).map_err(|_| bad())?;
        let length: u32 = length.parse().map_err(|_| bad())?;
        if length == 0 || base.checked_add(length - 1).is_none() {
            return Err(bad());
        }
        if name == appid && found.is_none() {
            found = Some((base, length));
        }
    }
    found.ok_or_else(|| error!(BAD_APPID: "no range is set aside for {appid:?}"))
}

/// A controller: what a segment is published on and connected through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Controller {
    /// This process and itself: `loopback`.
    Loopback,
    /// The processes of this host, by its memory: `shm0`.
    Host,
    /// The processes of other hosts, by a rail of the network: `tcp0`, `ofi1`.
    Rail(u32),
}

impl Controller {
    /// As it is written to a directory.
    pub(crate) fn code(self) -> u32 {
        match self {
            Controller::Loopback => 0,
            Controller::Host => 1,
            Controller::Rail(rail) => 2 + rail,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn the_triple_as_in_the_manual() {
        // 0624: the owner reads and writes, the group writes only, others read only.
        let perm = Perm(0o624);
        let user = |uid, gid, groups: &[u32]| Identity {
            uid,
            gid,
            groups: groups.to_vec(),
        };
        assert_eq!(perm.of_user((10, 20), &user(10, 99, &[])), Perm::RDWR);
        assert_eq!(perm.of_user((10, 20), &user(11, 20, &[])), Perm::WRITE);
        assert_eq!(perm.of_user((10, 20), &user(11, 21, &[1, 20])), Perm::WRITE);
        assert_eq!(perm.of_user((10, 20), &user(11, 21, &[])), Perm::READ);
        assert_eq!(Perm(0o040).of_anybody(), Perm::READ);
        assert_eq!(Perm(0o042).of_anybody(), Perm::RDWR);
        assert!(Perm::RDWR.allows(Perm::WRITE) && !Perm::READ.allows(Perm::RDWR));
        assert!(Perm::NONE.allows(Perm::NONE));
    }

    #[test]
    fn ranges_of_identifiers() {
        for id in [0, 0x40_0000, 0x50_0000, 0x7fff_ffff] {
            check_chosen(id).unwrap();
        }
        for id in [1, 0xf_ffff, 0x3f_ffff, 0x8000_0000, u32::MAX] {
            assert_eq!(check_chosen(id).unwrap_err().code, Code::RESERVED_SEGID);
        }
    }

    #[test]
    fn the_file_of_ranges() {
        let text = "# ranges\n\nreserved  hpc 0x400000 1048576 # of MPI\nreserved ops 500000 16\n";
        assert_eq!(segmentid_range(text, "hpc"), Ok((0x40_0000, 1 << 20)));
        assert_eq!(segmentid_range(text, "ops"), Ok((0x50_0000, 16)));
        assert_eq!(segmentid_range(text, "x").unwrap_err().code, Code::BAD_APPID);
        for bad in [
            "reserved a 1",
            "kept a 1 1",
            "reserved a z 1",
            "reserved a 1 x",
            "reserved a 1 0",
            "reserved a ffffffff 2",
            "reserved a 1 1 1",
        ] {
            assert_eq!(
                segmentid_range(bad, "a").unwrap_err().code,
                Code::BAD_CONF,
                "{bad}"
            );
        }
    }
}
