// interface: rust
// settings: FARPOST_PORTALS=generic | FARPOST_PORTALS=accelerated
//! A sample sort without MPI: Portals in Rust. Every process draws numbers and sorts them; samples, put into everybody's table, cut
//! the numbers into as many ranges as there are processes; who owns a range gets its parts from all others.
//!
//! `cargo build -p farpost-node --example portals_sort && mpiexec -n 4 target/debug/examples/portals_sort`

use std::time::Duration;

use farpost_node::{Node, NodeFabric};
use farpost_portals::library::Target;
use farpost_portals::{
    AckReq, AnyInterface, EventKind, Handle, Md, NetworkInterface, Position, ProcessId, Unlink, option,
};

const PORTAL: u32 = 0;
const NUMBERS: usize = 20_000;
const SAMPLES: usize = 64;

/// What match entries tell apart.
const TABLE_OF_SAMPLES: u64 = 1;
const TABLE_OF_PARTS: u64 = 2;
const SORTED: u64 = 3;
const RESULTS: u64 = 4;

struct Sort {
    ni: AnyInterface<NodeFabric>,
    ids: Vec<ProcessId>,
    rank: usize,
}

fn words<T>(result: Result<T, farpost_portals::Error>, what: &str) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {error}"))
}

impl Sort {
    fn describe(&self, memory: &mut [u64], options: u32, eq: Handle) -> Md {
        let options = options | option::MANAGE_REMOTE | option::EVENT_START_DISABLE;
        Md::of(memory, options, eq)
    }

    /// Lets others put into or get from `memory`, and counts in a queue of its own.
    fn expose(&self, bits: u64, memory: &mut [u64], options: u32) -> Result<Handle, String> {
        let eq = words(self.ni.eq_alloc(4 * self.ids.len() as u32, None), "PtlEQAlloc")?;
        let me = self
            .ni
            .me_attach(PORTAL, ProcessId::ANY, (bits, 0), Unlink::Retain, Position::After);
        let (me, md) = (words(me, "PtlMEAttach")?, self.describe(memory, options, eq));
        // SAFETY: the memory lives in `main` until the interface is closed, and is used by nobody before its events have come.
        let made = unsafe { self.ni.md_attach(me, md, None, Unlink::Retain) };
        words(made, "PtlMDAttach").map(|_| eq)
    }

    fn bind(&self, memory: &mut [u64]) -> Result<(Handle, Handle), String> {
        let eq = words(self.ni.eq_alloc(4 * self.ids.len() as u32, None), "PtlEQAlloc")?;
        // SAFETY: as in `expose`.
        let made = unsafe {
            self.ni
                .md_bind(self.describe(memory, 0, eq), None, Unlink::Retain)
        };
        Ok((words(made, "PtlMDBind")?, eq))
    }

    fn target(&self, to: usize, match_bits: u64, offset: usize) -> Target {
        Target {
            id: self.ids[to],
            pt_index: PORTAL,
            ac_index: 0,
            match_bits,
            offset: 8 * offset as u64,
        }
    }

    /// Until so many events of a kind have come.
    fn count(&self, eq: Handle, kind: EventKind, count: usize) -> Result<(), String> {
        for _ in 0..count {
            let taken = words(self.ni.eq_wait(eq), "PtlEQWait")?;
            if taken.dropped || taken.event.kind != kind || taken.event.ni_fail_type.0 != 0 {
                return Err(format!("process {}: an unexpected {:?}", self.rank, taken.event));
            }
        }
        Ok(())
    }

    /// Puts `values` into the tables of some, at this process's place.
    fn tell(
        &self,
        to: &[usize],
        bits: u64,
        values: &mut [u64],
        each: impl Fn(usize) -> (usize, usize),
    ) -> Result<(), String> {
        let width = each(0).1;
        let (md, sent) = self.bind(values)?;
        for &to in to {
            let (from, len) = each(to);
            let region = (8 * from as u64, 8 * len as u64);
            let target = self.target(to, bits, self.rank * width);
            words(
                self.ni.put_region(md, region, AckReq::NoAck, &target, 0),
                "PtlPutRegion",
            )?;
        }
        self.count(sent, EventKind::SendEnd, to.len())
    }
}

/// Numbers of a process, different in every one.
fn draw(rank: usize) -> Vec<u64> {
    let mut state = 0x2545_f491_4f6c_dd1d ^ (rank as u64 + 1);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    std::iter::repeat_with(next).take(NUMBERS).collect()
}

fn main() -> Result<(), String> {
    let node = Node::join()?;
    let ni = node.portals(None)?;
    let (rank, size) = (node.job.rank() as usize, node.job.size() as usize);
    let processes = ni.processes();
    let ids = (0..size as u32).filter_map(|rank| Some(processes.identity(rank)?.id));
    let sort = Sort {
        ids: ids.collect(),
        rank,
        ni,
    };

    let mut numbers = draw(rank);
    numbers.sort_unstable();
    let mut samples = vec![0; SAMPLES * size];
    let mut parts = vec![0; 2 * size];
    let mut results = vec![0; 4 * size];
    let sampled = sort.expose(TABLE_OF_SAMPLES, &mut samples, option::OP_PUT)?;
    let cut = sort.expose(TABLE_OF_PARTS, &mut parts, option::OP_PUT)?;
    let fetched = sort.expose(SORTED, &mut numbers, option::OP_GET)?;
    let ended = sort.expose(RESULTS, &mut results, option::OP_PUT)?;
    node.job.fence().map_err(|error| error.to_string())?;

    let everybody: Vec<usize> = (0..size).collect();
    let mut own: Vec<u64> = (0..SAMPLES).map(|n| numbers[n * NUMBERS / SAMPLES]).collect();
    sort.tell(&everybody, TABLE_OF_SAMPLES, &mut own, |_| (0, SAMPLES))?;
    sort.count(sampled, EventKind::PutEnd, size)?;
    samples.sort_unstable();

    // Where each one's range begins and how long it is here.
    let begin = |of: usize| match of {
        0 => 0,
        of if of == size => NUMBERS,
        of => numbers.partition_point(|number| *number < samples[of * SAMPLES]),
    };
    let mut ranges: Vec<u64> = everybody
        .iter()
        .flat_map(|of| [begin(*of) as u64, (begin(of + 1) - begin(*of)) as u64])
        .collect();
    sort.tell(&everybody, TABLE_OF_PARTS, &mut ranges, |to| (2 * to, 2))?;
    sort.count(cut, EventKind::PutEnd, size)?;

    let mut range = vec![0; parts.chunks(2).map(|part| part[1] as usize).sum()];
    let (md, came) = sort.bind(&mut range)?;
    let mut at = 0;
    for (from, part) in parts.chunks(2).enumerate() {
        let (offset, len) = (part[0] as usize, part[1]);
        let target = sort.target(from, SORTED, offset);
        words(sort.ni.get_region(md, (8 * at, 8 * len), &target), "PtlGetRegion")?;
        at += len;
    }
    sort.count(came, EventKind::ReplyEnd, size)?;
    sort.count(fetched, EventKind::GetEnd, size)?;
    range.sort_unstable();

    // Process 0 looks whether all is there and in order.
    let xor = range.iter().fold(0, |all, number| all ^ number);
    let ends = (range.first(), range.last());
    let mut result = [
        range.len() as u64,
        xor,
        ends.0.copied().unwrap_or(u64::MAX),
        ends.1.copied().unwrap_or(0),
    ];
    sort.tell(&[0], RESULTS, &mut result, |_| (0, 4))?;
    println!("process {rank} has {} numbers", range.len());
    if rank == 0 {
        sort.count(ended, EventKind::PutEnd, size)?;
        let all = (0..size)
            .flat_map(draw)
            .fold((0, 0), |(n, x), number| (n + 1, x ^ number));
        let sum = results
            .chunks(4)
            .fold((0, 0), |(n, x), result| (n + result[0], x ^ result[1]));
        let filled: Vec<&[u64]> = results.chunks(4).filter(|result| result[0] > 0).collect();
        if all != sum || filled.windows(2).any(|two| two[0][3] > two[1][2]) {
            return Err(format!("the numbers are not sorted: {results:?}"));
        }
        println!("{} numbers are sorted", sum.0);
    }
    if !sort.ni.close(Duration::from_secs(10)) {
        return Err("not everything that was sent has arrived".into());
    }
    Ok(())
}
