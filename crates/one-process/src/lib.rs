//! All ranks of a program within its one process, as coroutines, on a simulated machine: what `farpost sim --one-process` loads before the program
//! (`LD_PRELOAD`).
//!
//! The program starts as ever, up to its `main` ([`entry`]). In its place runs the coordinator of `farpost sim` ([`run`]), which runs `main` as each rank on a
//! stack of its own ([`turns`]). What ranks write to variables is a rank's own ([`segments`]): when another rank runs, the bytes of the program's and its
//! libraries' variables are changed for that one's. Memory from `malloc`, stacks and mappings have addresses of their own and need nothing. What a process
//! has once and a rank is to have too is stood in for: its end and what it does then ([`ends`]), its environment ([`environment`]), what functions of the C
//! library keep between calls ([`keys`], [`numbers`], [`options`], [`stand_ins`], [`library_variables`]), how its processor rounds ([`floating`]). What ranks cannot have is refused
//! ([`refusals`]).
//!
//! Everything runs in one thread. Nothing here is on a program's way but for a call of the machine, which changes stacks twice and, if another rank has run
//! meanwhile, copies variables twice.

mod calls;
mod ends;
mod entry;
mod environment;
mod floating;
mod generators;
mod host;
mod keys;
mod library_variables;
mod modules;
mod numbers;
mod options;
mod paged;
mod program;
mod rank;
mod refusals;
mod run;
mod segments;
mod signals;
mod stand_ins;
mod surroundings;
mod turns;
