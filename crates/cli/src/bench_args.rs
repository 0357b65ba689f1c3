//! What `farpost bench` understands.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Subcommand)]
pub enum Bench {
    /// Time of a message to and fro, at powers of two
    Pingpong(PingPong),
    /// NetPIPE: ping-pong at many sizes and around them, for curves
    Netpipe(PingPong),
    /// Messages per second with a window of them in flight
    Rate(Rate),
    /// Several pairs of ranks at once: what all carry together, and what each one gets
    Pairs(Pairs),
    /// Latency of one pair of ranks while others send
    Load(Load),
    /// Time and bandwidth of collective operations
    Collectives(Collectives),
    /// Wall time of starting and ending a job, and memory of an idle rank
    Startup(Startup),
    /// Time of the first messages after each of many starts without options, idle and beside busy strangers
    Start(Start),
    /// Calls that find nothing, in loops that work between them, with fewer and with more ranks than cores
    Poll(Poll),
    /// Start-up overhead, bandwidth and n_1/2 of every layer from the bare cache line to MPI
    Layers(Layers),
    /// LogP signatures (o_s, o_r, g, L) of Fast Messages, JAM and MPI
    Logp(Layers),
    /// Remote shared memory beside MPI and the bare cache line
    Rsm(Layers),
    /// Fast Messages beside MPI and the bare cache line
    Fm(Layers),
    /// JAM beside MPI and the bare cache line
    Jam(Layers),
    /// Portals put and get, as the NetPIPE module of the Cray XT3 paper measures them, beside MPI: ping-pong, streams, both ways
    Portals(Portals),
    /// The figures that the interfaces must reach, beside the bare cache line
    Interfaces(Layers),
    /// Multiplication of matrices with broadcasts (the StarT-X paper's Table 2), checked
    Matmul(Matmul),
    /// Work stealing over JAM's remote procedures: speed-up and steals, every result checked
    Cilk(Cilk),
    /// Draw the JSON results of several ping-pong, NetPIPE, rate or memory runs into one plot
    Plot(Plot),
}

/// Options every benchmark has.
#[derive(Args, Clone)]
pub struct Common {
    /// Trials per point; the median counts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub trials: Option<u32>,
    /// Write the result as JSON to FILE, or to standard output in place of the table for -
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a plot to FILE, which ends in .svg or .png; may be given twice
    #[arg(long, value_name = "FILE")]
    pub plot: Vec<PathBuf>,
}

/// Options of benchmarks that run as ranks of a job.
#[derive(Args, Clone)]
pub struct Ranks {
    /// Ranks to start when no launcher started this
    #[arg(long, short = 'n', value_name = "N", default_value = "2", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub ranks: u32,
    /// Milliseconds one trial should take; repetitions adapt to it
    #[arg(long, value_name = "MS", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub trial_ms: u32,
}

/// Options about message sizes.
#[derive(Args, Clone)]
pub struct Sizes {
    /// Exactly these sizes, e.g. 8,64k,1m
    #[arg(long, value_name = "LIST", conflicts_with_all = ["min", "max"])]
    pub sizes: Option<String>,
    /// Smallest size
    #[arg(long, value_name = "SIZE")]
    pub min: Option<String>,
    /// Largest size
    #[arg(long, value_name = "SIZE")]
    pub max: Option<String>,
}

#[derive(Args, Clone)]
pub struct PingPong {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub ranks: Ranks,
    #[command(flatten)]
    pub sizes: Sizes,
    /// Bytes more and less around each size (netpipe; 0: none)
    #[arg(long, value_name = "BYTES", default_value = "3", value_parser = clap::value_parser!(u32).range(0..=4096))]
    pub perturbation: u32,
    /// Both sides send at once
    #[arg(long)]
    pub bidirectional: bool,
}

#[derive(Args, Clone)]
pub struct Rate {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub ranks: Ranks,
    #[command(flatten)]
    pub sizes: Sizes,
    /// Messages in flight
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub window: u32,
    /// Both sides send at once
    #[arg(long)]
    pub bidirectional: bool,
}

#[derive(Args, Clone)]
pub struct Pairs {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub job: PairedRanks,
    #[command(flatten)]
    pub sizes: Sizes,
    /// Numbers of pairs at once (default: 1, 2, 4 and so on, and as many as the ranks make)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=2048))]
    pub pairs: Option<Vec<u32>>,
    /// Messages in flight in each pair
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub window: u32,
    /// Messages to and fro in place of streams, as in figure 5 of the Sun Fire Link paper
    #[arg(long)]
    pub pingpong: bool,
    /// Both sides send at once
    #[arg(long)]
    pub bidirectional: bool,
    /// These layers in place of MPI, e.g. rsm-put,fm-send: a job of two ranks on this host for each pair, at the same time
    #[arg(long, value_name = "LIST", conflicts_with_all = ["ranks", "window"])]
    pub layers: Option<String>,
}

#[derive(Args, Clone)]
pub struct Load {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub job: PairedRanks,
    #[command(flatten)]
    pub sizes: Sizes,
    /// Numbers of other pairs (default: 0, 1, 2, 4 and so on, and as many as the ranks make)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=2047))]
    pub others: Option<Vec<u32>>,
    /// The other pairs stream messages of this size; without it they do as the first pair does
    #[arg(long, value_name = "SIZE")]
    pub stream: Option<String>,
    /// Messages in flight in each stream
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub window: u32,
}

/// As [`Ranks`], with two pairs where nothing is said.
#[derive(Args, Clone)]
pub struct PairedRanks {
    /// Ranks to start when no launcher started this: an even number
    #[arg(long, short = 'n', value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(2..=4096))]
    pub ranks: u32,
    /// Milliseconds one trial should take; repetitions adapt to it
    #[arg(long, value_name = "MS", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub trial_ms: u32,
}

#[derive(Args, Clone)]
pub struct Collectives {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub ranks: Ranks,
    #[command(flatten)]
    pub sizes: Sizes,
    /// Operations, e.g. barrier,allreduce (default: all)
    #[arg(long, value_name = "LIST")]
    pub op: Option<String>,
}

#[derive(Args, Clone)]
pub struct Matmul {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub ranks: Ranks,
    /// Rows and columns of the matrices
    #[arg(long, value_name = "LIST", default_value = "1024,2048", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub sizes: Vec<u32>,
}

#[derive(Args, Clone)]
pub struct Cilk {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub ranks: Ranks,
    /// Queens to place, on a board of as many rows
    #[arg(long, value_name = "N", default_value = "13", value_parser = clap::value_parser!(u32).range(4..=16))]
    pub queens: u32,
    /// Rows of queens that are spawned: more make smaller pieces
    #[arg(long, value_name = "ROWS", default_value = "2", value_parser = clap::value_parser!(u32).range(0..=16))]
    pub depth: u32,
    /// Which Fibonacci number
    #[arg(long, value_name = "N", default_value = "38", value_parser = clap::value_parser!(u32).range(1..=45))]
    pub fibonacci: u32,
}

#[derive(Args, Clone)]
pub struct Layers {
    #[command(flatten)]
    pub common: Common,
    /// Rounds: in each, every layer has a job of two ranks of its own
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Microseconds one trial should take; repetitions adapt to it
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub trial_us: Option<u32>,
    /// Exactly these message sizes, e.g. 8,56,1k
    #[arg(long, value_name = "LIST")]
    pub sizes: Option<String>,
    /// Only these layers, e.g. fm-send-4,mpi-fm
    #[arg(long, value_name = "LIST")]
    pub layers: Option<String>,
    /// Leave out the job of 128 processes that shows FM's memory (interfaces)
    #[arg(long)]
    pub skip_memory: bool,
}

#[derive(Args, Clone)]
pub struct Portals {
    #[command(flatten)]
    pub layers: Layers,
    /// Write the paper's four figures to DIR: latency, bandwidth, streaming and bidirectional bandwidth, as PNG
    #[arg(long, value_name = "DIR")]
    pub figures: Option<PathBuf>,
    /// Sizes and repetitions of NetPIPE 3.6.2 up to 8 MiB; of the trials the quickest counts (NetPIPE's own: --trials 7 --trial-us 250000)
    #[arg(long, conflicts_with = "sizes")]
    pub netpipe: bool,
    /// Bytes more and less around each size (with --netpipe; 0: none)
    #[arg(long, value_name = "BYTES", default_value = "3", value_parser = clap::value_parser!(u32).range(0..=64))]
    pub perturbation: u32,
    /// Do not bind the clients of an agent to a core each: the system places all three processes
    #[arg(long)]
    pub unbound_clients: bool,
}

#[derive(Args, Clone)]
pub struct Startup {
    #[command(flatten)]
    pub common: Common,
    /// Numbers of ranks, e.g. 1,2,8
    #[arg(long, short = 'n', value_name = "LIST", default_value = "1,2,4,8", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub ranks: Vec<u32>,
    /// The launcher to measure (default: the mpiexec beside this executable)
    #[arg(long, value_name = "FILE")]
    pub launcher: Option<PathBuf>,
}

/// What jobs are started with.
#[derive(Args, Clone)]
pub struct Launch {
    /// The launcher (default: the mpiexec beside this executable)
    #[arg(long, value_name = "FILE")]
    pub launcher: Option<PathBuf>,
    /// Options for it, separated by spaces
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    pub launcher_options: String,
    /// Measure this program, made of bench/polling.c with another library, instead of this executable with a library of the standard ABI
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
}

#[derive(Args, Clone)]
pub struct Start {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub launch: Launch,
    /// Numbers of busy processes beside the job (trials are starts: 50)
    #[arg(long, value_name = "LIST", default_value = "0,1,2", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(0..=256))]
    pub strangers: Vec<u32>,
}

#[derive(Args, Clone)]
pub struct Poll {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub launch: Launch,
    /// Numbers of ranks
    #[arg(long, short = 'n', value_name = "LIST", default_value = "1,2,4,8", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub ranks: Vec<u32>,
    /// Nanoseconds of work between two calls
    #[arg(long, value_name = "LIST", default_value = "0,300,3000,30000", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub work: Vec<u32>,
    /// Ranks of the token ring
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(2..=4096))]
    pub ring: u32,
}

#[derive(Args, Clone)]
pub struct Plot {
    /// Results written with --json, of one kind
    #[arg(required = true)]
    pub results: Vec<PathBuf>,
    /// The plot to write, ending in .svg or .png; may be given twice
    #[arg(long, short, value_name = "FILE", required = true)]
    pub out: Vec<PathBuf>,
}
