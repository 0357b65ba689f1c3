use super::*;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn address() -> impl Strategy<Value = Subnet> {
    prop_oneof![
        (1u32..0xa000_0000, 0u8..=32)
            .prop_filter("one host's", |(a, _)| a >> 16 != 0xa9fe)
            .prop_map(|(a, prefix)| Subnet {
                ip: IpAddr::V4(Ipv4Addr::from_bits(a)),
                prefix
            }),
        (any::<u64>(), 0u8..=128).prop_map(|(a, prefix)| Subnet {
            ip: IpAddr::V6(Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(a))),
            prefix
        }),
    ]
}

prop_compose! {
    fn listed()(
        name in "[a-z0-9.@-]{1,15}",
        class in prop_oneof![Just(Class::Network), Just(Class::Virtual), Just(Class::Loopback)],
        speed in any::<u32>(),
        port in 1u16..,
        addresses in proptest::collection::vec(address(), 1..=MAX_ADDRESSES),
    ) -> Listed {
        Listed { name, class, speed, port, addresses }
    }
}

prop_compose! {
    fn card()(
        namespace in any::<u64>(),
        interfaces in proptest::collection::vec(listed(), 0..=MAX_INTERFACES),
    ) -> Card {
        Card { namespace, interfaces }
    }
}

proptest! {
    #[test]
    fn a_card_is_read_as_it_was_written(card in card(), after in proptest::collection::vec(any::<u8>(), 0..9)) {
        let mut bytes = card.encode(usize::MAX);
        let len = bytes.len();
        bytes.extend_from_slice(&after);
        prop_assert_eq!(Card::decode(&bytes), Ok((card, len)));
    }

    #[test]
    fn a_card_is_cut_to_the_room_there_is(card in card(), room in 10usize..700) {
        let bytes = card.encode(room);
        prop_assert!(bytes.len() <= room);
        let (short, _) = Card::decode(&bytes).unwrap();
        for (a, b) in short.interfaces.iter().zip(&card.interfaces) {
            prop_assert_eq!(&a.name, &b.name);
            prop_assert!(b.addresses.starts_with(&a.addresses) && !a.addresses.is_empty());
        }
    }

    #[test]
    fn a_truncated_card_is_refused(card in card(), keep in any::<prop::sample::Index>()) {
        let bytes = card.encode(usize::MAX);
        let keep = keep.index(bytes.len());
        prop_assert_eq!(Card::decode(&bytes[..keep]), Err(CardError::Short(keep)));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Card::decode(&bytes);
        let mut led = vec![1u8, 3];
        led.extend_from_slice(&bytes);
        if let Ok((card, used)) = Card::decode(&led) {
            prop_assert!(used <= led.len() && card.interfaces.len() == 3);
        }
    }

    #[test]
    fn a_changed_byte_never_makes_what_cannot_be(card in card(), at in any::<prop::sample::Index>(), by in 1u8..) {
        let mut bytes = card.encode(usize::MAX);
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        if let Ok((card, _)) = Card::decode(&bytes) {
            prop_assert!(card.interfaces.len() <= MAX_INTERFACES);
            for i in &card.interfaces {
                prop_assert!(i.port != 0 && i.name.is_ascii());
                prop_assert!((1..=MAX_ADDRESSES).contains(&i.addresses.len()));
                for a in &i.addresses {
                    let width = if a.ip.is_ipv4() { 32 } else { 128 };
                    prop_assert!(a.prefix <= width);
                    prop_assert!(!a.ip.is_multicast() && !a.ip.is_unspecified());
                }
            }
        }
    }
}

#[test]
fn errors_name_the_place_and_the_value() {
    assert_eq!(Card::decode(&[9]), Err(CardError::Format(9)));
    let e = Card::decode(&[1, 200]).unwrap_err();
    assert_eq!(
        e.to_string(),
        "its list of addresses has 200 at byte 1, where a number of interfaces was expected"
    );
}

#[test]
fn the_largest_card_fits_what_may_be_published() {
    let one = Listed {
        name: "a".repeat(15),
        class: Class::Network,
        speed: 1,
        port: 1,
        addresses: vec![Subnet::parse("fd00::1/64").unwrap(); MAX_ADDRESSES],
    };
    let card = Card {
        namespace: 1,
        interfaces: vec![one; MAX_INTERFACES],
    };
    let (short, _) = Card::decode(&card.encode(600)).unwrap();
    assert_eq!(short.interfaces.len(), MAX_INTERFACES);
}
