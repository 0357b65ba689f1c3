//! Sessions of performance variables and their handles (MPI-5.0 section 15.3.7): what one session does, no other one sees.

use super::{Measure, Tools, What, no_handle};
use crate::Result;
use std::collections::BTreeMap;

/// Objects by names that are never given out twice.
pub(super) struct Named<T> {
    next: usize,
    all: BTreeMap<usize, T>,
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self {
            // Above the ABI's constants.
            next: 0x1000,
            all: BTreeMap::new(),
        }
    }
}

impl<T> Named<T> {
    pub(super) fn add(&mut self, value: T) -> usize {
        let name = self.next;
        self.next += 16;
        self.all.insert(name, value);
        name
    }

    pub(super) fn get(&self, name: usize) -> Option<&T> {
        self.all.get(&name)
    }

    pub(super) fn remove(&mut self, name: usize) -> Option<T> {
        self.all.remove(&name)
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
    }
}

/// One handle, or all of a session (`MPI_T_PVAR_ALL_HANDLES`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    One(usize),
    All,
}

/// A variable in a session.
pub struct Handle {
    session: usize,
    measure: usize,
    /// The processes that it has a value of; none of one that is bound to nothing, which has one value.
    peers: Vec<u32>,
    running: bool,
    /// What there was when it began to count, and what it had counted before.
    base: Vec<u64>,
    before: Vec<u64>,
    /// What was seen last.
    seen: std::cell::RefCell<Vec<u64>>,
}

/// Where values come from; `None`: they cannot be asked for any more.
pub type Values<'a> = dyn Fn(What, &[u32]) -> Option<Vec<u64>> + 'a;

impl Handle {
    /// Values of the variable.
    pub fn count(&self) -> usize {
        self.base.len()
    }

    fn now(&self, what: What, values: &Values<'_>) -> Vec<u64> {
        if let Some(now) = values(what, &self.peers).filter(|now| now.len() == self.base.len()) {
            self.seen.replace(now);
        }
        self.seen.borrow().clone()
    }

    fn value(&self, measure: &Measure, values: &Values<'_>) -> Vec<u64> {
        let counts = !measure.is_read_only();
        if counts && !self.running {
            return self.before.clone();
        }
        let now = self.now(measure.what, values);
        if !counts {
            return now;
        }
        let since = now
            .iter()
            .zip(&self.base)
            .map(|(now, base)| now.wrapping_sub(*base));
        since
            .zip(&self.before)
            .map(|(since, before)| since.wrapping_add(*before))
            .collect()
    }
}

impl Tools {
    /// `MPI_T_pvar_session_create`.
    pub fn open_session(&mut self) -> usize {
        self.sessions.add(())
    }

    /// `MPI_T_pvar_session_free`: its handles go.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_SESSION`.
    pub fn close_session(&mut self, session: usize) -> Result<()> {
        self.session(session)?;
        self.sessions.remove(session);
        self.handles.all.retain(|_, handle| handle.session != session);
        Ok(())
    }

    /// Whether there is such a session.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_SESSION`.
    pub fn session(&self, session: usize) -> Result<()> {
        match self.sessions.get(session) {
            Some(()) => Ok(()),
            None => fail!(T_ERR_INVALID_SESSION: "not a session of performance variables, or freed"),
        }
    }

    /// `MPI_T_pvar_handle_alloc`, of a variable that has a value for each of `peers`, or one.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_SESSION`, `MPI_T_ERR_INVALID_INDEX`.
    pub fn open(
        &mut self,
        session: usize,
        index: i32,
        peers: Vec<u32>,
        values: &Values<'_>,
    ) -> Result<usize> {
        self.session(session)?;
        let measure = Self::at(&self.measures, index)?;
        let count = if measure.of_comm() { peers.len() } else { 1 };
        let mut handle = Handle {
            session,
            measure: index as usize,
            peers,
            running: measure.is_continuous(),
            base: vec![0; count],
            before: vec![0; count],
            seen: vec![0; count].into(),
        };
        handle.base = handle.now(measure.what, values);
        Ok(self.handles.add(handle))
    }

    /// `MPI_T_pvar_handle_free`.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_SESSION`, `MPI_T_ERR_INVALID_HANDLE`.
    pub fn close(&mut self, session: usize, handle: usize) -> Result<()> {
        self.handle(session, handle)?;
        self.handles.remove(handle);
        Ok(())
    }

    /// A handle of a session, and its variable.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_SESSION`, `MPI_T_ERR_INVALID_HANDLE`.
    pub fn handle(&self, session: usize, handle: usize) -> Result<(&Handle, &Measure)> {
        self.session(session)?;
        let found = self.handles.get(handle).filter(|found| found.session == session);
        let found = found.ok_or_else(no_handle)?;
        Ok((found, &self.measures[found.measure]))
    }

    /// `MPI_T_pvar_read`.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID_SESSION`, `MPI_T_ERR_INVALID_HANDLE`.
    pub fn read(&self, session: usize, handle: usize, values: &Values<'_>) -> Result<Vec<u64>> {
        let (handle, measure) = self.handle(session, handle)?;
        Ok(handle.value(measure, values))
    }

    /// Do something with one handle, for which it may be refused, or with all of a session for which it is not.
    fn each(
        &mut self,
        session: usize,
        target: Target,
        refused: impl Fn(&Measure) -> Result<()>,
        mut change: impl FnMut(&mut Handle, &Measure),
    ) -> Result<()> {
        match target {
            Target::One(handle) => {
                refused(self.handle(session, handle)?.1)?;
                if let Some(handle) = self.handles.all.get_mut(&handle) {
                    change(handle, &self.measures[handle.measure]);
                }
            }
            Target::All => {
                self.session(session)?;
                for handle in self
                    .handles
                    .all
                    .values_mut()
                    .filter(|handle| handle.session == session)
                {
                    let measure = &self.measures[handle.measure];
                    if refused(measure).is_ok() {
                        change(handle, measure);
                    }
                }
            }
        }
        Ok(())
    }

    /// `MPI_T_pvar_start`.
    ///
    /// # Errors
    /// `MPI_T_ERR_PVAR_NO_STARTSTOP`: it is always active. And those of [`read`](Self::read).
    pub fn start(&mut self, session: usize, target: Target, values: &Values<'_>) -> Result<()> {
        self.each(session, target, startable, |handle, measure| {
            if !handle.running {
                handle.running = true;
                handle.base = handle.now(measure.what, values);
            }
        })
    }

    /// `MPI_T_pvar_stop`.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn stop(&mut self, session: usize, target: Target, values: &Values<'_>) -> Result<()> {
        self.each(session, target, startable, |handle, measure| {
            if handle.running {
                handle.before = handle.value(measure, values);
                handle.running = false;
            }
        })
    }

    /// `MPI_T_pvar_reset`: it counts from nothing again.
    ///
    /// # Errors
    /// `MPI_T_ERR_PVAR_NO_WRITE`: it only can be read. And those of [`read`](Self::read).
    pub fn reset(&mut self, session: usize, target: Target, values: &Values<'_>) -> Result<()> {
        self.each(session, target, writable, |handle, measure| {
            handle.before.fill(0);
            handle.base = handle.now(measure.what, values);
        })
    }

    /// `MPI_T_pvar_write`.
    ///
    /// # Errors
    /// As [`reset`](Self::reset).
    pub fn write(&mut self, session: usize, handle: usize, new: &[u64], values: &Values<'_>) -> Result<()> {
        self.each(session, Target::One(handle), writable, |handle, measure| {
            handle.base = handle.now(measure.what, values);
            handle.before.copy_from_slice(new);
        })
    }
}

fn startable(measure: &Measure) -> Result<()> {
    if measure.is_continuous() {
        return fail!(T_ERR_PVAR_NO_STARTSTOP: "{} is always active", measure.name);
    }
    Ok(())
}

fn writable(measure: &Measure) -> Result<()> {
    if measure.is_read_only() {
        return fail!(T_ERR_PVAR_NO_WRITE: "{} only can be read", measure.name);
    }
    Ok(())
}
