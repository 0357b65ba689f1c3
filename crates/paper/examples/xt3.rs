use farpost_paper::{Committed, xt3};
use farpost_sim::machine::Machine;
fn main() {
    let c = Committed::built_in();
    for row in xt3::rows_on(&Machine::open("xt3").unwrap(), xt3::MPICH2) {
        println!("{:14} {:45} {:?} {:.4} err {:.4} {}", row.id, row.what, row.expected, row.simulated, row.error(), row.verdict(c.error(&row.id)));
    }
}
