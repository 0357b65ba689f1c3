//! Messages between a process and its host's agent: whole ones (`SOCK_SEQPACKET`), with descriptors beside the first.

use super::LONGEST;
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, UCred, recvmsg, sendmsg,
    socket_with,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Where the agent of this user is reached.
pub fn address(owner: u32) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(format!("farpost-portals-{owner}").as_bytes())
}

/// A socket for it.
pub fn socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC | flags,
        None,
    )
}

/// Who is at the other end, by the kernel's word.
pub fn peer(of: impl AsFd) -> Result<UCred, Errno> {
    socket_peercred(of)
}

/// Send words, and descriptors beside them.
pub fn send(to: impl AsFd, words: &[u64], beside: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !beside.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(beside));
    }
    loop {
        match sendmsg(&to, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(()),
        }
    }
}

/// Words, and descriptors beside them.
pub type Message = (Vec<u64>, Vec<OwnedFd>);

/// What has come: words, and descriptors beside them. `None`: the other side has ended, or what came is no message.
pub fn receive(from: impl AsFd) -> Result<Option<Message>, Errno> {
    let mut bytes = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let mut into = [IoSliceMut::new(&mut bytes)];
        match recvmsg(&from, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut beside = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            beside.extend(descriptors);
        }
    }
    let whole = !got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    let (words, rest) = bytes[..got.bytes.min(LONGEST)].as_chunks::<8>();
    if words.is_empty() || !rest.is_empty() || !whole {
        return Ok(None);
    }
    let words = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    Ok(Some((words, beside)))
}
