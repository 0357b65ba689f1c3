//! PMIx: the interface that PRRTE and Slurm serve through a library of their own, loaded at run time. Every call that could
//! wait is made in its non-blocking form, or in a thread of its own, and awaited until a deadline.

mod abi;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;

pub use abi::PMIX_LIBRARY;

use super::{Channel, Launched, broken};
use crate::deadline::Step;
use crate::error::JobError;
use crate::error::clip;
use crate::hosts::HostMap;
use crate::kvs::VALUE_MAX;
use crate::layout::MAX_RANKS;
use abi::{ByteObject, Data, Info, Library, Proc, SPEAKS, Value};
use core::ffi::{CStr, c_char, c_int, c_void};
use std::ffi::CString;
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// Jobs up to this size get all cards with the fence; in larger ones each is fetched when it is asked for.
const COLLECT_UP_TO: u32 = 1024;

/// A value, copied out of the library's memory.
#[derive(Debug, PartialEq, Eq)]
enum Got {
    Text(String),
    Number(u32),
    Bytes(Vec<u8>),
    /// A kind that is not used here, by its number.
    Other(u16),
}

impl Got {
    /// # Safety
    /// `value` is a value of the library's that stays valid during the call.
    unsafe fn copy(value: &Value) -> Got {
        // SAFETY: the kind says which member of the union is there; strings and byte objects are valid as the caller
        // promises.
        unsafe {
            match value.kind {
                abi::STRING if !value.data.string.is_null() => {
                    Got::Text(CStr::from_ptr(value.data.string).to_string_lossy().into_owned())
                }
                abi::UINT32 | abi::PROC_RANK => Got::Number(value.data.uint32),
                abi::INT => u32::try_from(value.data.integer).map_or(Got::Other(abi::INT), Got::Number),
                abi::BYTE_OBJECT => {
                    let ByteObject { bytes, size } = value.data.bo;
                    if bytes.is_null() || size > 2 * VALUE_MAX {
                        return Got::Bytes(Vec::new());
                    }
                    Got::Bytes(std::slice::from_raw_parts(bytes.cast::<u8>(), size).to_vec())
                }
                kind => Got::Other(kind),
            }
        }
    }
}

/// Where a callback leaves its result. The callback owns a share of it, so that it may come after the deadline.
struct Slot {
    result: Mutex<Option<(c_int, Option<Got>)>>,
    done: Condvar,
}

impl Slot {
    fn new() -> Arc<Slot> {
        Arc::new(Slot {
            result: Mutex::new(None),
            done: Condvar::new(),
        })
    }

    fn set(&self, status: c_int, got: Option<Got>) {
        *self.result.lock().unwrap_or_else(PoisonError::into_inner) = Some((status, got));
        self.done.notify_all();
    }

    fn wait(&self, step: &Step) -> Result<(c_int, Option<Got>), JobError> {
        let mut result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(result) = result.take() {
                return Ok(result);
            }
            let left = step.left()?;
            (result, _) = self
                .done
                .wait_timeout(result, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

unsafe extern "C" fn op_done(status: c_int, slot: *mut c_void) {
    // SAFETY: the share that was given away with the call; a callback comes once.
    let slot = unsafe { Arc::from_raw(slot.cast_const().cast::<Slot>()) };
    slot.set(status, None);
}

unsafe extern "C" fn value_done(status: c_int, value: *mut Value, slot: *mut c_void) {
    // SAFETY: as in `op_done`.
    let slot = unsafe { Arc::from_raw(slot.cast_const().cast::<Slot>()) };
    let got = if value.is_null() || status != abi::SUCCESS {
        None
    } else {
        // SAFETY: a value of the library's, valid during the callback.
        Some(unsafe { Got::copy(&*value) })
    };
    slot.set(status, got);
}

/// The connection to a PMIx server, through its library.
struct Pmix {
    library: Library,
    own: Proc,
    size: u32,
    limit: Duration,
}

/// Join the job that the environment's PMIx variables tell of.
pub(crate) fn join(env: &impl Fn(&str) -> Option<String>, limit: Duration) -> Result<Launched, JobError> {
    let variable = |name| -> Result<String, JobError> {
        env(name).ok_or_else(|| JobError::variable(name, String::new(), "must be set, as PMIx launchers do"))
    };
    let text = variable("PMIX_RANK")?;
    let rank: u32 = text.parse().ok().filter(|r| *r < MAX_RANKS).ok_or_else(|| {
        JobError::variable(
            "PMIX_RANK",
            text.clone(),
            format!("must be a rank, 0 to {}", MAX_RANKS - 1),
        )
    })?;
    let namespace = variable("PMIX_NAMESPACE")?;
    if namespace.is_empty() || namespace.len() >= abi::NSPACE_LEN {
        return Err(JobError::variable(
            "PMIX_NAMESPACE",
            clip(&namespace),
            format!("must have 1 to {} characters", abi::NSPACE_LEN - 1),
        ));
    }
    join_by(Library::load(env)?, rank, &namespace, limit)
}

/// The same, of rank `rank` of job `namespace`, by a library that is loaded.
fn join_by(library: Library, rank: u32, namespace: &str, limit: Duration) -> Result<Launched, JobError> {
    let own = init(library, limit)?;
    if own.rank != rank || own.nspace != abi::chars::<{ abi::NSPACE_LEN }>(namespace.as_bytes()) {
        return Err(broken!(
            SPEAKS,
            "says this is rank {}, PMIX_RANK says {rank}",
            own.rank
        ));
    }
    let mut pmix = Pmix {
        library,
        own,
        size: 0,
        limit,
    };
    let size = match pmix.ask(abi::RANK_WILDCARD, abi::JOB_SIZE, false)? {
        Some(Got::Number(size)) if size > rank && size <= MAX_RANKS => size,
        other => {
            return Err(broken!(
                SPEAKS,
                "says that the job's size is {other:?}; {} to {MAX_RANKS} are possible",
                rank + 1
            ));
        }
    };
    pmix.size = size;
    let number = |of, key| match pmix.ask(of, key, true) {
        Ok(Some(Got::Number(n))) => Some(n),
        _ => None,
    };
    let appnum = number(rank, abi::APPNUM).unwrap_or(0);
    let universe = number(abi::RANK_WILDCARD, abi::UNIV_SIZE)
        .unwrap_or(size)
        .max(size);
    let hosts = pmix.hosts()?;
    Ok(Launched {
        rank,
        size,
        appnum,
        universe,
        hosts,
        channel: Box::new(pmix),
    })
}

/// `PMIx_Init`, which has no non-blocking form, in a thread that is left behind when it takes too long.
fn init(library: Library, limit: Duration) -> Result<Proc, JobError> {
    let step = Step::begin("the PMIx launcher's answer to PMIx_Init", limit);
    let (send, receive) = mpsc::channel();
    std::thread::Builder::new()
        .name("farpost-pmix".into())
        .spawn(move || {
            let mut own = Proc {
                nspace: [0; abi::NSPACE_LEN],
                rank: 0,
            };
            // SAFETY: the process is written by the call; there is no information to pass.
            let status = unsafe { (library.init)(&mut own, std::ptr::null(), 0) };
            let _ = send.send((status, own));
        })
        .map_err(|source| JobError::system("starting a thread for PMIx_Init", source))?;
    match receive.recv_timeout(step.left()?) {
        Ok((abi::SUCCESS, own)) => Ok(own),
        Ok((status, _)) => Err(broken!(SPEAKS, "refused PMIx_Init: {}", library.say(status))),
        Err(_) => Err(step.late()),
    }
}

impl Pmix {
    fn process(&self, rank: u32) -> Proc {
        Proc { rank, ..self.own }
    }

    /// The value of `key` of rank `of`. `known`: only if it is here already.
    fn ask(&self, of: u32, key: &CStr, known: bool) -> Result<Option<Got>, JobError> {
        let step = Step::begin(
            format!(
                "the PMIx launcher's answer to PMIx_Get of {} of rank {}",
                key.to_string_lossy(),
                of as i32
            ),
            self.limit,
        );
        let seconds = c_int::try_from(self.limit.as_secs()).unwrap_or(c_int::MAX);
        let info = if known {
            Info::new(abi::OPTIONAL, abi::BOOL, Data { flag: true })
        } else {
            Info::new(abi::TIMEOUT, abi::INT, Data { integer: seconds })
        };
        // The library reads both until it calls back, which may be after the deadline.
        let asked = Box::leak(Box::new((self.process(of), info, key.to_owned())));
        let slot = Slot::new();
        let share = Arc::into_raw(slot.clone());
        // SAFETY: all that is passed lives until the callback, which takes over the share.
        let status = unsafe {
            (self.library.get_nb)(
                &asked.0,
                asked.2.as_ptr(),
                &asked.1,
                1,
                value_done,
                share.cast_mut().cast(),
            )
        };
        if status != abi::SUCCESS {
            // SAFETY: no callback comes when the call is refused.
            drop(unsafe { Arc::from_raw(share) });
        }
        let (status, got) = match status {
            abi::SUCCESS => slot.wait(&step)?,
            refused => (refused, None),
        };
        // SAFETY: it was leaked above, and the library is done with it: the callback has come, or the call was refused.
        drop(unsafe { Box::from_raw(std::ptr::from_mut(asked)) });
        match (status, got) {
            (abi::SUCCESS, Some(got)) => Ok(Some(got)),
            (abi::ERR_NOT_FOUND | abi::SUCCESS, _) => Ok(None),
            (abi::ERR_TIMEOUT, _) => Err(step.late()),
            _ if known => Ok(None),
            (status, _) => Err(broken!(
                SPEAKS,
                "has no {} of rank {}: {}",
                key.to_string_lossy(),
                of as i32,
                self.library.say(status)
            )),
        }
    }

    /// Who is where: a process mapping as PMI has it, or else what is known of each rank.
    fn hosts(&self) -> Result<Option<HostMap>, JobError> {
        if self.size == 1 {
            return Ok(Some(HostMap::single(1)));
        }
        if let Some(Got::Text(text)) = self.ask(abi::RANK_WILDCARD, abi::ANL_MAP, true)? {
            return HostMap::parse(&text, self.size).map_err(|why| broken(SPEAKS, why));
        }
        for key in [abi::NODEID, abi::HOSTNAME] {
            let mut nodes = Vec::with_capacity(self.size as usize);
            for rank in 0..self.size {
                match self.ask(rank, key, true)? {
                    Some(Got::Number(n)) => nodes.push(n.to_string()),
                    Some(Got::Text(name)) => nodes.push(name),
                    _ => break,
                }
            }
            if nodes.len() == self.size as usize {
                return Ok(Some(HostMap::of(nodes)));
            }
        }
        Ok(None)
    }

    fn check(&self, what: &str, status: c_int) -> Result<(), JobError> {
        match status {
            abi::SUCCESS | abi::OPERATION_SUCCEEDED => Ok(()),
            status => Err(broken!(SPEAKS, "refused {what}: {}", self.library.say(status))),
        }
    }
}

fn c_key(key: &str) -> Result<CString, JobError> {
    CString::new(format!("farpost-{key}"))
        .ok()
        .filter(|name| !key.is_empty() && name.as_bytes().len() < abi::KEY_LEN)
        .ok_or_else(|| JobError::Kvs(format!("key '{}' cannot be used with PMIx", clip(key))))
}

impl Channel for Pmix {
    fn put(&mut self, _rank: u32, key: &str, value: &[u8]) -> Result<(), JobError> {
        let name = c_key(key)?;
        if value.len() > VALUE_MAX {
            return Err(JobError::Kvs(format!(
                "value of {} bytes for key {key}; allowed are 0 to {VALUE_MAX}",
                value.len()
            )));
        }
        // Never empty, which not every version of the library carries.
        let mut bytes = [b"+", value].concat();
        let mut object = Value {
            kind: abi::BYTE_OBJECT,
            data: Data {
                bo: ByteObject {
                    bytes: bytes.as_mut_ptr().cast::<c_char>(),
                    size: bytes.len(),
                },
            },
        };
        // SAFETY: key and value outlive the call, which copies them.
        let status = unsafe { (self.library.put)(abi::GLOBAL, name.as_ptr(), &mut object) };
        self.check("PMIx_Put", status)
    }

    fn fence(&mut self) -> Result<(), JobError> {
        // SAFETY: no arguments.
        let status = unsafe { (self.library.commit)() };
        self.check("PMIx_Commit", status)?;
        let step = Step::begin("all ranks to reach a fence of the PMIx launcher", self.limit);
        let collect = self.size <= COLLECT_UP_TO;
        // The library reads both until it calls back, which may be after the deadline.
        let asked = Box::leak(Box::new((
            self.process(abi::RANK_WILDCARD),
            Info::new(abi::COLLECT_DATA, abi::BOOL, Data { flag: collect }),
        )));
        let slot = Slot::new();
        let share = Arc::into_raw(slot.clone());
        // SAFETY: all that is passed lives until the callback, which takes over the share.
        let status =
            unsafe { (self.library.fence_nb)(&asked.0, 1, &asked.1, 1, op_done, share.cast_mut().cast()) };
        if status != abi::SUCCESS {
            // SAFETY: no callback comes when the call is refused or done already.
            drop(unsafe { Arc::from_raw(share) });
        }
        let status = match status {
            abi::SUCCESS => slot.wait(&step)?.0,
            at_once => at_once,
        };
        // SAFETY: it was leaked above, and the library is done with it: the callback has come, or never will.
        drop(unsafe { Box::from_raw(std::ptr::from_mut(asked)) });
        match status {
            abi::ERR_TIMEOUT => Err(step.late()),
            status => self.check("PMIx_Fence", status),
        }
    }

    fn get(&mut self, of: u32, key: &str) -> Result<Option<Vec<u8>>, JobError> {
        let name = c_key(key)?;
        match self.ask(of, &name, false)? {
            None => Ok(None),
            Some(Got::Bytes(bytes)) if bytes.first() == Some(&b'+') => Ok(Some(bytes[1..].to_vec())),
            Some(other) => Err(broken!(
                SPEAKS,
                "what rank {of} put as '{key}' came back as {}",
                clip(&format!("{other:?}"))
            )),
        }
    }

    fn finalize(&mut self) -> Result<(), JobError> {
        // SAFETY: there is no information to pass; nothing is asked of the library afterwards.
        let status = unsafe { (self.library.finalize)(std::ptr::null(), 0) };
        self.check("PMIx_Finalize", status)
    }

    fn abort(&mut self, status: i32, message: &str) -> Result<(), JobError> {
        let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the text outlives the call; no processes means all of the job.
        let status = unsafe { (self.library.abort)(status, text.as_ptr(), std::ptr::null(), 0) };
        self.check("PMIx_Abort", status)
    }
}
