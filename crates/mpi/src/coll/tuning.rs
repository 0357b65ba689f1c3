//! Which algorithm, from which size on. Sizes are in bytes of data per rank, the same at all ranks, so that
//! all ranks choose alike.

farpost_tunables::tunables! {
    /// Switch points of the collectives. Every rank of a job must have the same values.
    pub struct Tuning {
        /// Algorithm of MPI_Bcast: 0 chooses by size, and on several hosts sends to each once; 1 binomial tree, 2 scatter
        /// and ring allgather, 3 pipelined chain, whichever hosts ranks are on.
        bcast: "FARPOST_COLL_BCAST" = 0, 0..=3, "algorithm";
        /// Largest MPI_Bcast sent down a binomial tree; above, the message is cut so that all ranks copy at once.
        bcast_tree_max: "FARPOST_COLL_BCAST_TREE_MAX" = 32 << 10, 0..=1 << 40, "bytes";
        /// Smallest MPI_Bcast passed down a pipelined chain, where every byte is copied once per rank.
        bcast_chain_min: "FARPOST_COLL_BCAST_CHAIN_MIN" = 512 << 10, 0..=1 << 40, "bytes";
        /// Algorithm of MPI_Allreduce: 0 chooses by size, and on several hosts reduces long vectors within each first; 1 recursive doubling, 2 direct reduce-scatter and
        /// allgather, 3 Rabenseifner, 4 ring. 3 and 4 fall back to 2 when the operation does not commute.
        allreduce: "FARPOST_COLL_ALLREDUCE" = 0, 0..=4, "algorithm";
        /// Largest MPI_Allreduce done by recursive doubling, which has the fewest steps but sends everything in each.
        allreduce_doubling_max: "FARPOST_COLL_ALLREDUCE_DOUBLING_MAX" = 16 << 10, 0..=1 << 40, "bytes";
        /// Largest vector that two ranks reduce whole in MPI_Allreduce and MPI_Reduce: halving it receives no
        /// fewer bytes and takes two exchanges, so it pays only when the vector leaves the cache.
        pair_whole_max: "FARPOST_COLL_PAIR_WHOLE_MAX" = 512 << 10, 0..=1 << 40, "bytes";
        /// Smallest blocking MPI_Allreduce in which every rank reads from and writes to the others' buffers itself, where the system permits that: no message is sent.
        allreduce_peer_min: "FARPOST_COLL_ALLREDUCE_PEER_MIN" = 128 << 10, 4096..=1 << 40, "bytes";
        /// Piece in which a rank reads another's buffer to reduce it: it has to stay in the cache.
        allreduce_peer_chunk: "FARPOST_COLL_ALLREDUCE_PEER_CHUNK" = 128 << 10, 4096..=1 << 30, "bytes";
        /// Algorithm of MPI_Reduce: 0 chooses by size, and on several hosts reduces long vectors within each first; 1 binomial tree, 2 direct reduce-scatter and gather.
        reduce: "FARPOST_COLL_REDUCE" = 0, 0..=2, "algorithm";
        /// Largest MPI_Reduce done along a binomial tree.
        reduce_tree_max: "FARPOST_COLL_REDUCE_TREE_MAX" = 16 << 10, 0..=1 << 40, "bytes";
        /// Smallest MPI_Reduce and MPI_Allreduce that take the vectors of a host together before anything goes to another one:
        /// fewer bytes between hosts, but more steps one after the other, which short vectors feel.
        reduce_hosts_min: "FARPOST_COLL_REDUCE_HOSTS_MIN" = 64 << 10, 0..=1 << 40, "bytes";
        /// Algorithm of MPI_Reduce_scatter: 0 chooses by size, 1 recursive doubling of the whole vector, 2 direct.
        reduce_scatter: "FARPOST_COLL_REDUCE_SCATTER" = 0, 0..=2, "algorithm";
        /// Largest vector of MPI_Reduce_scatter reduced whole at every rank.
        reduce_scatter_doubling_max: "FARPOST_COLL_REDUCE_SCATTER_DOUBLING_MAX" = 512, 0..=1 << 40, "bytes";
        /// Most ranks for which the direct algorithms, with a message between every two ranks, are chosen.
        direct_ranks_max: "FARPOST_COLL_DIRECT_RANKS_MAX" = 16, 1..=1 << 20, "ranks";
        /// Algorithm of MPI_Gather: 0 chooses by size, 1 binomial tree, 2 every rank straight to the root.
        gather: "FARPOST_COLL_GATHER" = 0, 0..=2, "algorithm";
        /// Algorithm of MPI_Scatter: 0 chooses by size, 1 binomial tree, 2 the root straight to every rank.
        scatter: "FARPOST_COLL_SCATTER" = 0, 0..=2, "algorithm";
        /// Largest block MPI_Gather and MPI_Scatter pass along a binomial tree, which saves messages at the root
        /// but copies blocks at each level.
        gather_tree_max: "FARPOST_COLL_GATHER_TREE_MAX" = 1 << 10, 0..=1 << 40, "bytes";
        /// Algorithm of MPI_Allgather: 0 chooses by size, 1 Bruck, 2 ring, 3 direct. Also for MPI_Allgatherv.
        allgather: "FARPOST_COLL_ALLGATHER" = 0, 0..=3, "algorithm";
        /// Largest total result of MPI_Allgather and MPI_Allgatherv collected by Bruck's algorithm.
        allgather_bruck_max: "FARPOST_COLL_ALLGATHER_BRUCK_MAX" = 16 << 10, 0..=1 << 40, "bytes";
        /// Algorithm of MPI_Alltoall: 0 chooses by size, 1 Bruck, 2 pairwise with a bounded window.
        alltoall: "FARPOST_COLL_ALLTOALL" = 0, 0..=2, "algorithm";
        /// Largest block of MPI_Alltoall moved by Bruck's algorithm, which sends fewer, larger messages.
        alltoall_bruck_max: "FARPOST_COLL_ALLTOALL_BRUCK_MAX" = 64, 0..=1 << 40, "bytes";
        /// Fewest ranks for which Bruck's algorithm is chosen for MPI_Alltoall.
        alltoall_bruck_ranks: "FARPOST_COLL_ALLTOALL_BRUCK_RANKS" = 8, 2..=1 << 20, "ranks";
        /// Algorithm of MPI_Scan and MPI_Exscan: 0 chooses by size, 1 distance doubling, 2 pipelined chain.
        scan: "FARPOST_COLL_SCAN" = 0, 0..=2, "algorithm";
        /// Largest MPI_Scan and MPI_Exscan done by distance doubling.
        scan_doubling_max: "FARPOST_COLL_SCAN_DOUBLING_MAX" = 32 << 10, 0..=1 << 40, "bytes";
        /// Smallest piece in which long vectors are received and reduced, so that they are still in the cache then.
        chunk: "FARPOST_COLL_CHUNK" = 256 << 10, 16..=1 << 30, "bytes";
        /// Smallest piece passed along a chain of ranks, all of which work on different pieces at the same time.
        pipeline: "FARPOST_COLL_PIPELINE" = 128 << 10, 16..=1 << 30, "bytes";
        /// Most messages one collective has under way in each direction.
        window: "FARPOST_COLL_WINDOW" = 32, 1..=1 << 16, "messages";
        /// Memory for temporaries kept between collectives, per rank.
        pool: "FARPOST_COLL_POOL" = 8 << 20, 0..=1 << 40, "bytes";
    }
}

/// Most pieces a message is cut into: past this many, larger pieces hide the copy as well, and plans stay short.
const MOST_PIECES: u64 = 1024;

impl Tuning {
    /// Bytes per piece of a vector of `bytes` that is reduced.
    pub(super) fn piece(&self, bytes: u64) -> u64 {
        self.chunk.max(bytes.div_ceil(MOST_PIECES))
    }

    /// Bytes per piece of a message of `bytes` that goes along a chain.
    pub(super) fn link(&self, bytes: u64) -> u64 {
        self.pipeline.max(bytes.div_ceil(MOST_PIECES))
    }
}
