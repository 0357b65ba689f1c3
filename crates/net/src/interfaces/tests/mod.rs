//! Invented hosts.

mod card;
mod choose;
mod rails;

use super::*;

/// An interface of an invented host; `@` before the name: down.
fn interface(index: u32, name: &str, speed: u32, addresses: &[&str]) -> Interface {
    let (up, name) = match name.strip_prefix('@') {
        Some(name) => (false, name),
        None => (true, name),
    };
    let (class, class_reason) = match name {
        "lo" => (Class::Loopback, "loopback"),
        _ => system::by_name(name),
    };
    Interface {
        name: name.to_owned(),
        index,
        up,
        class,
        class_reason,
        speed,
        addresses: addresses.iter().map(|a| Subnet::parse(a).unwrap()).collect(),
    }
}

/// Loopback, and then what is given.
fn host(others: &[(&str, u32, &[&str])]) -> Vec<Interface> {
    let mut all = vec![interface(1, "lo", 0, &["127.0.0.1/8", "::1/128"])];
    for (n, (name, speed, addresses)) in others.iter().enumerate() {
        all.push(interface(n as u32 + 2, name, *speed, addresses));
    }
    all
}

fn chosen(value: &str, all: &[Interface]) -> Chosen {
    Choice::parse(value).unwrap().apply(all).unwrap()
}

fn names(c: &Chosen) -> Vec<&str> {
    c.interfaces.iter().map(|u| u.name.as_str()).collect()
}

/// The card of a process on such a host, in a network namespace of that number, listening on port 4000 + number.
fn card_of(namespace: u64, value: &str, all: &[Interface]) -> Card {
    Card::new(&chosen(value, all).interfaces, namespace, |_| {
        4000 + namespace as u16
    })
}
