// interface: rust
//! Remote shared memory in Rust and without MPI: process 0 exports a table with a line for each process; the others put
//! theirs and signal, and process 0 prints the table when all have.
//!
//! `cargo build -p farpost-node --example rsm_signal && mpiexec -n 4 target/debug/examples/rsm_signal`

use std::rc::Rc;

use farpost_fabric::LocalMemory;
use farpost_node::{Node, NodeFabric};
use farpost_rsm::{Accumulate, Code, Controller, Identity, Perm, Result, Rsm, RsmError, RsmTunables};

const TABLE: u32 = 0x50_0000;
const LINE: usize = 64;

/// A controller of this process that reaches `node`.
fn controller_to(rsm: &Rsm<NodeFabric>, node: u32) -> Controller {
    let mut all = rsm.controllers().into_iter().rev();
    all.find(|controller| rsm.reaches(*controller, node))
        .unwrap_or(Controller::Loopback)
}

/// The table, on every controller by which others come.
fn collect(rsm: &Rsm<NodeFabric>) -> Result<()> {
    let len = rsm.nodes() as usize * LINE;
    let memory = rsm.memory(len)?;
    let mut exports = Vec::new();
    let mut controllers: Vec<_> = (1..rsm.nodes()).map(|node| controller_to(rsm, node)).collect();
    controllers.dedup();
    for (number, controller) in controllers.into_iter().enumerate() {
        let export = rsm.export(controller, &memory, len, Perm::RDWR)?;
        export.publish(TABLE + number as u32, &[])?;
        exports.push(export);
    }
    let mut missing = rsm.nodes() - 1;
    while missing > 0 {
        let signalled = rsm.wait_until(None, || {
            let one = exports.iter().map(|export| export.try_wait());
            one.into_iter().find(|taken| *taken != Ok(false))
        });
        signalled??;
        missing -= 1;
    }
    for node in 1..rsm.nodes() as usize {
        let mut text = [0; LINE];
        memory.local().read(node * LINE, &mut text);
        println!("{}", String::from_utf8_lossy(&text).trim_end());
    }
    Ok(())
}

fn report(rsm: &Rsm<NodeFabric>) -> Result<()> {
    // Neighbours and others come by different controllers, under identifiers that follow each other.
    let import = loop {
        let found =
            (TABLE..TABLE + 8).find_map(|id| match rsm.connect(controller_to(rsm, 0), 0, id, Perm::RDWR) {
                Err(error) if error.code == Code::SEG_NOT_PUBLISHED => None,
                other => Some(other),
            });
        if let Some(found) = found {
            break found?;
        }
    };
    let mut barrier = import.init_barrier()?;
    let line = format!("{:<LINE$}", format!("process {} was here", rsm.node()));
    import.put(rsm.node() as usize * LINE, line.as_bytes())?;
    import.post(Accumulate::Yes)?;
    import.destroy_barrier(&mut barrier)?;
    import.disconnect()
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let node = Node::join()?;
    let wait = &node.settings.wait;
    let identity = Identity::default();
    let rsm = Rsm::new(Rc::clone(&node.fabric), identity, &RsmTunables::default(), wait);
    let ran: std::result::Result<(), RsmError> = if rsm.node() == 0 {
        collect(&rsm)
    } else {
        report(&rsm)
    };
    Ok(ran?)
}
