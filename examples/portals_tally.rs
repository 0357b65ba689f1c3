// interface: rust
// ranks: 1
//! A tally beside jobs, in Rust, on the interface of the host: a service at a pid that its clients know adds up what processes of any job, or of
//! none, send it, and tells each the sum so far. Whose job a number is from is the host's word.
//!
//! `portals_tally serve 20 3 & portals_tally add 20 5; mpiexec -n 2 portals_tally add 20 7` (built by `cargo build -p farpost-node --example
//! portals_tally`)

use std::collections::BTreeSet;
use std::time::Duration;

use farpost_node::Node;
use farpost_portals::{
    ANY, AckReq, EventKind, Handle, Md, NetworkInterface, Position, ProcessId, Target, Unlink, option,
};

const REQUESTS: u32 = 1;
const ANSWERS: u32 = 2;
const PATIENCE: Duration = Duration::from_secs(30);

/// What this interface says by itself: that its agent does not answer.
fn say(words: &str) {
    eprintln!("portals_tally: {words}");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (what, pid, number) = match &arguments[..] {
        [what, pid, number] if what == "serve" || what == "add" => {
            (what, pid.parse()?, number.parse::<u64>()?)
        }
        _ => {
            println!("portals_tally serve PID REQUESTS, or add PID NUMBER");
            return Ok(());
        }
    };
    let serves = what == "serve";
    let node = Node::join()?;
    let ni = node.portals_host(if serves { pid } else { ANY }, None, say);
    let ni = ni.map_err(|refusal| refusal.why)?;

    // Messages are their headers: nothing has memory.
    let came = ni.eq_alloc(64, None)?;
    let portal = if serves { REQUESTS } else { ANSWERS };
    let entry = ni.me_attach(portal, ProcessId::ANY, (0, 0), Unlink::Retain, Position::After)?;
    let takes = option::OP_PUT | option::MANAGE_REMOTE | option::EVENT_START_DISABLE;
    // SAFETY: no memory is described.
    let empty = unsafe {
        ni.md_attach(entry, Md::new(0, 0, takes, came), None, Unlink::Retain)?;
        ni.md_bind(Md::new(0, 0, 0, Handle::EQ_NONE), None, Unlink::Retain)?
    };
    let put = |id, pt_index, value| {
        let target = Target {
            id,
            pt_index,
            ac_index: 0,
            match_bits: 0,
            offset: 0,
        };
        ni.put(empty, AckReq::NoAck, &target, value)
    };
    let next = || loop {
        let (_, taken) = ni.eq_poll(&[came], Some(PATIENCE))?;
        if taken.event.kind == EventKind::PutEnd {
            return Ok::<_, farpost_portals::Error>(taken.event);
        }
    };

    if serves {
        println!("at {pid}");
        let (mut sum, mut jobs) = (0, BTreeSet::new());
        for _ in 0..number {
            let asked = next()?;
            sum += asked.hdr_data;
            jobs.insert(asked.jid);
            put(asked.initiator, ANSWERS, sum)?;
        }
        println!("{number} numbers of {} jobs, together {sum}", jobs.len());
    } else {
        put(ProcessId::new(0, pid), REQUESTS, number)?;
        println!("the sum is {} now", next()?.hdr_data);
    }
    ni.close(PATIENCE);
    Ok(())
}
