//! An endpoint with its completion queue, address vector and domain, and the calls on them: what the headers
//! have as inline functions.
//!
//! Cost class: sending, posting and reading completions are *fast path* (what the provider does there is its own
//! affair); the rest is *set-up path*.

use super::ffi;
use super::library::{Infos, Library, OfiError, text};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::rc::Rc;

/// What became of an operation offered to the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// Under way.
    Taken,
    /// No room now: make progress, then offer it again.
    Again,
    /// It cannot be done; libfabric's error number.
    Failed(c_int),
}

impl Offered {
    #[inline(always)]
    fn of(code: isize) -> Self {
        match code {
            0 => Offered::Taken,
            code if code == -(ffi::FI_EAGAIN as isize) => Offered::Again,
            code => Offered::Failed(-code as c_int),
        }
    }
}

/// What reading the completion queue gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completions {
    /// So many entries were written.
    Some(usize),
    /// None waited.
    None,
    /// An error waits: [`Endpoint::take_error`].
    Error,
    /// The queue itself is broken.
    Broken(c_int),
}

/// An operation that failed.
pub struct FailedOperation {
    /// The context given with it; null for what was injected.
    pub context: *mut c_void,
    /// libfabric's error number.
    pub error: c_int,
    /// A sentence.
    pub why: String,
}

/// The opened objects. Closed in the reverse order of their making.
pub struct Endpoint {
    library: &'static Library,
    info: Infos,
    fabric: *mut ffi::FidFabric,
    domain: *mut ffi::FidDomain,
    av: *mut ffi::FidAv,
    cq: *mut ffi::FidCq,
    ep: Cell<*mut ffi::FidEp>,
    wait: Option<RawFd>,
    /// What of registration the provider asks for, and what is done besides.
    mr_mode: c_int,
    /// What it was opened with.
    pub attr: Attributes,
    /// Operations that the provider has taken, and their bytes.
    pub sent: Taken,
    /// Messages and reads that are complete, and their bytes.
    pub received: Taken,
}

/// What an endpoint has carried in one direction.
#[derive(Default)]
pub struct Taken {
    pub count: Cell<u64>,
    pub bytes: Cell<u64>,
}

impl Taken {
    /// One more, if the provider took it.
    #[inline]
    fn note(&self, offered: Offered, bytes: usize) -> Offered {
        if offered == Offered::Taken {
            self.add(bytes);
        }
        offered
    }

    /// One more.
    #[inline]
    pub fn add(&self, bytes: usize) {
        self.count.set(self.count.get() + 1);
        self.bytes.set(self.bytes.get() + bytes as u64);
    }
}

/// What an endpoint's description says of its parts.
#[derive(Clone, Copy)]
pub struct Attributes {
    pub domain: ffi::DomainAttr,
    pub tx: ffi::TxAttr,
    pub rx: ffi::RxAttr,
    pub ep: ffi::EpAttr,
}

impl Attributes {
    /// Those of a description.
    pub fn of(info: &ffi::Info) -> Self {
        // SAFETY: every description of the library's has these parts, and they live as long as it.
        unsafe {
            Self {
                domain: *info.domain_attr,
                tx: *info.tx_attr,
                rx: *info.rx_attr,
                ep: *info.ep_attr,
            }
        }
    }
}

impl Endpoint {
    /// Open everything for `info` and enable the endpoint. Completions come with a file descriptor to sleep on where
    /// the provider has one.
    pub fn open(
        library: &'static Library,
        info: Infos,
        completions: usize,
        register: bool,
    ) -> Result<Self, OfiError> {
        let attr = Attributes::of(info.iter().next().expect("an endpoint has a description"));
        let mut endpoint = Self {
            library,
            info,
            fabric: std::ptr::null_mut(),
            domain: std::ptr::null_mut(),
            av: std::ptr::null_mut(),
            cq: std::ptr::null_mut(),
            ep: Cell::new(std::ptr::null_mut()),
            wait: None,
            mr_mode: attr.domain.mr_mode | if register { ffi::FI_MR_LOCAL } else { 0 },
            attr,
            sent: Taken::default(),
            received: Taken::default(),
        };
        endpoint.open_all(completions)?;
        Ok(endpoint)
    }

    fn open_all(&mut self, completions: usize) -> Result<(), OfiError> {
        let info = self.info.as_ptr();
        let nobody = std::ptr::null_mut();
        // SAFETY: `info` came from the library with all its parts; each object is opened on those before it, as the
        // headers' inline functions do; all out-parameters are fields of `self` or locals; attributes live until
        // their call returns.
        unsafe {
            let code = (self.library.fabric)((*info).fabric_attr, &raw mut self.fabric, nobody);
            self.check("fi_fabric", code)?;
            let code = ((*(*self.fabric).ops).domain)(self.fabric, info, &raw mut self.domain, nobody);
            self.check("fi_domain", code)?;
            let mut attributes = ffi::AvAttr {
                r#type: self.attr.domain.av_type,
                rx_ctx_bits: 0,
                // A guess: how many there will be is not known yet.
                count: 256,
                ep_per_node: 0,
                name: std::ptr::null(),
                map_addr: std::ptr::null_mut(),
                flags: 0,
            };
            let ops = (*self.domain).ops;
            let code = ((*ops).av_open)(self.domain, &raw mut attributes, &raw mut self.av, nobody);
            self.check("fi_av_open", code)?;
            for wait_obj in [ffi::FI_WAIT_FD, ffi::FI_WAIT_NONE] {
                let mut attributes = ffi::CqAttr {
                    size: completions,
                    flags: 0,
                    format: ffi::FI_CQ_FORMAT_MSG,
                    wait_obj,
                    signaling_vector: 0,
                    wait_cond: 0,
                    wait_set: std::ptr::null(),
                };
                let code = ((*ops).cq_open)(self.domain, &raw mut attributes, &raw mut self.cq, nobody);
                if code == 0 {
                    if wait_obj == ffi::FI_WAIT_FD {
                        let mut fd: c_int = -1;
                        let fid = &raw mut (*self.cq).fid;
                        let code = ((*(*fid).ops).control)(fid, ffi::FI_GETWAIT, (&raw mut fd).cast());
                        self.wait = (code == 0 && fd >= 0).then_some(fd);
                    }
                    break;
                }
                if wait_obj == ffi::FI_WAIT_NONE {
                    self.check("fi_cq_open", code)?;
                }
            }
            let code = ((*ops).endpoint)(self.domain, info, self.ep.as_ptr(), nobody);
            self.check("fi_endpoint", code)?;
            let fid = &raw mut (*self.ep.get()).fid;
            let code = ((*(*fid).ops).bind)(fid, &raw mut (*self.av).fid, 0);
            self.check("fi_ep_bind (address vector)", code)?;
            let code = ((*(*fid).ops).bind)(fid, &raw mut (*self.cq).fid, ffi::FI_TRANSMIT | ffi::FI_RECV);
            self.check("fi_ep_bind (completion queue)", code)?;
            let code = ((*(*fid).ops).control)(fid, ffi::FI_ENABLE, nobody);
            self.check("fi_enable", code)
        }
    }

    fn check(&self, what: &'static str, code: c_int) -> Result<(), OfiError> {
        if code == 0 {
            return Ok(());
        }
        Err(OfiError::Call {
            provider: self.provider(),
            what,
            why: self.library.explain(code),
        })
    }

    /// The description that it was opened with.
    pub fn info(&self) -> &ffi::Info {
        self.info.iter().next().expect("an endpoint has a description")
    }

    /// What of registration is to be done (`FI_MR_*`).
    #[inline]
    pub fn mr_mode(&self) -> c_int {
        self.mr_mode
    }

    /// The provider's name.
    pub fn provider(&self) -> String {
        // SAFETY: every description of the library's has this part.
        text(unsafe { (*self.info().fabric_attr).prov_name })
    }

    /// The library it belongs to.
    pub fn library(&self) -> &'static Library {
        self.library
    }

    /// Its own address.
    pub fn address(&self) -> Result<Vec<u8>, OfiError> {
        let mut bytes = vec![0u8; 256];
        let mut len = bytes.len();
        // SAFETY: the endpoint is open and has a table for this; the buffer has `len` writable bytes.
        let code = unsafe {
            let fid = &raw mut (*self.ep.get()).fid;
            ((*(*self.ep.get()).cm).getname)(fid, bytes.as_mut_ptr().cast(), &raw mut len)
        };
        self.check("fi_getname", code)?;
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Make a peer's address usable.
    pub fn insert(&self, address: &[u8]) -> Result<u64, String> {
        let mut handle = ffi::FI_ADDR_NOTAVAIL;
        // SAFETY: the vector is open; the address is one that the same kind of provider gave out and that fits
        // its format's size, which the caller has checked.
        let inserted = unsafe {
            ((*(*self.av).ops).insert)(
                self.av,
                address.as_ptr().cast(),
                1,
                &raw mut handle,
                0,
                std::ptr::null_mut(),
            )
        };
        if inserted == 1 && handle != ffi::FI_ADDR_NOTAVAIL {
            return Ok(handle);
        }
        Err(if inserted < 0 {
            self.library.explain(inserted)
        } else {
            "the provider does not take it".into()
        })
    }

    /// Send without a completion; the bytes are taken before this returns.
    #[inline]
    pub fn inject(&self, bytes: &[u8], to: u64) -> Offered {
        // SAFETY: the endpoint is open; an injected buffer is the caller's again when the call returns.
        let offered = Offered::of(unsafe {
            ((*(*self.ep.get()).msg).inject)(self.ep.get(), bytes.as_ptr().cast(), bytes.len(), to)
        });
        self.sent.note(offered, bytes.len())
    }

    /// Send.
    ///
    /// # Safety
    /// `at` for `len` bytes, and `context`, which has room for a `fi_context2`, are left alone until the completion.
    #[inline]
    pub unsafe fn send(
        &self,
        (at, len): (*const u8, usize),
        desc: *mut c_void,
        to: u64,
        context: *mut c_void,
    ) -> Offered {
        // SAFETY: the endpoint is open; the caller vouches for the memory.
        let offered = Offered::of(unsafe {
            ((*(*self.ep.get()).msg).send)(self.ep.get(), at.cast(), len, desc, to, context)
        });
        self.sent.note(offered, len)
    }

    /// Offer a buffer to receive into.
    ///
    /// # Safety
    /// As for [`send`](Self::send); the memory is written.
    #[inline]
    pub unsafe fn receive(
        &self,
        (at, len): (*mut u8, usize),
        desc: *mut c_void,
        context: *mut c_void,
    ) -> Offered {
        let from = ffi::FI_ADDR_UNSPEC;
        // SAFETY: as for `send`.
        Offered::of(unsafe {
            ((*(*self.ep.get()).msg).recv)(self.ep.get(), at.cast(), len, desc, from, context)
        })
    }

    /// Read from a peer's registered memory.
    ///
    /// # Safety
    /// As for [`receive`](Self::receive).
    pub unsafe fn read(
        &self,
        (at, len): (*mut u8, usize),
        desc: *mut c_void,
        (peer, address, key): (u64, u64, u64),
        context: *mut c_void,
    ) -> Offered {
        // SAFETY: as for `send`.
        let offered = Offered::of(unsafe {
            ((*(*self.ep.get()).rma).read)(self.ep.get(), at.cast(), len, desc, peer, address, key, context)
        });
        self.received.note(offered, len)
    }

    /// Write to a peer's registered memory; the completion means that the bytes are there.
    ///
    /// # Safety
    /// As for [`send`](Self::send).
    pub unsafe fn write(
        &self,
        (at, len): (*const u8, usize),
        desc: *mut c_void,
        (peer, address, key): (u64, u64, u64),
        context: *mut c_void,
    ) -> Offered {
        let local = ffi::IoVec {
            iov_base: at.cast_mut().cast(),
            iov_len: len,
        };
        let remote = ffi::RmaIov {
            addr: address,
            len,
            key,
        };
        let mut desc = desc;
        let message = ffi::MsgRma {
            msg_iov: &raw const local,
            desc: &raw mut desc,
            iov_count: 1,
            addr: peer,
            rma_iov: &raw const remote,
            rma_iov_count: 1,
            context,
            data: 0,
        };
        // SAFETY: as for `send`; the description is read before the call returns.
        let code = unsafe {
            ((*(*self.ep.get()).rma).writemsg)(
                self.ep.get(),
                &raw const message,
                ffi::FI_DELIVERY_COMPLETE | 1 << 24,
            )
        };
        self.sent.note(Offered::of(code), len)
    }

    /// Take completions into the first of `entries`.
    #[inline]
    pub fn completions(&self, entries: &mut [MaybeUninit<ffi::CqMsgEntry>]) -> Completions {
        // SAFETY: the queue is open and was made for entries of this form; so many are writable.
        let got = unsafe { ((*(*self.cq).ops).read)(self.cq, entries.as_mut_ptr().cast(), entries.len()) };
        match got {
            got if got > 0 => Completions::Some((got as usize).min(entries.len())),
            got if got == -(ffi::FI_EAGAIN as isize) || got == 0 => Completions::None,
            got if got == -(ffi::FI_EAVAIL as isize) => Completions::Error,
            got => Completions::Broken(-got as c_int),
        }
    }

    /// The error that [`Completions::Error`] announced.
    pub fn take_error(&self) -> Option<FailedOperation> {
        /// Newer libraries know more fields at the end.
        #[repr(C)]
        struct Roomy {
            entry: ffi::CqErrEntry,
            more: [u64; 8],
        }
        // SAFETY: all fields are numbers or pointers, for which zero is a value.
        let mut roomy: Roomy = unsafe { std::mem::zeroed() };
        // SAFETY: the queue is open; the entry is writable and no shorter than the library expects.
        let got = unsafe { ((*(*self.cq).ops).readerr)(self.cq, (&raw mut roomy).cast(), 0) };
        if got != 1 {
            return None;
        }
        let entry = roomy.entry;
        // SAFETY: the queue is open; the error's data are valid until the queue is read again; no buffer is given.
        let detail = text(unsafe {
            ((*(*self.cq).ops).strerror)(self.cq, entry.prov_errno, entry.err_data, std::ptr::null_mut(), 0)
        });
        let general = self.library.explain(entry.err);
        let why = if detail.is_empty() || detail == general || entry.prov_errno == 0 {
            general
        } else {
            format!("{general}: {detail}")
        };
        Some(FailedOperation {
            context: entry.op_context,
            error: entry.err,
            why,
        })
    }

    /// A descriptor that is readable when there may be completions, where the provider has one.
    pub fn wait_descriptor(&self) -> Option<RawFd> {
        self.wait
    }

    /// Whether one may wait for the descriptor now (`fi_trywait`).
    pub fn may_wait(&self) -> bool {
        // SAFETY: the fabric and the queue are open; the list of one lives until the call returns.
        let code = unsafe {
            let mut queue = &raw mut (*self.cq).fid;
            ((*(*self.fabric).ops).trywait)(self.fabric, &raw mut queue, 1)
        };
        code == 0
    }

    /// Register memory. `key` is asked for; where the provider chooses keys it is not looked at.
    pub fn register(
        self: &Rc<Self>,
        (at, len): (*mut u8, usize),
        access: u64,
        key: u64,
    ) -> Result<Registration, (c_int, String)> {
        let mut mr: *mut ffi::FidMr = std::ptr::null_mut();
        let fail = |code: c_int| (-code, self.library.explain(code));
        // SAFETY: the domain is open. Registering does not touch the bytes; whoever uses the registration vouches for
        // them. Binding and enabling are what providers with registrations per endpoint ask for.
        unsafe {
            let domain = &raw mut (*self.domain).fid;
            let reg = (*(*self.domain).mr).reg;
            let code = reg(
                domain,
                at.cast_const().cast(),
                len,
                access,
                0,
                key,
                0,
                &raw mut mr,
                std::ptr::null_mut(),
            );
            if code != 0 {
                return Err(fail(code));
            }
            let registration = Registration {
                mr,
                endpoint: Rc::clone(self),
            };
            if self.mr_mode & ffi::FI_MR_ENDPOINT != 0 {
                let fid = &raw mut (*mr).fid;
                let code = ((*(*fid).ops).bind)(fid, &raw mut (*self.ep.get()).fid, 0);
                if code != 0 {
                    return Err(fail(code));
                }
                let code = ((*(*fid).ops).control)(fid, ffi::FI_ENABLE, std::ptr::null_mut());
                if code != 0 {
                    return Err(fail(code));
                }
            }
            Ok(registration)
        }
    }
}

/// Close an object if it was opened.
///
/// # Safety
/// `fid` is null or an open object that nothing uses any more.
unsafe fn close(fid: *mut ffi::Fid) {
    if !fid.is_null() {
        // SAFETY: the caller vouches for the object.
        unsafe { ((*(*fid).ops).close)(fid) };
    }
}

impl Endpoint {
    /// Close the endpoint itself, before the buffers that it was given and their registrations go.
    ///
    /// # Safety
    /// Nothing is called after this.
    pub unsafe fn close(&self) {
        // SAFETY: an endpoint starts with its `fid`; the caller vouches for the rest. Closed once: it is null after.
        unsafe { close(self.ep.replace(std::ptr::null_mut()).cast()) };
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: every object starts with its `fid`; each is closed once, before those that it was made on. Registrations
        // hold the endpoint, so none is left.
        unsafe {
            close(self.ep.get().cast());
            close(self.cq.cast());
            close(self.av.cast());
            close(self.domain.cast());
            close(self.fabric.cast());
        }
    }
}

/// Registered memory; ends with this value.
pub struct Registration {
    mr: *mut ffi::FidMr,
    endpoint: Rc<Endpoint>,
}

impl Registration {
    /// What operations on the memory must be given.
    pub fn desc(&self) -> *mut c_void {
        // SAFETY: open for as long as `self` lives.
        unsafe { (*self.mr).mem_desc }
    }

    /// What peers must give.
    pub fn key(&self) -> u64 {
        // SAFETY: as for `desc`.
        unsafe { (*self.mr).key }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _open = &self.endpoint;
        // SAFETY: open, and closed once; the endpoint's domain is open still.
        unsafe {
            let fid = &raw mut (*self.mr).fid;
            ((*(*fid).ops).close)(fid);
        }
    }
}
