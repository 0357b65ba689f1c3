//! `farpost`: the command for people.
fn main() {}
