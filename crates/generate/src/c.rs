//! Programs as C: one file, with what they share in front (`tests/generated/legal.h`).

use crate::c_calls::{collective, look_recv, make};
use crate::c_words::{array, check, data, named, rank, tag, wanted};
use crate::program::{Arg, Code, Data, Instr, Mode, Part, Program, Style, Swap};
use crate::types::{Build, Types};
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
        let laid = program.types.get(*ty);
        let runs: Vec<String> = laid
            .segs
            .iter()
            .map(|(at, len)| format!("{{{at}, {len}}}"))
            .collect();
        let _ = writeln!(
            out,
            "static const long {p}_runs{ty}[][2] = {{{}}};",
            runs.join(", ")
        );
    }
    let _ = writeln!(out, "static void {p}_types(void) {{");
    for ty in &used {
        let laid = program.types.get(*ty);
        let _ = writeln!(out, "    {};", construct(*ty, &laid.build));
        let runs = laid.segs.len();
        // A library may pad a structure; what is used is resized.
        let padded = matches!(laid.build, Build::Struct { .. });
        let (size, extent) = (laid.size, if padded { -1 } else { laid.extent() as i64 });
        let basics = laid.basics;
        let _ = writeln!(
            out,
            "    lay_out({ty}, {p}_runs{ty}, {runs}, {size}, {extent}, {basics});"
        );
    }
    let _ = writeln!(out, "}}");
    for code in &program.code {
        for (what, list) in [
            ("before", &code.before),
            ("body", &code.body),
            ("after", &code.after),
        ] {
            let _ = writeln!(
                out,
                "static void {p}_{what}_{}_{}(void) {{",
                code.rank, code.thread
            );
            for instr in list {
                instruction(out, instr, &program.types);
            }
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
    let buffered: Vec<String> = program
        .buffered
        .iter()
        .map(|(bytes, n)| format!("{bytes} + {n} * MPI_BSEND_OVERHEAD"))
        .collect();
    let _ = writeln!(
        out,
        "static void {p}(void) {{\n    const long buffered[] = {{{}}};\n    begin({}ull, {}, {}, {}, {}, {}, buffered[me]);\n    {p}_types();",
        buffered.join(", "),
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
            Instr::Send { data: d, .. } | Instr::StartSend { data: d, .. } => data(d),
            Instr::Recv(w) | Instr::StartRecv { wanted: w, .. } | Instr::LookRecv { wanted: w, .. } => {
                data(&w.data)
            }
            Instr::RecvIfCancelled { wanted: w, .. } => data(&w.data),
            Instr::Swap { data: d, wanted, .. } => {
                data(d);
                data(&wanted.data);
            }
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
            let of: Vec<String> = of.iter().map(|t| format!("type[{t}]")).collect();
            let (n, lens, displs) = (lens.len(), array("int", lens), array("MPI_Aint", displs));
            format!(
                "OK(MPI_Type_create_struct({n}, {lens}, {displs}, {}, {new}))",
                array("MPI_Datatype", &of)
            )
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
            let (sizes, part, start) = (array("int", sizes), array("int", part), array("int", start));
            format!(
                "OK(MPI_Type_create_subarray(2, {sizes}, {part}, {start}, MPI_ORDER_C, type[{of}], {new}))"
            )
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

fn style(style: Style) -> String {
    format!("{style:?}").to_lowercase()
}

fn instruction(out: &mut String, instr: &Instr, types: &Types) {
    let _ = types;
    let line = match instr {
        Instr::Make(making) => make(making),
        Instr::FreeComm {
            comm,
            disconnect: false,
        } => format!("OK(MPI_Comm_free(&c[{comm}]));"),
        Instr::FreeComm {
            comm,
            disconnect: true,
        } => format!("OK(MPI_Comm_disconnect(&c[{comm}]));"),
        Instr::Room { buf, len } => format!("room({buf}, {len});"),
        Instr::Clear { buf, len } => format!("clear(b[{buf}], {len});"),
        Instr::Place { buf, part: p } => format!("place(b[{buf}], (struct part){});", part(p)),
        Instr::PutNumbers {
            buf,
            at,
            numbers,
            first,
            n,
            id,
            who,
        } => {
            format!(
                "numbers(b[{buf}] + {at}, {}, {first}, {n}, {id}, 1, (int[]){{{who}}});",
                numbers.c()
            )
        }
        Instr::Send {
            mode,
            data: d,
            to,
            tag: t,
            comm,
        } => {
            let name = named(&format!("{}send", letter(*mode)));
            format!("OK({name}({}, {}, {t}, c[{comm}]));", data(d), rank(*to))
        }
        Instr::StartSend {
            mode,
            data: d,
            to,
            tag: t,
            comm,
            req,
            init,
        } => {
            let letter = letter(*mode);
            let name = if *init {
                named(&format!("{letter}send_init"))
            } else {
                named(&format!("i{letter}send"))
            };
            format!(
                "OK({name}({}, {}, {t}, c[{comm}], new_request({req}, -1, {})));",
                data(d),
                rank(*to),
                i32::from(*init)
            )
        }
        Instr::Recv(w) => format!("{}(MPI_Recv({}, &status[{}]));", check(w), wanted(w), w.slot),
        Instr::StartRecv { wanted: w, req, init } => {
            let name = if *init { "MPI_Recv_init" } else { "MPI_Irecv" };
            let truncated = if w.truncated {
                format!(" truncates({req});")
            } else {
                String::new()
            };
            format!(
                "OK({name}({}, new_request({req}, {}, {})));{truncated}",
                wanted(w),
                w.slot,
                i32::from(*init)
            )
        }
        Instr::LookRecv { look, wanted: w, req } => look_recv(*look, w, *req),
        Instr::Swap {
            swap,
            data: d,
            to,
            tag: t,
            wanted: w,
        } => {
            let (to, d, slot) = (rank(*to), data(d), w.slot);
            match swap {
                Swap::Sendrecv => format!(
                    "OK(MPI_Sendrecv({d}, {to}, {t}, {}, &status[{slot}]));",
                    wanted(w)
                ),
                Swap::Replace => {
                    let from = format!("{}, {}, c[{}]", rank(w.from), tag(w.tag), w.comm);
                    format!("OK(MPI_Sendrecv_replace({d}, {to}, {t}, {from}, &status[{slot}]));")
                }
                Swap::Isendrecv(req) => {
                    format!(
                        "OK(MPI_Isendrecv({d}, {to}, {t}, {}, new_request({req}, {slot}, 0)));",
                        wanted(w)
                    )
                }
            }
        }
        Instr::Start(reqs) if reqs.len() == 1 => format!("OK(MPI_Start(started({})));", reqs[0]),
        Instr::Start(reqs) => format!("start_all({}, {});", reqs.len(), array("int", reqs)),
        Instr::Release(req) => format!("let_go({req});"),
        Instr::Complete { style: s, reqs } => format!(
            "complete_by_{}({}, {});",
            style(*s),
            reqs.len(),
            array("int", reqs)
        ),
        Instr::Poke { style: s, reqs } => {
            format!("look_by_{}({}, {});", poke(*s), reqs.len(), array("int", reqs))
        }
        Instr::Cancel(req) => format!("cancel({req});"),
        Instr::MustBeCancelled(req) => format!("must_be_cancelled({req});"),
        Instr::RecvIfCancelled { req, wanted: w } => {
            format!(
                "if (r[{req}].cancelled) OK(MPI_Recv({}, &status[{}]));",
                wanted(w),
                w.slot
            )
        }
        Instr::Coll { call, how } => collective(call, *how),
        Instr::CheckPool(check) => {
            let sent: Vec<String> = check
                .sent
                .iter()
                .map(|s| format!("{{{}, {}, {}, {}}}", s.source, s.tag, s.bytes, s.id))
                .collect();
            let got: Vec<String> = check
                .got
                .iter()
                .map(|g| {
                    let (w, may) = (
                        &g.wanted,
                        g.may
                            .iter()
                            .filter(|m| **m < 64)
                            .fold(0u64, |all, m| all | 1 << m),
                    );
                    let d = w.data;
                    let head = format!("{}, {}, {}, {}, {}", w.slot, d.buf, g.len, d.ty, d.count);
                    format!(
                        "{{{head}, {}, {}, {}, {may:#x}}}",
                        rank(w.from),
                        tag(w.tag),
                        i32::from(w.truncated)
                    )
                })
                .collect();
            format!(
                "check_group(\"{}\", {}, (struct sent[]){{{}}}, {}, (struct got[]){{{}}});",
                check.name,
                sent.len(),
                sent.join(", "),
                got.len(),
                got.join(", ")
            )
        }
        Instr::Expect {
            buf,
            len,
            parts,
            name,
        } => {
            let list: Vec<String> = parts.iter().map(part).collect();
            let list = if list.is_empty() {
                "{0, 0, 0, 0}".into()
            } else {
                list.join(", ")
            };
            format!(
                "expect(\"{name}\", b[{buf}], {len}, {}, (struct part[]){{{list}}});",
                parts.len()
            )
        }
        Instr::ExpectNumbers {
            buf,
            len,
            at,
            numbers,
            first,
            n,
            id,
            who,
            name,
        } => {
            let (kind, whos) = (numbers.c(), array("int", who));
            format!(
                "expect_numbers(\"{name}\", b[{buf}], {len}, {at}, {kind}, {first}, {n}, {id}, {}, {whos});",
                who.len()
            )
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
