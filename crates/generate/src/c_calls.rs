//! Calls with many arguments, as C.

use crate::c_words::{array, check, data, named, rank, tag, truncates};
use crate::program::{Arg, Call, CallMode, Coll, Look, Making, Wanted};

pub(crate) fn look_recv(look: Look, w: &Wanted, req: Option<usize>) -> String {
    let (from, tag, comm, slot) = (rank(w.from), tag(w.tag), w.comm, w.slot);
    let d = data(&w.data);
    let truncated = req.map_or(String::new(), |req| truncates(w, req));
    let found = match look {
        Look::Probe => format!("OK(MPI_Probe({from}, {tag}, c[{comm}], &status[{slot}]));"),
        Look::Iprobe => format!("probe_until_there({from}, {tag}, {comm}, {slot});"),
        Look::Mprobe => format!("OK(MPI_Mprobe({from}, {tag}, c[{comm}], &message, &status[{slot}]));"),
        Look::Improbe => format!("message = mprobe_until_there({from}, {tag}, {comm}, {slot});"),
    };
    let this = format!("status[{slot}].MPI_SOURCE, status[{slot}].MPI_TAG, c[{comm}]");
    let then = match (matches!(look, Look::Mprobe | Look::Improbe), req) {
        (true, None) => format!("{}(MPI_Mrecv({d}, &message, &status[{slot}]));", check(w)),
        (true, Some(req)) => format!("OK(MPI_Imrecv({d}, &message, new_request({req}, {slot}, 0)));"),
        (false, None) => format!("{}(MPI_Recv({d}, {this}, &status[{slot}]));", check(w)),
        (false, Some(req)) => format!("OK(MPI_Irecv({d}, {this}, new_request({req}, {slot}, 0)));"),
    };
    format!("{found} {then}{truncated}")
}

pub(crate) fn make(making: &Making) -> String {
    // What a rank that is not among the members passes.
    let put = |new: &Option<usize>| new.map_or("&no_comm".to_string(), |new| format!("&c[{new}]"));
    let bits = |list: &[bool]| array("int", &list.iter().map(|b| i32::from(*b)).collect::<Vec<_>>());
    let (call, new) = match making {
        Making::Dup { of, new } => (format!("OK(MPI_Comm_dup(c[{of}], &c[{new}]));"), Some(*new)),
        Making::Idup { of, new, req } => {
            let call = format!("OK(MPI_Comm_idup(c[{of}], &c[{new}], new_request({req}, -1, 0)));");
            // It is there when the request is complete.
            (call, None)
        }
        Making::Split { of, color, key, new } => {
            let color = color.map_or("MPI_UNDEFINED".into(), |c| c.to_string());
            (
                format!("OK(MPI_Comm_split(c[{of}], {color}, {key}, {}));", put(new)),
                *new,
            )
        }
        Making::Create { of, ranks, tag, new } => {
            let group = format!("group_of(c[{of}], {}, {})", ranks.len(), array("int", ranks));
            let call = match tag {
                Some(tag) => format!("OK(MPI_Comm_create_group(c[{of}], some, {tag}, {}));", put(new)),
                None => format!("OK(MPI_Comm_create(c[{of}], some, {}));", put(new)),
            };
            (format!("some = {group}; {call} MPI_Group_free(&some);"), *new)
        }
        Making::Cart {
            of,
            dims,
            periods,
            new,
        } => {
            let (n, dims, periods) = (dims.len(), array("int", dims), bits(periods));
            let put = put(new);
            (
                format!("OK(MPI_Cart_create(c[{of}], {n}, {dims}, {periods}, 0, {put}));"),
                *new,
            )
        }
        Making::CartSub { of, remain, new } => (
            format!("OK(MPI_Cart_sub(c[{of}], {}, &c[{new}]));", bits(remain)),
            Some(*new),
        ),
        Making::OldGraph {
            of,
            index,
            edges,
            new,
        } => {
            let (n, index, edges) = (index.len(), array("int", index), array("int", edges));
            let put = put(new);
            (
                format!("OK(MPI_Graph_create(c[{of}], {n}, {index}, {edges}, 0, {put}));"),
                *new,
            )
        }
        Making::Graph {
            of,
            sources,
            destinations,
            new,
        } => {
            let side = |list: &[i32]| format!("{}, {}, MPI_UNWEIGHTED", list.len(), array("int", list));
            let (s, d) = (side(sources), side(destinations));
            let call = format!(
                "OK(MPI_Dist_graph_create_adjacent(c[{of}], {s}, {d}, MPI_INFO_NULL, 0, &c[{new}]));"
            );
            (call, Some(*new))
        }
        Making::Inter {
            local,
            leader,
            peer,
            remote_leader,
            tag,
            new,
        } => {
            let (local, remote) = (
                format!("c[{local}], {leader}"),
                format!("c[{peer}], {remote_leader}"),
            );
            (
                format!("OK(MPI_Intercomm_create({local}, {remote}, {tag}, &c[{new}]));"),
                Some(*new),
            )
        }
        Making::Merge { of, high, new } => {
            let high = i32::from(*high);
            (
                format!("OK(MPI_Intercomm_merge(c[{of}], {high}, &c[{new}]));"),
                Some(*new),
            )
        }
    };
    call + &new.map_or(String::new(), |new| format!(" made({new});"))
}

/// A buffer argument: address, counts and types as the function wants them.
fn arg(a: &Arg, v: bool, w: bool) -> String {
    let null = if w {
        "NULL, NULL, NULL"
    } else if v {
        "NULL, NULL, MPI_BYTE"
    } else {
        "0, MPI_BYTE"
    };
    match a {
        Arg::None => format!("NULL, {null}"),
        Arg::InPlace => format!("MPI_IN_PLACE, {null}"),
        Arg::One(d) => data(d),
        Arg::V {
            buf,
            ty,
            counts,
            displs,
        } => {
            format!(
                "b[{buf}], {}, {}, type[{ty}]",
                array("int", counts),
                array("int", displs)
            )
        }
        Arg::W {
            buf,
            counts,
            displs,
            types,
        } => {
            let displs = array(if v { "MPI_Aint" } else { "int" }, displs);
            let types = match types.is_empty() {
                true => "(MPI_Datatype[]){MPI_BYTE}".into(),
                false => crate::c_words::types(types),
            };
            format!("b[{buf}], {}, {displs}, {types}", array("int", counts))
        }
    }
}

fn address(a: &Arg) -> String {
    match a {
        Arg::None => "NULL".into(),
        Arg::InPlace => "MPI_IN_PLACE".into(),
        Arg::One(d) => format!("b[{}]", d.buf),
        Arg::V { buf, .. } | Arg::W { buf, .. } => format!("b[{buf}]"),
    }
}

pub(crate) fn collective(call: &Call, how: CallMode) -> String {
    use Coll::*;
    let name: &str = call.coll.into();
    let root = rank(call.root);
    let (s, r) = (address(&call.send), address(&call.recv));
    let both = |s: (bool, bool), r: (bool, bool)| {
        format!("{}, {}, ", arg(&call.send, s.0, s.1), arg(&call.recv, r.0, r.1))
    };
    // Arguments with one count, with counts and displacements, with a datatype each, and those with addresses.
    let (one, v, w, aw) = ((false, false), (true, false), (false, true), (true, true));
    let arguments = match call.coll {
        Barrier => String::new(),
        Bcast => format!("{}, {root}, ", arg(&call.send, false, false)),
        Gather | Scatter => format!("{}{root}, ", both(one, one)),
        Gatherv => format!("{}{root}, ", both(one, v)),
        Scatterv => format!("{}{root}, ", both(v, one)),
        Allgather | NeighborAllgather | Alltoall | NeighborAlltoall => both(one, one),
        Allgatherv | NeighborAllgatherv => both(one, v),
        Alltoallv | NeighborAlltoallv => both(v, v),
        Alltoallw => both(w, w),
        NeighborAlltoallw => both(aw, aw),
        Reduce | Allreduce | Scan | Exscan | ReduceScatter | ReduceScatterBlock => {
            let (ty, op) = call.op.map_or(("MPI_BYTE", "MPI_SUM"), |n| n.names());
            let n = match call.coll {
                ReduceScatter => array("int", &call.shares),
                _ => call.shares.first().copied().unwrap_or(0).to_string(),
            };
            let root = if call.coll == Reduce {
                root + ", "
            } else {
                String::new()
            };
            format!("{s}, {r}, {n}, {ty}, {op}, {root}")
        }
    };
    let comm = call.comm;
    match how {
        CallMode::Blocking => format!("OK({}({arguments}c[{comm}]));", named(name)),
        CallMode::Nonblocking(req) => {
            let name = named(&format!("i{name}"));
            format!("OK({name}({arguments}c[{comm}], new_request({req}, -1, 0)));")
        }
        CallMode::Init(req) => {
            let name = named(&format!("{name}_init"));
            format!("OK({name}({arguments}c[{comm}], MPI_INFO_NULL, new_request({req}, -1, 1)));")
        }
    }
}
