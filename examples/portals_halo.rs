// interface: rust
// ranks: 1 2 3
// settings: FARPOST_PORTALS=generic | FARPOST_PORTALS=accelerated
//! A halo exchange: heat on a rod, each process with a piece of it. The values at the ends go to the neighbours' ghost cells by put,
//! into one of two pairs of them in turn, and a process goes on when the events of its two puts have come.
//!
//! `cargo build -p farpost-node --example portals_halo && mpiexec -n 3 target/debug/examples/portals_halo`

use std::time::Duration;

use farpost_fabric::wait::WaitPolicy;
use farpost_node::Node;
use farpost_portals::library::Target;
use farpost_portals::{AckReq, Handle, Md, NetworkInterface, Position, ProcessId, Unlink, option};

const PORTAL: u32 = 2;
const CELLS: usize = 200;
const STEPS: u64 = 500;
const LEFT: usize = 0;
const RIGHT: usize = 1;

fn step(now: &[f64], next: &mut [f64], left: f64, right: f64) {
    for i in 0..now.len() {
        let before = if i == 0 { left } else { now[i - 1] };
        let after = now.get(i + 1).copied().unwrap_or(right);
        next[i] = now[i] + 0.25 * (before - 2.0 * now[i] + after);
    }
}

fn initial(cell: usize) -> f64 {
    if cell.is_multiple_of(37) { 100.0 } else { 1.0 }
}

fn describe(address: *mut f64, count: usize, options: u32, eq: Handle) -> Md {
    let length = (count * size_of::<f64>()) as u64;
    Md::new(
        address.expose_provenance(),
        length,
        options | option::EVENT_START_DISABLE,
        eq,
    )
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let node = Node::join()?;
    let ni = node.portals(None)?;
    let (rank, size) = (node.job.rank() as usize, node.job.size() as usize);
    let policy = WaitPolicy::of(&node.settings.wait, &*node.fabric);
    let meet = || {
        node.fence.wait(
            &*node.fabric,
            &policy,
            None,
            || ni.progress(),
            || Duration::from_millis(1),
        )
    };

    // ghosts[2 * turn + side], and the edges that are sent: memory that others write and the library reads, never freed.
    let ghosts: *mut f64 = Box::into_raw(Box::new([0.0; 4])).cast();
    let edges: *mut f64 = Box::into_raw(Box::new([0.0; 2])).cast();
    let (arrived, sent) = (ni.eq_alloc(16, None)?, ni.eq_alloc(16, None)?);
    for cell in 0..4 {
        // The match bits say which, so that neighbours write each its own.
        let bits = (cell as u64, 0);
        let me = ni.me_attach(PORTAL, ProcessId::ANY, bits, Unlink::Retain, Position::After)?;
        let md = describe(
            ghosts.wrapping_add(cell),
            1,
            option::OP_PUT | option::MANAGE_REMOTE,
            arrived,
        );
        // SAFETY: the memory stays; a ghost is read after its event and before the next put to it.
        unsafe { ni.md_attach(me, md, None, Unlink::Retain)? };
    }
    // SAFETY: the memory stays; edges are written when the puts before have left.
    let edge_md = unsafe { ni.md_bind(describe(edges, 2, 0, sent), None, Unlink::Retain)? };
    let processes = ni.processes();
    let id = |rank: usize| {
        processes
            .identity(rank as u32)
            .map(|who| who.id)
            .ok_or("no such process")
    };
    let neighbours = [id((rank + size - 1) % size)?, id((rank + 1) % size)?];
    meet()?;

    let mut rods = [vec![0.0; CELLS], vec![0.0; CELLS]];
    rods[0] = (0..CELLS).map(|i| initial(rank * CELLS + i)).collect();
    let mut early = 0;
    for n in 0..STEPS {
        let turn = (n % 2) as usize;
        let [even, odd] = &mut rods;
        let (now, next) = if turn == 0 { (even, odd) } else { (odd, even) };
        // SAFETY: ours; what was sent from there has left.
        unsafe { edges.cast::<[f64; 2]>().write([now[0], now[CELLS - 1]]) };
        for side in [LEFT, RIGHT] {
            // My left end is my left neighbour's right ghost.
            let target = Target {
                id: neighbours[side],
                pt_index: PORTAL,
                ac_index: 0,
                match_bits: (2 * turn + (1 - side)) as u64,
                offset: 0,
            };
            ni.put_region(edge_md, (8 * side as u64, 8), AckReq::NoAck, &target, n)?;
        }
        for _ in [LEFT, RIGHT] {
            ni.eq_wait(sent)?;
        }
        // A neighbour may be one step ahead, never two: it needs what this one sends in between.
        let mut here = std::mem::take(&mut early);
        while here < 2 {
            let of_now = ni.eq_wait(arrived)?.event.hdr_data == n;
            here += u32::from(of_now);
            early += u32::from(!of_now);
        }
        // SAFETY: both have come, and the next puts to them come after this process's next.
        let ghost = |side| unsafe { ghosts.add(2 * turn + side).read() };
        step(now, next, ghost(LEFT), ghost(RIGHT));
    }

    // The whole rod, computed here.
    let mut whole: Vec<f64> = (0..size * CELLS).map(initial).collect();
    let mut next = whole.clone();
    for _ in 0..STEPS {
        step(&whole, &mut next, whole[whole.len() - 1], whole[0]);
        std::mem::swap(&mut whole, &mut next);
    }
    let piece = &whole[rank * CELLS..][..CELLS];
    let rod = &rods[(STEPS % 2) as usize];
    let worst = rod
        .iter()
        .zip(piece)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f64::max);
    println!("process {rank}: {STEPS} steps, largest difference from one process {worst:e}");
    meet()?;
    if !ni.close(Duration::from_secs(10)) {
        return Err("not everything that was sent has arrived".into());
    }
    if worst >= 1e-9 {
        return Err("the rod is another than one process computes".into());
    }
    Ok(())
}
