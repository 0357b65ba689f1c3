//! The code scheme, and the user's classes, codes and strings.
//!
//! Requirements of MPI-5.0 sections 9.4, 9.5.

use super::*;
use proptest::prelude::*;

fn rank_error(dest: i32) -> Error {
    Error::new(
        ErrorClass::ERR_RANK,
        format!("dest={dest}: MPI_COMM_WORLD has ranks 0 to 1"),
    )
}

fn refused<T: core::fmt::Debug>(result: Result<T>) -> bool {
    result.is_err_and(|error| error.class == ErrorClass::ERR_ARG)
}

#[test]
fn a_code_tells_the_sentence() {
    let codes = ErrorCodes::new();
    let code = codes.code("MPI_Send", &rank_error(7));
    assert_eq!(codes.class_of(code), Ok(ErrorClass::ERR_RANK));
    assert_eq!(
        codes.string(code).unwrap(),
        "MPI_ERR_RANK: MPI_Send: dest=7: MPI_COMM_WORLD has ranks 0 to 1"
    );
}

#[test]
fn every_class_is_a_code_with_a_sentence() {
    let codes = ErrorCodes::new();
    for (class, name) in ErrorClass::ALL {
        assert_eq!(codes.class_of(class.0), Ok(*class));
        let text = codes.string(class.0).unwrap();
        let sentence = text.strip_prefix(name).and_then(|rest| rest.strip_prefix(": "));
        assert!(sentence.is_some_and(|s| s.len() > 5 && s != "error"), "{text}");
    }
    let code = codes.code(
        "MPI_T_cvar_write",
        &Error::new(ErrorClass::T_ERR_CVAR_SET_NEVER, "x"),
    );
    assert_eq!(code, 1015);
}

proptest! {
    /// Any series of errors: codes stay in range, tell their class for ever and their sentence for 127 errors.
    #[test]
    fn the_last_127_sentences_are_kept(series in proptest::collection::vec(1i32..=62, 1..400)) {
        let codes = ErrorCodes::new();
        let made: Vec<(i32, i32, String)> = series
            .iter()
            .enumerate()
            .map(|(i, class)| {
                let error = Error::new(ErrorClass(*class), format!("n={i}"));
                (codes.code("MPI_X", &error), *class, format!("MPI_X: n={i}"))
            })
            .collect();
        for (age, (code, class, sentence)) in made.iter().rev().enumerate() {
            prop_assert!((1..=LASTCODE).contains(code));
            prop_assert_eq!(codes.class_of(*code), Ok(ErrorClass(*class)));
            if age < 127 {
                prop_assert!(codes.string(*code).unwrap().ends_with(sentence.as_str()));
            }
        }
    }

    #[test]
    fn any_number_is_a_code_or_refused(code in prop_oneof![any::<i32>(), 0..0x8000i32]) {
        let codes = ErrorCodes::new();
        match codes.class_of(code) {
            Ok(class) => {
                prop_assert!(class.name().is_some());
                prop_assert!(codes.string(code).unwrap().starts_with(class.name().unwrap()));
            }
            Err(error) => {
                prop_assert_eq!(error.class, ErrorClass::ERR_ARG);
                prop_assert!(codes.string(code).is_err());
            }
        }
    }

    #[test]
    fn strings_fit(length in 0usize..1500, wide in any::<bool>()) {
        let text: String = core::iter::repeat_n(if wide { 'é' } else { 'e' }, length).collect();
        let codes = ErrorCodes::new();
        let code = codes.code("MPI_X", &Error::new(ErrorClass::ERR_ARG, text.clone()));
        prop_assert!(codes.string(code).unwrap().len() < MAX_ERROR_STRING);
        let class = codes.add_class().unwrap();
        codes.add_string(class.0, &text).unwrap();
        prop_assert!(codes.string(class.0).unwrap().len() < MAX_ERROR_STRING);
    }
}

#[test]
fn a_forgotten_sentence_falls_back_to_its_class() {
    let codes = ErrorCodes::new();
    let old = codes.code("MPI_Send", &rank_error(7));
    for _ in 0..127 {
        codes.code("MPI_Send", &Error::new(ErrorClass::ERR_TAG, "tag=-5: no"));
    }
    assert_eq!(codes.class_of(old), Ok(ErrorClass::ERR_RANK));
    assert_eq!(codes.string(old), codes.string(ErrorClass::ERR_RANK.0));
}

#[test]
fn the_users_own() {
    let codes = ErrorCodes::new();
    assert_eq!(codes.last_used(), LASTCODE);
    let class = codes.add_class().unwrap();
    assert!(class.0 > LASTCODE);
    assert_eq!(codes.last_used(), class.0);
    assert_eq!(codes.string(class.0).unwrap(), "");
    let code = codes.add_code(class.0).unwrap();
    assert_eq!(codes.last_used(), code);
    assert_eq!(codes.class_of(code), Ok(class));
    assert_eq!(codes.class_of(class.0), Ok(class));
    codes.add_string(code, "text").unwrap();
    assert_eq!(codes.string(code).unwrap(), "text");
    // An error that carries a user's code leaves the library as that code.
    assert_eq!(
        codes.code("MPI_Comm_dup", &Error::new(ErrorClass(code), "")),
        code
    );

    assert!(refused(codes.remove_class(class.0)), "it has a code");
    assert!(refused(codes.remove_code(code)), "it has a string");
    codes.remove_string(code).unwrap();
    assert!(refused(codes.remove_string(code)), "removed twice");
    assert_eq!(codes.string(code).unwrap(), "");
    codes.remove_code(code).unwrap();
    assert!(refused(codes.remove_code(code)), "removed twice");
    assert!(refused(codes.class_of(code)), "removed");
    codes.add_string(class.0, "class").unwrap();
    assert!(refused(codes.remove_class(class.0)), "it has a string");
    codes.remove_string(class.0).unwrap();
    codes.remove_class(class.0).unwrap();
    assert!(refused(codes.remove_class(class.0)), "removed twice");
    let next = codes.add_class().unwrap();
    assert!(next.0 > code, "numbers are not used twice");
}

#[test]
fn only_the_users_own_can_be_changed() {
    let codes = ErrorCodes::new();
    let code = codes.add_code(ErrorClass::ERR_OTHER.0).unwrap();
    assert_eq!(codes.class_of(code), Ok(ErrorClass::ERR_OTHER));
    assert!(refused(codes.add_code(code)), "a code is not a class");
    assert!(refused(codes.add_code(-1)));
    assert!(refused(codes.remove_class(code)));
    for number in [0, ErrorClass::ERR_RANK.0, LASTCODE, code + 1, -1] {
        assert!(refused(codes.add_string(number, "x")));
        assert!(refused(codes.remove_class(number)));
        assert!(refused(codes.remove_code(number)));
        assert!(refused(codes.remove_string(number)));
    }
}
