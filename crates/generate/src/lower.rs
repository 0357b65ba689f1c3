//! From events in one order to each thread's instructions.

use crate::events::{COMPLETIONS, END, Item, Place, Plan};
use crate::program::{CallMode, Code, Data, Instr, Making, Mode, Program, Style, Swap};
use std::collections::HashMap;
use strum::VariantArray;

/// A number that depends on the program and a place in it, and not on what else the program has.
fn mix(seed: u64, a: u64, b: u64) -> u64 {
    let mut x = seed ^ a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_mul(0xd1b5_4a32_d192_ed03);
    x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 32)
}

impl Plan {
    /// The program.
    pub fn lower(&self) -> Program {
        let mut code: Vec<Code> = Vec::new();
        let mut buffered = vec![(0, 0); self.ranks];
        for (rank, buffered) in buffered.iter_mut().enumerate() {
            for thread in 0..self.threads {
                let mut items: Vec<&(Place, _, Item)> = self
                    .events
                    .iter()
                    .flat_map(|event| &event.items)
                    .filter(|(_, actor, _)| actor.rank == rank && actor.thread == thread)
                    .collect();
                items.sort_by_key(|(place, ..)| *place);
                // What all buffered sends take together: none need be gone before the next one comes, of a request that is started
                // again neither.
                let mut again: HashMap<usize, u64> = HashMap::new();
                for (_, _, item) in &items {
                    let mut one = |bytes: u64| *buffered = (buffered.0 + bytes, buffered.1 + 1);
                    match item {
                        Item::Do(Instr::Send(send)) if send.mode == Mode::Buffered => {
                            one(self.bytes(&send.data))
                        }
                        Item::Do(Instr::StartSend { send, req, init }) if send.mode == Mode::Buffered => {
                            if *init {
                                again.insert(*req, self.bytes(&send.data));
                            } else {
                                one(self.bytes(&send.data));
                            }
                        }
                        Item::Do(Instr::Start(reqs)) => reqs
                            .iter()
                            .filter_map(|req| again.get(req))
                            .for_each(|bytes| one(*bytes)),
                        _ => {}
                    }
                }
                let part = |from: u32, to: u32| -> Vec<&(Place, _, Item)> {
                    items
                        .iter()
                        .filter(|(place, ..)| (from..to).contains(&place.base))
                        .copied()
                        .collect()
                };
                let who = (rank * 16 + thread) as u64;
                code.push(Code {
                    rank,
                    thread,
                    before: self.sequence(who, &part(0, 1)),
                    body: self.sequence(who, &part(1, END)),
                    after: self.sequence(who, &part(END, u32::MAX)),
                });
            }
        }
        Program {
            seed: self.seed,
            ranks: self.ranks,
            threads: self.threads,
            types: self.types.clone(),
            code,
            comms: self.comms,
            bufs: self.bufs,
            reqs: self.reqs,
            slots: self.slots,
            buffered,
        }
    }

    fn bytes(&self, data: &Data) -> u64 {
        self.types.get(data.ty).size * data.count
    }

    fn style(&self, a: u64, b: u64) -> Style {
        if self.plain {
            return Style::Wait;
        }
        // The last one is MPI_Request_get_status.
        let styles = &Style::VARIANTS[..Style::VARIANTS.len() - usize::from(self.no_get_status)];
        styles[(mix(self.seed, a, b) % styles.len() as u64) as usize]
    }

    fn sequence<A>(&self, who: u64, items: &[&(Place, A, Item)]) -> Vec<Instr> {
        let mut code: Vec<Instr> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut group: Option<(u32, Vec<usize>)> = None;
        for (place, _, item) in items {
            if let Some((base, _)) = &group
                && !(matches!(item, Item::Complete(_)) && *base == place.base)
                && let Some((base, reqs)) = group.take()
            {
                let style = self.style(who, u64::from(base));
                code.push(Instr::Complete { style, reqs });
            }
            // Now and then a look at some of what is under way.
            let key = u64::from(place.base) << 20 | u64::from(place.event) << 8 | u64::from(place.sub);
            let dice = mix(self.seed, who + 1000, key);
            if !self.plain
                && group.is_none()
                && !open.is_empty()
                && place.event != COMPLETIONS
                && dice.is_multiple_of(12)
            {
                let reqs: Vec<usize> = open
                    .iter()
                    .copied()
                    .filter(|r| mix(dice, 1, *r as u64).is_multiple_of(2))
                    .collect();
                if !reqs.is_empty() {
                    code.push(Instr::Poke {
                        style: self.style(who + 2000, key),
                        reqs,
                    });
                }
            }
            match item {
                Item::Complete(req) => {
                    open.retain(|r| r != req);
                    group.get_or_insert((place.base, Vec::new())).1.push(*req);
                }
                Item::Do(instr) => {
                    opened(instr, &mut open);
                    code.push(instr.clone());
                }
            }
        }
        if let Some((base, reqs)) = group {
            let style = self.style(who, u64::from(base));
            code.push(Instr::Complete { style, reqs });
        }
        code
    }
}

/// Requests that `instr` starts or lets go.
fn opened(instr: &Instr, open: &mut Vec<usize>) {
    match instr {
        Instr::StartSend { req, init: false, .. }
        | Instr::StartRecv { req, init: false, .. }
        | Instr::LookRecv { req: Some(req), .. }
        | Instr::Swap {
            swap: Swap::Isendrecv(req),
            ..
        }
        | Instr::Coll {
            how: CallMode::Nonblocking(req),
            ..
        } => open.push(*req),
        Instr::Make(making) => {
            if let Making::Idup { req, .. } = **making {
                open.push(req);
            }
        }
        Instr::Start(reqs) => open.extend(reqs),
        Instr::Release(req) => open.retain(|r| r != req),
        _ => {}
    }
}
