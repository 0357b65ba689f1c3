use super::*;

fn busy() -> Vec<Interface> {
    host(&[
        ("docker0", 10_000, &["172.17.0.1/16"]),
        ("eth0", 1_000, &["10.0.0.5/24", "fd00::5/64", "fe80::5/64"]),
        ("@eth1", 0, &["10.0.1.5/24"]),
        ("ib0", 100_000, &["10.9.0.5/16"]),
        ("eth2", 0, &[]),
        ("eth3", 0, &["fe80::1/64", "169.254.3.4/16"]),
    ])
}

#[test]
fn without_a_word_the_fastest_card_comes_first_and_bridges_last() {
    let c = chosen("", &busy());
    assert_eq!(names(&c), ["ib0", "eth0", "docker0", "lo"]);
    let eth0: Vec<String> = c.interfaces[1].addresses.iter().map(|a| a.to_string()).collect();
    assert_eq!(eth0, ["10.0.0.5/24", "fd00::5/64"]);
    for note in [
        "docker0: last choice, it is Docker's bridge by its name",
        "eth1: skipped, it is down",
        "eth2: skipped, it has no address",
        "eth3: skipped, it has no address that others can use",
        "eth0: fe80::5 skipped, link-local",
        "lo: for processes of the same host only, it is loopback",
    ] {
        assert!(c.notes.iter().any(|n| n == note), "{note} in {:?}", c.notes);
    }
}

#[test]
fn the_choice_in_one_line() {
    assert_eq!(
        chosen("ib0,docker*,lo", &busy()).sentence(),
        "ib0 (10.9.0.5, 100 Gbit/s), docker0 (172.17.0.1, 10 Gbit/s), lo (127.0.0.1, ::1; this host only)"
    );
    assert!(
        chosen("", &busy())
            .sentence()
            .contains("docker0 (172.17.0.1, 10 Gbit/s; last choice)")
    );
}

#[test]
fn names_patterns_and_networks_choose_in_the_order_given() {
    for (value, expected) in [
        ("eth0", &["eth0"][..]),
        ("eth0,ib0", &["eth0", "ib0"]),
        ("ib0, eth0", &["ib0", "eth0"]),
        ("*", &["ib0", "eth0", "docker0", "lo"]),
        ("e*", &["eth0"]),
        ("?b*", &["ib0"]),
        ("10.0.0.0/24", &["eth0"]),
        ("10.0.0.0/8", &["ib0", "eth0"]),
        ("10.9.0.5", &["ib0"]),
        ("fd00::/8,ib0", &["eth0", "ib0"]),
        ("!docker*", &["ib0", "eth0", "lo"]),
        ("!lo,!docker0,!10.9.0.0/16", &["eth0"]),
        ("e*,docker0", &["eth0", "docker0"]),
        ("lo", &["lo"]),
        (" , ,eth0,", &["eth0"]),
    ] {
        // A pattern that meets several orders them as usual.
        assert_eq!(names(&chosen(value, &busy())), expected, "{value}");
    }
}

#[test]
fn what_is_asked_for_is_no_last_choice() {
    let c = chosen("docker0", &busy());
    assert_eq!(c.interfaces[0].class, Class::Network);
    // But no word makes loopback reach another host.
    assert_eq!(chosen("lo", &busy()).interfaces[0].class, Class::Loopback);
}

#[test]
fn a_network_takes_only_its_own_addresses() {
    let c = chosen("fd00::/64", &busy());
    assert_eq!(c.interfaces[0].addresses, [Subnet::parse("fd00::5/64").unwrap()]);
    let c = chosen("!fd00::/64", &busy());
    assert_eq!(c.interfaces[1].addresses, [Subnet::parse("10.0.0.5/24").unwrap()]);
}

#[test]
fn a_value_that_matches_nothing_is_refused_with_what_there_is() {
    for value in ["eth9", "192.0.2.0/24", "eth1", "!*", "eth0,!eth0"] {
        let e = Choice::parse(value).unwrap().apply(&busy()).unwrap_err();
        let text = e.to_string();
        assert!(
            text.contains(&format!("FARPOST_INTERFACE={value} matches no usable interface"))
                && text.contains("ib0 (10.9.0.5/16)")
                && text.contains("eth1 (down)")
                && text.contains("eth2 (no address)"),
            "{text}"
        );
    }
    let e = Choice::default().apply(&[]).unwrap_err();
    assert_eq!(
        e.to_string(),
        "this host has no network interface with a usable address: it has none"
    );
}

#[test]
fn what_has_no_meaning_is_refused_naming_the_part() {
    for (value, part) in [
        ("eth0,10.0.0.0/33", "10.0.0.0/33"),
        ("10.0.0", "10.0.0"),
        ("a/b", "a/b"),
        ("eth0,!", "!"),
        ("eth 0", "eth 0"),
        ("eth0,10.0.0.300", "10.0.0.300"),
    ] {
        let e = Choice::parse(value).unwrap_err().to_string();
        assert!(e.contains(&format!("={value}: \"{part}\"")), "{e}");
    }
}

#[test]
fn an_address_of_the_host_on_loopback_is_used() {
    let all = [interface(1, "lo", 0, &["127.0.0.1/8", "10.200.0.7/32"])];
    let c = chosen("", &all);
    assert_eq!(names(&c), ["lo", "lo"]);
    assert_eq!(c.interfaces[0].class, Class::Network);
    assert_eq!(c.interfaces[0].addresses[0].to_string(), "10.200.0.7/32");
}
