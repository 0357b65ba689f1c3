//! Programs as C: one file, with what they share in front (`tests/generated/legal.h`).

use crate::c_calls::{collective, look_recv, make};
use crate::c_words::{
    array, check, data, joined, lower, named, outgoing, rank, tag, truncates, types, wanted,
};
use crate::program::{Arg, Code, Data, Got, Instr, Mode, Part, Program, Sent, Style, Swap, Values};
use crate::types::Build;
use std::collections::BTreeSet;
use std::fmt::Write;

const SHARED: &str = include_str!("../../../tests/generated/legal.h");

/// A C file that runs these programs one after the other. All want the same number of ranks.
pub fn write_file(programs: &[Program], about: &str) -> String {
    let mut out = String::new();
    for line in about.lines() {
        let _ = writeln!(out, "// {line}");
    }
    let _ = writeln!(out, "{SHARED}");
    for (number, program) in programs.iter().enumerate() {
        write_program(&mut out, number, program);
    }
    let ranks = programs.first().map_or(1, |p| p.ranks);
    let _ = writeln!(
        out,
        "int main(int argc, char **argv) {{\n    start(&argc, &argv, {ranks});"
    );
    for (number, program) in programs.iter().enumerate() {
        let _ = writeln!(out, "    if (wanted({}ull)) p{number}();", program.seed);
    }
    let _ = writeln!(out, "    return finish();\n}}");
    out
}

fn write_program(out: &mut String, number: usize, program: &Program) {
    let p = format!("p{number}");
    let used = used_types(program);
    for ty in &used {
        let runs = joined(&program.types.get(*ty).segs, |(at, len)| {
            format!("{{{at}, {len}}}")
        });
        let _ = writeln!(out, "static const long {p}_runs{ty}[][2] = {{{runs}}};");
    }
    let _ = writeln!(out, "static void {p}_types(void) {{");
    for ty in &used {
        let laid = program.types.get(*ty);
        let _ = writeln!(out, "    {};", construct(*ty, &laid.build));
        // A library may pad a structure; what is used is resized.
        let padded = matches!(laid.build, Build::Struct { .. });
        let (runs, size, basics) = (laid.segs.len(), laid.size, laid.basics);
        let extent = if padded { -1 } else { laid.extent() as i64 };
        let laid = format!("{p}_runs{ty}, {runs}, {size}, {extent}, {basics}");
        let _ = writeln!(out, "    lay_out({ty}, {laid});");
    }
    let _ = writeln!(out, "}}");
    for code in &program.code {
        let (rank, thread) = (code.rank, code.thread);
        let parts = [
            ("before", &code.before),
            ("body", &code.body),
            ("after", &code.after),
        ];
        for (what, list) in parts {
            let _ = writeln!(out, "static void {p}_{what}_{rank}_{thread}(void) {{");
            list.iter().for_each(|instr| instruction(out, instr));
            let _ = writeln!(out, "}}");
        }
    }
    let list = |what: &str, codes: &mut dyn Iterator<Item = &Code>| {
        codes
            .map(|c| format!("{p}_{what}_{}_{}", c.rank, c.thread))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let first = |what: &str| list(what, &mut program.code.iter().filter(|c| c.thread == 0));
    let bodies = list("body", &mut program.code.iter());
    let buffered = joined(&program.buffered, |(bytes, n)| {
        format!("{bytes} + {n} * MPI_BSEND_OVERHEAD")
    });
    let _ = writeln!(
        out,
        "static void {p}(void) {{\n    const long buffered[] = {{{}}};\n    begin({}ull, {}, {}, {}, {}, {}, buffered[me]);\n    {p}_types();",
        buffered,
        program.seed,
        program.types.all.len(),
        program.comms,
        program.bufs,
        program.reqs,
        program.slots
    );
    let _ = writeln!(out, "    void (*const before[])(void) = {{{}}};", first("before"));
    let _ = writeln!(out, "    void (*const bodies[])(void) = {{{bodies}}};");
    let _ = writeln!(out, "    void (*const after[])(void) = {{{}}};", first("after"));
    let t = program.threads;
    let _ = writeln!(
        out,
        "    before[me]();\n    threads(bodies + me * {t}, {t});\n    after[me]();\n    end();\n}}"
    );
}

fn used_types(program: &Program) -> BTreeSet<usize> {
    let mut used = BTreeSet::new();
    let instrs = program
        .code
        .iter()
        .flat_map(|c| c.before.iter().chain(&c.body).chain(&c.after));
    for instr in instrs {
        let mut data = |d: &Data| _ = used.insert(d.ty);
        match instr {
            Instr::Place { part, .. } => _ = used.insert(part.ty),
            Instr::Send(send) | Instr::StartSend { send, .. } => data(&send.data),
            Instr::Recv(w)
            | Instr::StartRecv { wanted: w, .. }
            | Instr::LookRecv { wanted: w, .. }
            | Instr::RecvIfCancelled { wanted: w, .. } => data(&w.data),
            Instr::Swap { send, wanted, .. } => [send.data, wanted.data].iter().for_each(data),
            Instr::CheckPool(check) => check.got.iter().for_each(|got| data(&got.wanted.data)),
            Instr::Expect { parts, .. } => used.extend(parts.iter().map(|p| p.ty)),
            Instr::Coll { call, .. } if call.op.is_none() => {
                for arg in [&call.send, &call.recv] {
                    match arg {
                        Arg::One(d) => _ = used.insert(d.ty),
                        Arg::V { ty, .. } => _ = used.insert(*ty),
                        Arg::W { types, .. } => used.extend(types),
                        Arg::None | Arg::InPlace => {}
                    }
                }
            }
            _ => {}
        }
    }
    // What they are made of has smaller numbers.
    for ty in (0..program.types.all.len()).rev() {
        if used.contains(&ty) {
            used.extend(parents(&program.types.get(ty).build));
        }
    }
    used
}

fn parents(build: &Build) -> Vec<usize> {
    match build {
        Build::Basic(_) => Vec::new(),
        Build::Contiguous { of, .. }
        | Build::Vector { of, .. }
        | Build::Hvector { of, .. }
        | Build::Indexed { of, .. }
        | Build::Hindexed { of, .. }
        | Build::IndexedBlock { of, .. }
        | Build::Resized { of, .. }
        | Build::Subarray { of, .. }
        | Build::Dup { of } => vec![*of],
        Build::Struct { of, .. } => of.clone(),
    }
}

fn construct(ty: usize, build: &Build) -> String {
    let new = format!("&type[{ty}]");
    match build {
        Build::Basic(kind) => format!("type[{ty}] = {}", kind.name()),
        Build::Contiguous { count, of } => format!("OK(MPI_Type_contiguous({count}, type[{of}], {new}))"),
        Build::Vector {
            count,
            len,
            stride,
            of,
        } => {
            format!("OK(MPI_Type_vector({count}, {len}, {stride}, type[{of}], {new}))")
        }
        Build::Hvector {
            count,
            len,
            stride,
            of,
        } => {
            format!("OK(MPI_Type_create_hvector({count}, {len}, {stride}, type[{of}], {new}))")
        }
        Build::Indexed { lens, displs, of } => {
            let (n, lens, displs) = (lens.len(), array("int", lens), array("int", displs));
            format!("OK(MPI_Type_indexed({n}, {lens}, {displs}, type[{of}], {new}))")
        }
        Build::Hindexed { lens, displs, of } => {
            let (n, lens, displs) = (lens.len(), array("int", lens), array("MPI_Aint", displs));
            format!("OK(MPI_Type_create_hindexed({n}, {lens}, {displs}, type[{of}], {new}))")
        }
        Build::IndexedBlock { len, displs, of } => {
            let (n, displs) = (displs.len(), array("int", displs));
            format!("OK(MPI_Type_create_indexed_block({n}, {len}, {displs}, type[{of}], {new}))")
        }
        Build::Struct { lens, displs, of } => {
            let (of, n) = (types(of), lens.len());
            let (lens, displs) = (array("int", lens), array("MPI_Aint", displs));
            format!("OK(MPI_Type_create_struct({n}, {lens}, {displs}, {of}, {new}))")
        }
        Build::Resized { extent, of } => {
            format!("OK(MPI_Type_create_resized(type[{of}], 0, {extent}, {new}))")
        }
        Build::Subarray {
            sizes,
            part,
            start,
            of,
        } => {
            let shape = [sizes, part, start].map(|list| array("int", list)).join(", ");
            format!("OK(MPI_Type_create_subarray(2, {shape}, MPI_ORDER_C, type[{of}], {new}))")
        }
        Build::Dup { of } => format!("OK(MPI_Type_dup(type[{of}], {new}))"),
    }
}

fn part(part: &Part) -> String {
    format!("{{{}, {}, {}, {}}}", part.at, part.ty, part.count, part.id)
}

fn letter(mode: Mode) -> &'static str {
    match mode {
        Mode::Standard => "",
        Mode::Buffered => "b",
        Mode::Synchronous => "s",
        Mode::Ready => "r",
    }
}

/// What stands for these numbers behind where they are.
fn of_numbers(values: &Values, id: u32) -> String {
    let Values {
        numbers,
        first,
        n,
        who,
        ..
    } = values;
    format!(
        "{numbers:?}, {first}, {n}, {id}, {}, {}",
        who.len(),
        array("int", who)
    )
}

/// How many requests, and which.
fn list(reqs: &[usize]) -> String {
    format!("{}, {}", reqs.len(), array("int", reqs))
}

fn instruction(out: &mut String, instr: &Instr) {
    let line = match instr {
        Instr::Make(making) => make(making),
        Instr::FreeComm { comm, disconnect } => {
            let how = if *disconnect { "disconnect" } else { "free" };
            format!("OK(MPI_Comm_{how}(&c[{comm}]));")
        }
        Instr::Room { buf, len } => format!("room({buf}, {len});"),
        Instr::Clear { buf, len } => format!("clear(b[{buf}], {len});"),
        Instr::Place { buf, part: p } => format!("place(b[{buf}], (struct part){});", part(p)),
        Instr::PutNumbers { buf, values, id } => {
            let (at, values) = (values.at, of_numbers(values, *id));
            format!("numbers(b[{buf}] + {at}, {values});")
        }
        Instr::Send(send) => {
            let name = named(&format!("{}send", letter(send.mode)));
            format!("OK({name}({}));", outgoing(send))
        }
        Instr::StartSend { send, req, init } => {
            let letter = letter(send.mode);
            let name = match init {
                true => named(&format!("{letter}send_init")),
                false => named(&format!("i{letter}send")),
            };
            let init = i32::from(*init);
            format!("OK({name}({}, new_request({req}, -1, {init})));", outgoing(send))
        }
        Instr::Recv(w) => format!("{}(MPI_Recv({}, &status[{}]));", check(w), wanted(w), w.slot),
        Instr::StartRecv { wanted: w, req, init } => {
            let name = if *init { "MPI_Recv_init" } else { "MPI_Irecv" };
            let truncated = truncates(w, *req);
            let (slot, init) = (w.slot, i32::from(*init));
            format!(
                "OK({name}({}, new_request({req}, {slot}, {init})));{truncated}",
                wanted(w)
            )
        }
        Instr::LookRecv { look, wanted: w, req } => look_recv(*look, w, *req),
        Instr::Swap {
            swap,
            send,
            wanted: w,
        } => {
            let (slot, from) = (w.slot, format!("{}, {}, c[{}]", rank(w.from), tag(w.tag), w.comm));
            let sent = format!("{}, {}, {}", data(&send.data), rank(send.to), send.tag);
            match swap {
                Swap::Sendrecv => format!("OK(MPI_Sendrecv({sent}, {}, &status[{slot}]));", wanted(w)),
                Swap::Replace => format!("OK(MPI_Sendrecv_replace({sent}, {from}, &status[{slot}]));"),
                Swap::Isendrecv(req) => {
                    format!(
                        "OK(MPI_Isendrecv({sent}, {}, new_request({req}, {slot}, 0)));",
                        wanted(w)
                    )
                }
            }
        }
        Instr::Start(reqs) if reqs.len() == 1 => format!("OK(MPI_Start(started({})));", reqs[0]),
        Instr::Start(reqs) => format!("start_all({});", list(reqs)),
        Instr::Release(req) => format!("let_go({req});"),
        Instr::Complete { style, reqs } => format!("complete_by_{}({});", lower(*style), list(reqs)),
        Instr::Poke { style, reqs } => format!("look_by_{}({});", poke(*style), list(reqs)),
        Instr::Cancel(req) => format!("cancel({req});"),
        Instr::MustBeCancelled(req) => format!("must_be_cancelled({req});"),
        Instr::RecvIfCancelled { req, wanted: w } => {
            let slot = w.slot;
            format!(
                "if (r[{req}].cancelled) OK(MPI_Recv({}, &status[{slot}]));",
                wanted(w)
            )
        }
        Instr::Coll { call, how } => collective(call, *how),
        Instr::CheckPool(check) => {
            let sent = |s: &Sent| format!("{{{}, {}, {}, {}}}", s.source, s.tag, s.bytes, s.id);
            let got = |g: &Got| {
                let (w, d) = (&g.wanted, &g.wanted.data);
                let may = g
                    .may
                    .iter()
                    .filter(|m| **m < 64)
                    .fold(0u64, |all, m| all | 1 << m);
                let head = format!("{}, {}, {}, {}, {}", w.slot, d.buf, g.len, d.ty, d.count);
                let tail = format!("{}, {}, {}", rank(w.from), tag(w.tag), i32::from(w.truncated));
                format!("{{{head}, {tail}, {may:#x}}}")
            };
            let (sent, got) = (joined(&check.sent, sent), joined(&check.got, got));
            let (n, m) = (check.sent.len(), check.got.len());
            let name = &check.name;
            format!("check_group(\"{name}\", {n}, (struct sent[]){{{sent}}}, {m}, (struct got[]){{{got}}});")
        }
        Instr::Expect {
            buf,
            len,
            parts,
            name,
        } => {
            let n = parts.len();
            let list = match n {
                0 => "{0, 0, 0, 0}".into(),
                _ => joined(parts, part),
            };
            format!("expect(\"{name}\", b[{buf}], {len}, {n}, (struct part[]){{{list}}});")
        }
        Instr::ExpectNumbers {
            buf,
            len,
            values,
            id,
            name,
        } => {
            let (at, values) = (values.at, of_numbers(values, *id));
            format!("expect_numbers(\"{name}\", b[{buf}], {len}, {at}, {values});")
        }
        Instr::Sleep { us } => format!("compute({us});"),
    };
    let back = if line.contains("brief(") {
        " give_back();"
    } else {
        ""
    };
    let _ = writeln!(out, "    {line}{back}");
}

/// Looks that take nothing from a set as such.
fn poke(s: Style) -> &'static str {
    match s {
        Style::Wait | Style::Test => "test",
        Style::Waitall | Style::Testall => "testall",
        Style::Waitany | Style::Testany => "testany",
        Style::Waitsome | Style::Testsome => "testsome",
        Style::GetStatus => "getstatus",
    }
}
