//! Calls with many arguments, as C.

use crate::c_words::{array, check, data, named, rank, tag};
use crate::program::{Arg, Call, CallMode, Coll, Look, Making, Wanted};

pub(crate) fn look_recv(look: Look, w: &Wanted, req: Option<usize>) -> String {
    let (from, tag, comm, slot) = (rank(w.from), tag(w.tag), w.comm, w.slot);
    let d = data(&w.data);
    let truncated = match (w.truncated, req) {
        (true, Some(req)) => format!(" truncates({req});"),
        _ => String::new(),
    };
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
    let put = |new: &Option<usize>| new.map_or("&no_comm".to_string(), |new| format!("&c[{new}]"));
    let made = |new: &Option<usize>| new.map_or(String::new(), |new| format!(" made({new});"));
    match making {
        Making::Dup { of, new } => format!("OK(MPI_Comm_dup(c[{of}], &c[{new}])); made({new});"),
        Making::Idup { of, new, req } => {
            format!("OK(MPI_Comm_idup(c[{of}], &c[{new}], new_request({req}, -1, 0)));")
        }
        Making::Split { of, color, key, new } => {
            let color = color.map_or("MPI_UNDEFINED".into(), |c| c.to_string());
            format!(
                "OK(MPI_Comm_split(c[{of}], {color}, {key}, {}));{}",
                put(new),
                made(new)
            )
        }
        Making::Create { of, ranks, tag, new } => {
            let group = format!("group_of(c[{of}], {}, {})", ranks.len(), array("int", ranks));
            let call = match tag {
                Some(tag) => format!("OK(MPI_Comm_create_group(c[{of}], some, {tag}, {}));", put(new)),
                None => format!("OK(MPI_Comm_create(c[{of}], some, {}));", put(new)),
            };
            format!("some = {group}; {call} MPI_Group_free(&some);{}", made(new))
        }
        Making::Cart {
            of,
            dims,
            periods,
            new,
        } => {
            let periods: Vec<i32> = periods.iter().map(|p| i32::from(*p)).collect();
            let (n, dims, periods) = (dims.len(), array("int", dims), array("int", &periods));
            format!(
                "OK(MPI_Cart_create(c[{of}], {n}, {dims}, {periods}, 0, {}));{}",
                put(new),
                made(new)
            )
        }
        Making::CartSub { of, remain, new } => {
            let remain: Vec<i32> = remain.iter().map(|r| i32::from(*r)).collect();
            format!(
                "OK(MPI_Cart_sub(c[{of}], {}, &c[{new}])); made({new});",
                array("int", &remain)
            )
        }
        Making::OldGraph {
            of,
            index,
            edges,
            new,
        } => {
            let (n, index, edges) = (index.len(), array("int", index), array("int", edges));
            format!(
                "OK(MPI_Graph_create(c[{of}], {n}, {index}, {edges}, 0, {}));{}",
                put(new),
                made(new)
            )
        }
        Making::Graph {
            of,
            sources,
            destinations,
            new,
        } => {
            let (s, d) = (array("int", sources), array("int", destinations));
            format!(
                "OK(MPI_Dist_graph_create_adjacent(c[{of}], {}, {s}, MPI_UNWEIGHTED, {}, {d}, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &c[{new}])); made({new});",
                sources.len(),
                destinations.len()
            )
        }
        Making::Inter {
            local,
            leader,
            peer,
            remote_leader,
            tag,
            new,
        } => format!(
            "OK(MPI_Intercomm_create(c[{local}], {leader}, c[{peer}], {remote_leader}, {tag}, &c[{new}])); made({new});"
        ),
        Making::Merge { of, high, new } => {
            format!(
                "OK(MPI_Intercomm_merge(c[{of}], {}, &c[{new}])); made({new});",
                i32::from(*high)
            )
        }
    }
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
            let types: Vec<String> = types.iter().map(|t| format!("type[{t}]")).collect();
            let ty = if v { "MPI_Aint" } else { "int" };
            let types = if types.is_empty() {
                "(MPI_Datatype[]){MPI_BYTE}".into()
            } else {
                array("MPI_Datatype", &types)
            };
            format!(
                "b[{buf}], {}, {}, {types}",
                array("int", counts),
                array(ty, displs)
            )
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
    let name = match call.coll {
        ReduceScatter => "reduce_scatter".into(),
        ReduceScatterBlock => "reduce_scatter_block".into(),
        NeighborAllgather => "neighbor_allgather".into(),
        NeighborAllgatherv => "neighbor_allgatherv".into(),
        NeighborAlltoall => "neighbor_alltoall".into(),
        NeighborAlltoallv => "neighbor_alltoallv".into(),
        NeighborAlltoallw => "neighbor_alltoallw".into(),
        other => format!("{other:?}").to_lowercase(),
    };
    let root = rank(call.root);
    let (s, r) = (address(&call.send), address(&call.recv));
    let arguments = match call.coll {
        Barrier => String::new(),
        Bcast => format!("{}, {root}, ", arg(&call.send, false, false)),
        Gather => format!(
            "{}, {}, {root}, ",
            arg(&call.send, false, false),
            arg(&call.recv, false, false)
        ),
        Scatter => format!(
            "{}, {}, {root}, ",
            arg(&call.send, false, false),
            arg(&call.recv, false, false)
        ),
        Gatherv => format!(
            "{}, {}, {root}, ",
            arg(&call.send, false, false),
            arg(&call.recv, true, false)
        ),
        Scatterv => format!(
            "{}, {}, {root}, ",
            arg(&call.send, true, false),
            arg(&call.recv, false, false)
        ),
        Allgather | NeighborAllgather | Alltoall | NeighborAlltoall => {
            format!(
                "{}, {}, ",
                arg(&call.send, false, false),
                arg(&call.recv, false, false)
            )
        }
        Allgatherv | NeighborAllgatherv => format!(
            "{}, {}, ",
            arg(&call.send, false, false),
            arg(&call.recv, true, false)
        ),
        Alltoallv | NeighborAlltoallv => format!(
            "{}, {}, ",
            arg(&call.send, true, false),
            arg(&call.recv, true, false)
        ),
        Alltoallw => format!(
            "{}, {}, ",
            arg(&call.send, false, true),
            arg(&call.recv, false, true)
        ),
        NeighborAlltoallw => {
            format!(
                "{}, {}, ",
                arg(&call.send, true, true),
                arg(&call.recv, true, true)
            )
        }
        Reduce | Allreduce | Scan | Exscan | ReduceScatter | ReduceScatterBlock => {
            let (ty, op) = call.op.map_or(("MPI_BYTE", "MPI_SUM"), |n| n.names());
            let n = match call.coll {
                ReduceScatter => array("int", &call.shares),
                _ => call.shares.first().copied().unwrap_or(0).to_string(),
            };
            let root = if call.coll == Reduce {
                format!("{root}, ")
            } else {
                String::new()
            };
            format!("{s}, {r}, {n}, {ty}, {op}, {root}")
        }
    };
    let comm = call.comm;
    match how {
        CallMode::Blocking => format!("OK({}({arguments}c[{comm}]));", named(&name)),
        CallMode::Nonblocking(req) => format!(
            "OK({}({arguments}c[{comm}], new_request({req}, -1, 0)));",
            named(&format!("i{name}"))
        ),
        CallMode::Init(req) => {
            let name = named(&format!("{name}_init"));
            format!("OK({name}({arguments}c[{comm}], MPI_INFO_NULL, new_request({req}, -1, 1)));")
        }
    }
}
