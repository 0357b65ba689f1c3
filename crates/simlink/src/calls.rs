//! What the program calls, as its machine hears of it: whether it goes on, or looks again and again for what does not come.

use std::cell::Cell;

/// Calls that have only looked, after which the machine is told in any case.
const UNTOLD: u32 = 4096;

/// The program's calls of functions of interfaces.
#[derive(Default)]
pub(crate) struct Calls {
    /// The last one.
    name: Cell<&'static str>,
    /// It has looked at the machine.
    looked: Cell<bool>,
    /// Calls before it that had looked, since the machine was last told; and the last of them.
    polls: Cell<(u32, &'static str)>,
}

impl Calls {
    /// The program calls this function. True: it is time to tell the machine.
    pub fn begin(&self, name: &'static str) -> bool {
        let before = self.name.replace(name);
        if self.looked.replace(false) {
            self.polls.set((self.polls.get().0 + 1, before));
        }
        self.polls.get().0 >= UNTOLD
    }

    /// The call looks at the machine.
    pub fn looks(&self) {
        self.looked.set(true);
    }

    /// Calls that have looked and ended, and the name of the last; without any, of that which the program is in.
    pub fn take(&self) -> (u32, &'static str) {
        match self.polls.take() {
            (0, _) => (0, self.name.get()),
            polls => polls,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_look_are_counted_when_they_have_ended() {
        let calls = Calls::default();
        assert!(!calls.begin("MPI_Recv"));
        calls.looks();
        assert_eq!(calls.take(), (0, "MPI_Recv"), "it may wait for long");
        calls.looks();
        calls.begin("MPI_Comm_rank");
        calls.begin("MPI_Test");
        calls.looks();
        assert_eq!(calls.take(), (1, "MPI_Recv"));
        calls.looks();
        calls.looks();
        calls.begin("MPI_Iprobe");
        assert_eq!(calls.take(), (1, "MPI_Test"));
        assert_eq!(calls.take(), (0, "MPI_Iprobe"));
    }

    #[test]
    fn who_looks_without_questions_tells_now_and_then() {
        let calls = Calls::default();
        let mut told = 0;
        for _ in 0..3 * UNTOLD {
            if calls.begin("JAM_poll") {
                assert_eq!(calls.take(), (UNTOLD, "JAM_poll"));
                told += 1;
            }
            calls.looks();
        }
        assert_eq!(told, 2);
        (0..2 * UNTOLD).for_each(|_| assert!(!Calls::default().begin("MPI_Type_size")));
    }
}
