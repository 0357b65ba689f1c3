use super::*;
use crate::ErrorClass;

#[test]
fn process_sets_have_names() {
    for n in 0..ProcessSet::count() {
        let name = ProcessSet::nth_name(n as i32).unwrap();
        assert_eq!(ProcessSet::named(name.as_bytes()).unwrap(), ProcessSet::ALL[n]);
    }
    assert_eq!(ProcessSet::named(b"mpi://self").unwrap(), ProcessSet::Own);
    for n in [-1, ProcessSet::count() as i32] {
        let error = ProcessSet::nth_name(n).unwrap_err();
        assert!(error.class == ErrorClass::ERR_ARG && error.message.contains(&format!("n={n}")));
    }
    for name in ["", "mpi://WORL", "WORLD", "mpi://WORLDS"] {
        let error = ProcessSet::named(name.as_bytes()).unwrap_err();
        assert!(error.class == ErrorClass::ERR_ARG && error.message.contains(name));
    }
}

#[test]
fn what_is_of_different_sessions_is_not_mixed() {
    assert!(need_same(["a", "b"], [0, 0]).is_ok());
    assert!(need_same(["a", "b"], [5, 5]).is_ok());
    for sessions in [[0, 5], [5, 6]] {
        let error = need_same(["comm", "group"], sessions).unwrap_err();
        assert_eq!(error.class, ErrorClass::ERR_SESSION);
        assert!(error.message.contains("comm is of") && error.message.contains("session 0x5"));
    }
}
