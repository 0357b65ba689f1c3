//! Files of settings, and values of `FARPOST_*` variables.

use farpost_job::Roles;
use farpost_net::interfaces::{Choice, PortRange, Subnet};
use farpost_portals::net::NetTunables;
use farpost_tcp::link::LinkTunables;
use farpost_tunables::file;

pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(found) = file::settings(&text) else {
        return value(&text);
    };
    let mut names = std::collections::HashSet::new();
    for setting in found {
        assert!(names.insert(setting.name), "{} twice", setting.name);
        assert!(!setting.value.is_empty() && setting.value.trim() == setting.value);
        let whole = text.lines().nth(setting.line - 1).expect("a line of the text");
        assert!(whole.contains(setting.name) && whole.contains(setting.value));
        value(setting.value);
    }
    value(&text);
}

/// The value of any variable.
fn value(text: &str) {
    for tunable in NetTunables::TABLE.iter().chain(LinkTunables::TABLE) {
        if let Ok(number) = tunable.parse(text) {
            assert!((tunable.min..=tunable.max).contains(&number));
        }
    }
    if let Some(roles) = Roles::parse(text) {
        assert_eq!(Roles::parse(&roles.to_string()), Some(roles.clone()));
        let _ = (roles.of(0), roles.of(u32::MAX), roles.services());
    }
    if let Ok(choice) = Choice::parse(text) {
        let _ = choice.apply(&[]);
    }
    if let Some(subnet) = Subnet::parse(text) {
        assert!(subnet.contains(subnet.ip) && subnet.network().shares(&subnet));
    }
    let _ = PortRange::parse(text);
}

pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "# measured\n\n  FARPOST_RSM_SLOTS = 3k \r\n\t#x=y\nFARPOST_INTERFACE=eth0,!lo\n",
        "FARPOST_PORTALS_WINDOW=32\nFARPOST_PORTALS_WINDOW=64\n",
        "inline:4,generic:2+2",
        "10.0.0.0/8",
        "fe80::1/64",
        "^docker0,eth1",
        "40000-40100",
        "64k",
        "1G",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}
