//! The exported names of the interfaces beside MPI, generated from `api/*.toml`, and the way into the library that they share.
use farpost_node::Node;
use farpost_simlink::shared_clock;

use crate::cx::{self, Cx, Guard};
use crate::forked;
use crate::lock;
use crate::roll;

/// What a call does in a forked child, as the tables say.
pub(crate) enum InChild {
    Ends,
    Nothing,
    Answers,
}

/// Enters the library and runs a body. A panic in it ends the job with a sentence instead of crossing into C.
#[inline(always)]
pub(crate) fn enter<T>(
    name: &'static str,
    (interface, function): (u16, u16),
    in_child: InChild,
    body: impl FnOnce(&'static Cx) -> T,
) -> T {
    if forked::may_be_child() {
        match in_child {
            InChild::Ends => forked::end(name, 1),
            // SAFETY: what C functions return here are numbers and pointers, for which zero is a value: success, or none.
            InChild::Nothing => return unsafe { core::mem::zeroed() },
            InChild::Answers => {}
        }
    }
    let _inside = lock::enter_threaded();
    roll::called_beside(interface, function);
    if shared_clock::runs() {
        watched(name);
    }
    // Dropped before the lock is let go: nobody sees what a panic left half done.
    let guard = Guard(name);
    let value = body(cx::process());
    roll::leaves();
    core::mem::forget(guard);
    value
}

#[cold]
fn watched(name: &'static str) {
    if let Some(link) = cx::process().node.get().and_then(Node::simulated) {
        link.enter(name);
    }
}

include!(concat!(env!("OUT_DIR"), "/beside.rs"));

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// Set in the process that is to fail.
    const PANIC: &str = "TEST_OF_A_PANIC";

    extern "C" fn entry() {
        super::enter("FM_test", (0, 0), super::InChild::Ends, |_| panic!("on purpose"));
    }

    #[test]
    fn a_panic_ends_the_job_with_a_sentence() {
        if std::env::var_os(PANIC).is_some() {
            entry();
            unreachable!("it must not come back");
        }
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "entry::beside::tests::a_panic_ends_the_job_with_a_sentence",
                "--nocapture",
            ])
            .env(PANIC, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("on purpose") && said.contains("FM_test: internal error of Farpost"),
            "{said}"
        );
    }
}
