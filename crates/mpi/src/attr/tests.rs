//! Keys, attributes, and what callbacks may do.
//!
//! Requirements of MPI-5.0 sections 7.7.2, 7.7.5, 9.1.2.

use super::*;
use crate::{Error, ErrorClass, Result};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const COMM: usize = 0xc0;

type Log = Rc<RefCell<Vec<(usize, i32, usize)>>>;

fn class<T: core::fmt::Debug>(result: Result<T>) -> ErrorClass {
    result.expect_err("an error was due").class
}

/// A delete function that notes its arguments, and fails while `broken` holds its key's value.
fn noting(log: &Log, broken: &Rc<Cell<Option<usize>>>) -> DeleteFn {
    let (log, broken) = (log.clone(), broken.clone());
    DeleteFn::User(Rc::new(move |handle, id, value| {
        log.borrow_mut().push((handle, id, value));
        if broken.get() == Some(value) {
            Err(16)
        } else {
            Ok(())
        }
    }))
}

#[derive(Clone, Debug)]
enum Step {
    Set(usize, usize),
    Delete(usize),
    DeleteAll,
    Break(Option<usize>),
    Dup,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0usize..6, 0usize..8).prop_map(|(k, v)| Step::Set(k, v)),
        2 => (0usize..6).prop_map(Step::Delete),
        1 => Just(Step::DeleteAll),
        1 => proptest::option::of(0usize..8).prop_map(Step::Break),
        1 => Just(Step::Dup),
    ]
}

proptest! {
    /// Keys 0, 1: not copied. 2, 3: same value. 4, 5: plus 100, but odd values are not copied.
    #[test]
    fn protocol(steps in proptest::collection::vec(step(), 0..60)) {
        let keyvals = Keyvals::new();
        let log = Log::default();
        let broken = Rc::new(Cell::new(None));
        let keys: Vec<Rc<Keyval>> = (0..6)
            .map(|k| {
                let copy = match k / 2 {
                    0 => CopyFn::Null,
                    1 => CopyFn::Dup,
                    _ => CopyFn::User(Rc::new(|handle, _, value| {
                        assert_eq!(handle, COMM);
                        Ok((value % 2 == 0).then_some(value + 100))
                    })),
                };
                let delete = if k == 5 { DeleteFn::Null } else { noting(&log, &broken) };
                let id = keyvals.create(ObjectKind::Comm, copy, delete).unwrap();
                keyvals.find(ObjectKind::Comm, id).unwrap()
            })
            .collect();
        let set = AttrSet::new();
        let mut model: Vec<(usize, usize)> = Vec::new();
        for step in steps {
            // (key, value) in the order their delete callbacks must run.
            let mut doomed = Vec::new();
            let (result, add) = match step {
                Step::Set(k, v) => {
                    doomed.extend(model.iter().copied().find(|e| e.0 == k));
                    (set.set(COMM, &keys[k], v), Some((k, v)))
                }
                Step::Delete(k) => {
                    doomed.extend(model.iter().copied().find(|e| e.0 == k));
                    (set.delete(COMM, &keys[k]), None)
                }
                Step::DeleteAll => {
                    doomed.extend(model.iter().rev().copied());
                    (set.delete_all(COMM), None)
                }
                Step::Break(value) => {
                    broken.set(value);
                    (Ok(()), None)
                }
                Step::Dup => {
                    let new = AttrSet::new();
                    set.copy_into(COMM, &new).unwrap();
                    let copies: Vec<_> =
                        new.snapshot().iter().map(|a| (a.keyval.id() - keys[0].id(), a.value)).collect();
                    let expected: Vec<_> = model
                        .iter()
                        .filter(|(k, v)| k / 2 == 1 || k / 2 == 2 && v % 2 == 0)
                        .map(|(k, v)| (*k as i32, if k / 2 == 2 { v + 100 } else { *v }))
                        .collect();
                    prop_assert_eq!(copies, expected);
                    (Ok(()), None)
                }
            };
            let mut expected_log = Vec::new();
            let mut fails = false;
            for (k, v) in doomed {
                if k != 5 {
                    expected_log.push((COMM, keys[k].id(), v));
                }
                fails = k != 5 && broken.get() == Some(v);
                if fails {
                    break;
                }
                model.retain(|e| e.0 != k);
            }
            model.extend(add.filter(|_| !fails));
            prop_assert_eq!(log.take(), expected_log);
            prop_assert_eq!(result.map_err(|e| e.class), if fails { Err(ErrorClass::ERR_OTHER) } else { Ok(()) });
            prop_assert_eq!(set.len(), model.len());
            for (k, key) in keys.iter().enumerate() {
                let expected = model.iter().find(|e| e.0 == k).map(|e| e.1);
                prop_assert_eq!(set.get(key), expected);
            }
        }
    }
}

fn plain_key(keyvals: &Keyvals, kind: ObjectKind) -> i32 {
    keyvals.create(kind, CopyFn::Null, DeleteFn::Null).unwrap()
}

#[test]
fn freed_invalid_and_foreign_keys_are_told_apart() {
    let keyvals = Keyvals::new();
    let id = plain_key(&keyvals, ObjectKind::Comm);
    let text = |kind, id| keyvals.find(kind, id).unwrap_err().message;
    assert!(id > 605);
    assert_eq!(
        text(ObjectKind::Win, id),
        format!("keyval={id}: created for communicators, not for windows")
    );
    assert_eq!(class(keyvals.free(ObjectKind::Type, id)), ErrorClass::ERR_KEYVAL);
    keyvals.free(ObjectKind::Comm, id).unwrap();
    assert_eq!(class(keyvals.free(ObjectKind::Comm, id)), ErrorClass::ERR_KEYVAL);
    assert_eq!(text(ObjectKind::Comm, id), format!("keyval={id}: freed before"));
    assert_eq!(text(ObjectKind::Comm, 0), "keyval=0: this is MPI_KEYVAL_INVALID");
    assert_eq!(
        text(ObjectKind::Comm, 501),
        "keyval=501: MPI_TAG_UB is predefined; it cannot be set, deleted or freed"
    );
    for garbage in [-1, 1, i32::MAX, i32::MIN, id + 1] {
        assert_eq!(
            class(keyvals.find(ObjectKind::Comm, garbage)),
            ErrorClass::ERR_KEYVAL
        );
    }
    assert_ne!(
        plain_key(&keyvals, ObjectKind::Comm),
        id,
        "numbers are not used twice"
    );
}

#[test]
fn a_freed_key_serves_until_its_last_attribute_is_gone() {
    let keyvals = Keyvals::new();
    let log = Log::default();
    let delete = noting(&log, &Rc::default());
    let id = keyvals.create(ObjectKind::Comm, CopyFn::Dup, delete).unwrap();
    let (old, new) = (AttrSet::new(), AttrSet::new());
    old.set(COMM, &keyvals.find(ObjectKind::Comm, id).unwrap(), 7)
        .unwrap();
    keyvals.free(ObjectKind::Comm, id).unwrap();
    let copied = keyvals.find(ObjectKind::Comm, id).expect("an attribute has it");
    assert_eq!(old.get(&copied), Some(7));
    drop(copied);
    assert_eq!(class(keyvals.find(ObjectKind::Win, id)), ErrorClass::ERR_KEYVAL);
    old.copy_into(COMM, &new).unwrap();
    old.delete(COMM, &keyvals.find(ObjectKind::Comm, id).unwrap())
        .unwrap();
    keyvals
        .free(ObjectKind::Comm, id)
        .expect("the copy still has the key");
    new.delete_all(0xd0).unwrap();
    assert_eq!(class(keyvals.find(ObjectKind::Comm, id)), ErrorClass::ERR_KEYVAL);
    assert_eq!(log.take(), [(COMM, id, 7), (0xd0, id, 7)]);
    assert_eq!(class(keyvals.free(ObjectKind::Comm, id)), ErrorClass::ERR_KEYVAL);
}

/// Callbacks that read, set and delete attributes of the object they are called for.
#[test]
fn callbacks_may_come_back() {
    struct World {
        keyvals: Keyvals,
        set: AttrSet,
        other: Cell<i32>,
    }
    let world = Rc::new(World {
        keyvals: Keyvals::new(),
        set: AttrSet::new(),
        other: Cell::new(0),
    });
    let find = |w: &World, id| w.keyvals.find(ObjectKind::Comm, id).unwrap();
    let seen = Rc::new(Cell::new(None));
    let (inner, seen2) = (Rc::downgrade(&world), seen.clone());
    let delete = DeleteFn::User(Rc::new(move |handle, id, value| {
        let w = inner.upgrade().unwrap();
        let own = w.keyvals.find(ObjectKind::Comm, id).unwrap();
        seen2.set(w.set.get(&own));
        assert_eq!(
            w.set.get(&own),
            Some(value),
            "visible while its delete callback runs"
        );
        let other = w.keyvals.find(ObjectKind::Comm, w.other.get()).unwrap();
        w.set.delete(handle, &other).unwrap();
        w.set.set(handle, &other, value + 1).unwrap();
        w.keyvals.free(ObjectKind::Comm, id).unwrap();
        Ok(())
    }));
    let inner = Rc::downgrade(&world);
    let copy = CopyFn::User(Rc::new(move |_, _, value| {
        let w = inner.upgrade().unwrap();
        let other = w.keyvals.find(ObjectKind::Comm, w.other.get()).unwrap();
        w.set.set(COMM, &other, 1).unwrap();
        Ok(Some(value))
    }));
    let id = world.keyvals.create(ObjectKind::Comm, copy, delete).unwrap();
    world.other.set(plain_key(&world.keyvals, ObjectKind::Comm));
    world.set.set(COMM, &find(&world, id), 5).unwrap();
    let new = AttrSet::new();
    world.set.copy_into(COMM, &new).unwrap();
    assert_eq!(new.len(), 1, "what a copy callback sets meanwhile is not copied");
    assert_eq!(world.set.len(), 2);
    world.set.delete_all(COMM).unwrap();
    assert_eq!(seen.get(), Some(5));
    assert!(
        world.set.is_empty(),
        "what a delete callback sets meanwhile goes too"
    );
}

#[test]
fn a_failing_copy_stops_and_keeps_what_was_copied() {
    let keyvals = Keyvals::new();
    let key = |copy| {
        let id = keyvals.create(ObjectKind::Type, copy, DeleteFn::Null).unwrap();
        keyvals.find(ObjectKind::Type, id).unwrap()
    };
    for (code, expected) in [
        (6, ErrorClass::ERR_RANK),
        (6 | 3 << 7, ErrorClass::ERR_RANK),
        (0x4001, ErrorClass(0x4001)),
        (-1, ErrorClass::ERR_OTHER),
        (127, ErrorClass::ERR_OTHER),
    ] {
        let (old, new) = (AttrSet::new(), AttrSet::new());
        for copy in [
            CopyFn::Dup,
            CopyFn::User(Rc::new(move |_, _, _| Err(code))),
            CopyFn::Dup,
        ] {
            old.set(COMM, &key(copy), 1).unwrap();
        }
        let error: Error = old.copy_into(COMM, &new).unwrap_err();
        assert_eq!(error.class, expected);
        assert!(
            error.message.contains(&format!("returned error code {code}")),
            "{error}"
        );
        assert_eq!(new.len(), 1);
        assert_eq!(old.len(), 3);
    }
}

#[test]
fn predefined_values() {
    let attributes = CommAttributes::default();
    assert_eq!(attributes.get(CommKey::TagUb), Some(i32::MAX));
    assert!(attributes.cell(CommKey::Appnum).is_none());
    attributes.set(CommKey::Appnum, Some(0));
    assert_eq!(attributes.cell(CommKey::Appnum).map(Cell::get), Some(0));
    attributes.set(CommKey::LastUsedCode, Some(0x4005));
    assert_eq!(
        attributes.cell(CommKey::LastUsedCode).map(Cell::get),
        Some(0x4005)
    );
    let ids: Vec<i32> = CommKey::ALL.iter().map(|key| *key as i32).collect();
    assert_eq!(ids, (501..=507).collect::<Vec<_>>());
    assert_eq!(WinKey::of(605), Some(WinKey::Model));
    assert_eq!(CommKey::of(508), None);
}
