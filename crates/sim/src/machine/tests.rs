use super::*;

#[test]
fn the_machines_that_come_with_farpost_are_right() {
    for name in Machine::names() {
        let machine = Machine::open(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(machine.name, name);
        println!("{:?}", machine.fitted());
    }
}
