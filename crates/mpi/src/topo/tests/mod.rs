//! Topology arithmetic against definitions.

mod cart;
mod dims;
mod graphs;

use super::*;
use crate::ErrorClass;

fn class<T: core::fmt::Debug>(result: Result<T>) -> ErrorClass {
    result.expect_err("an error was due").class
}
