//! Info objects against a plain list.
//!
//! Requirements of MPI-5.0 chapter 10.

use super::*;
use crate::ErrorClass;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Set(u8, Vec<u8>),
    Delete(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u8..6, proptest::collection::vec(any::<u8>(), 0..8)).prop_map(|(k, v)| Step::Set(k, v)),
        (0u8..6).prop_map(Step::Delete),
    ]
}

proptest! {
    #[test]
    fn behaves_as_an_ordered_list(steps in proptest::collection::vec(step(), 0..40)) {
        let mut info = Info::new();
        let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for step in steps {
            match step {
                Step::Set(k, value) => {
                    let key = vec![b'a' + k; 1 + k as usize];
                    info.set(&key, &value).unwrap();
                    match model.iter_mut().find(|e| e.0 == key) {
                        Some(e) => e.1 = value,
                        None => model.push((key, value)),
                    }
                }
                Step::Delete(k) => {
                    let key = vec![b'a' + k; 1 + k as usize];
                    let before = model.len();
                    model.retain(|e| e.0 != key);
                    let result = info.delete(&key).map_err(|e| e.class);
                    let expected = if model.len() < before { Ok(()) } else { Err(ErrorClass::ERR_INFO_NOKEY) };
                    prop_assert_eq!(result, expected);
                }
            }
            prop_assert_eq!(info.nkeys(), model.len());
            for (n, (key, value)) in model.iter().enumerate() {
                prop_assert_eq!(info.nthkey(n as i32).unwrap(), &key[..]);
                prop_assert_eq!(info.get(key).unwrap(), Some(&value[..]));
                prop_assert_eq!(info.valuelen(key).unwrap(), Some(value.len()));
            }
        }
    }

    #[test]
    fn get_string_cuts_and_terminates(value in "[a-z]{0,20}", room in 0usize..24) {
        let mut info = Info::new();
        info.set(b"k", value.as_bytes()).unwrap();
        let mut buffer = vec![b'!'; room];
        prop_assert_eq!(info.get_string(b"k", &mut buffer).unwrap(), Some(value.len() + 1));
        if room > 0 {
            let n = value.len().min(room - 1);
            prop_assert_eq!(&buffer[..n], &value.as_bytes()[..n]);
            prop_assert_eq!(buffer[n], 0);
            prop_assert!(buffer[n + 1..].iter().all(|b| *b == b'!'), "wrote past the terminator");
        }
    }
}

fn class<T: core::fmt::Debug>(result: Result<T>) -> ErrorClass {
    result.expect_err("an error was due").class
}

#[test]
fn limits_count_the_terminator() {
    let mut info = Info::new();
    info.set(&[b'k'; 255], &[b'v'; 1023]).unwrap();
    assert_eq!(class(info.set(&[b'k'; 256], b"v")), ErrorClass::ERR_INFO_KEY);
    assert_eq!(class(info.set(b"k", &[b'v'; 1024])), ErrorClass::ERR_INFO_VALUE);
    assert_eq!(class(info.set(b"", b"v")), ErrorClass::ERR_INFO_KEY);
    assert_eq!(class(info.get(b"")), ErrorClass::ERR_INFO_KEY);
    assert_eq!(info.get(b"absent").unwrap(), None);
    assert_eq!(info.get_string(b"absent", &mut []).unwrap(), None);
    assert_eq!(info.nkeys(), 1);
}

#[test]
fn nthkey_names_its_range() {
    let mut info = Info::new();
    assert_eq!(
        info.nthkey(0).unwrap_err().message,
        "n=0: the info object has no keys"
    );
    info.set(b"k", b"v").unwrap();
    let error = info.nthkey(-1).unwrap_err();
    assert_eq!(error.class, ErrorClass::ERR_ARG);
    assert_eq!(error.message, "n=-1: the keys are numbered 0 to 0");
}

#[test]
fn environment_holds_what_is_known() {
    let env = Environment {
        command: Some(b"./a.out".to_vec()),
        argv: vec![b"-n".to_vec(), b"5".to_vec()],
        maxprocs: Some(4),
        wdir: Some(vec![b'/'; 5000]),
        thread_level: Some("MPI_THREAD_MULTIPLE".into()),
        ..Environment::default()
    };
    let info = env.info().into_read_only();
    let keys: Vec<_> = info.iter().map(|(key, _)| shown(key)).collect();
    assert_eq!(keys, ["command", "argv", "maxprocs", "wdir", "thread_level"]);
    assert_eq!(info.get_str("argv"), Some("-n 5"));
    assert_eq!(info.get_str("maxprocs"), Some("4"));
    assert_eq!(info.valuelen(b"wdir").unwrap(), Some(MAX_INFO_VAL - 1));
    let mut locked = info.clone();
    assert_eq!(class(locked.set(b"host", b"h")), ErrorClass::ERR_INFO);
    assert_eq!(class(locked.delete(b"argv")), ErrorClass::ERR_INFO);
    let mut copy = info.dup();
    copy.set(b"host", b"h").unwrap();
    assert_eq!(copy.get_str("host"), Some("h"));
    assert_eq!(Environment::default().info().nkeys(), 0);
}
