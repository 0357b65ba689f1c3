// interface: rust
// ranks: 1 2 4
// settings: FARPOST_PORTALS=generic | FARPOST_PORTALS=accelerated
//! A key-value store without servers: every process keeps a part of the buckets, and others read and change them by get, put and
//! get-put alone. Whoever swaps 0 for the 1 in a bucket's lock may change the bucket.
//!
//! `cargo build -p farpost-node --example portals_store && mpiexec -n 4 target/debug/examples/portals_store`

use std::time::Duration;

use farpost_fabric::wait::WaitPolicy;
use farpost_node::Node;
use farpost_portals::library::Target;
use farpost_portals::{
    AckReq, Error, EventKind, Handle, Md, NetworkInterface, Position, ProcessId, Unlink, option,
};

const PORTAL: u32 = 1;
const BUCKETS: usize = 64;
const ENTRIES: usize = 15;
const KEYS: u64 = 50;

/// A bucket, in words: lock (1: free), entries in use, then keys and values in turn.
const LOCK: usize = 0;
const USED: usize = 1;
const FIRST: usize = 2;
const WORDS: usize = FIRST + 2 * ENTRIES;

fn describe(memory: &mut [u64], options: u32, eq: Handle) -> Md {
    Md::of(memory, options | option::EVENT_START_DISABLE, eq)
}

/// Where a key's bucket is: owner and first word.
fn place_of(key: u64, size: usize) -> (usize, usize) {
    let hash = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
    (hash % size, hash / size % BUCKETS * WORDS)
}

fn find(bucket: &[u64; WORDS], key: u64) -> Option<usize> {
    let used = (bucket[USED] as usize).min(ENTRIES);
    (0..used).map(|n| FIRST + 2 * n).find(|at| bucket[*at] == key)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let node = Node::join()?;
    let ni = node.portals(None)?;
    let (rank, size) = (u64::from(node.job.rank()), node.job.size() as usize);
    let processes = ni.processes();
    let ids: Vec<ProcessId> = (0..size as u32)
        .filter_map(|rank| Some(processes.identity(rank)?.id))
        .collect();
    // All meet; what others ask of this process is answered meanwhile.
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

    let mine = vec![0; BUCKETS * WORDS].leak();
    mine.iter_mut().step_by(WORDS).for_each(|lock| *lock = 1);
    // Written by replies and read for puts: only by way of their addresses.
    let (mut copy, mut word, mut old) = (Box::new([0; WORDS]), Box::new([0]), Box::new([0]));
    let eq = ni.eq_alloc(64, None)?;
    let open = option::OP_PUT | option::OP_GET | option::MANAGE_REMOTE;
    let me = ni.me_attach(PORTAL, ProcessId::ANY, (0, 0), Unlink::Retain, Position::After)?;
    let (here, there) = (
        describe(&mut copy[..], 0, eq),
        describe(mine, open, Handle::EQ_NONE),
    );
    let (give, take) = (
        describe(&mut word[..], 0, Handle::EQ_NONE),
        describe(&mut old[..], 0, eq),
    );
    let (copy, word, old) = (Box::into_raw(copy), Box::into_raw(word), Box::into_raw(old));
    // SAFETY: the memory lives until the end of the process, and is used here only before and after, not during, operations.
    let (copy_md, give_md, take_md) = unsafe {
        ni.md_attach(me, there, None, Unlink::Retain)?;
        let here = ni.md_bind(here, None, Unlink::Retain)?;
        (
            here,
            ni.md_bind(give, None, Unlink::Retain)?,
            ni.md_bind(take, None, Unlink::Retain)?,
        )
    };
    meet()?;

    let until = |kind: EventKind| -> Result<(), Error> {
        while ni.eq_wait(eq)?.event.kind != kind {}
        Ok(())
    };
    let target = |(owner, word): (usize, usize)| Target {
        id: ids[owner],
        pt_index: PORTAL,
        ac_index: 0,
        match_bits: 0,
        offset: 8 * word as u64,
    };
    let swap = |at, value: u64| -> Result<u64, Error> {
        // SAFETY: ours, and no operation is under way.
        unsafe { word.write([value]) };
        ni.get_put(take_md, give_md, &target(at), 0)?;
        until(EventKind::ReplyEnd)?;
        // SAFETY: the reply has come.
        Ok(unsafe { old.read() }[0])
    };
    let fetch = |at| -> Result<[u64; WORDS], Error> {
        ni.get(copy_md, &target(at))?;
        until(EventKind::ReplyEnd)?;
        // SAFETY: the reply has come.
        Ok(unsafe { copy.read() })
    };
    let set = |key, value| -> Result<(), Box<dyn std::error::Error>> {
        let at = place_of(key, size);
        while swap(at, 0)? != 1 {}
        let mut bucket = fetch(at)?;
        let n = find(&bucket, key).unwrap_or(FIRST + 2 * bucket[USED] as usize);
        if n >= WORDS {
            return Err("a bucket is full".into());
        }
        bucket[USED] = bucket[USED].max((n as u64 - 2) / 2 + 1);
        (bucket[n], bucket[n + 1]) = (key, value);
        // Everything behind the lock; it is there when the acknowledgement has come.
        // SAFETY: ours, and no operation is under way.
        unsafe { copy.write(bucket) };
        let behind = (8 * (LOCK as u64 + 1), 8 * (WORDS as u64 - 1));
        ni.put_region(copy_md, behind, AckReq::Ack, &target((at.0, at.1 + LOCK + 1)), 0)?;
        until(EventKind::Ack)?;
        swap(at, 1)?;
        Ok(())
    };
    let lookup = |key| -> Result<Option<u64>, Error> {
        let bucket = fetch(place_of(key, size))?;
        Ok(find(&bucket, key).map(|at| bucket[at + 1]))
    };

    // Everybody writes its own keys, and one that all write.
    for n in 0..KEYS {
        set(1_000_000 * (rank + 1) + n, 7 * n + rank)?;
        set(42, rank)?;
    }
    meet()?;
    // Everybody reads all.
    for of in 0..size as u64 {
        for n in 0..KEYS {
            let found = lookup(1_000_000 * (of + 1) + n)?;
            if found != Some(7 * n + of) {
                return Err(format!("process {rank}: key {n} of process {of} is {found:?}").into());
            }
        }
    }
    let (all, nobody) = (lookup(42)?, lookup(43)?);
    if all.is_none_or(|value| value >= size as u64) || nobody.is_some() {
        return Err(format!("process {rank}: the key of all is {all:?}, that of nobody {nobody:?}").into());
    }
    println!("process {rank} found {} keys", KEYS * size as u64);
    meet()?;
    if !ni.close(Duration::from_secs(10)) {
        return Err("not everything that was sent has arrived".into());
    }
    Ok(())
}
