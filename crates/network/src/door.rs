//! A port inside the network of a confined command, handed to the proxy outside.
//!
//! The network of a confined command has no way out. A socket belongs to the network in which it was made, whoever holds it:
//! the helper opens a port inside, sends it through a socket in the file system to the proxy, and the proxy answers there.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The proxy's answer to a port that it serves from now on.
pub(crate) const SERVED: u8 = b'k';

/// For the other side to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Opens a port in the network of this process that the proxy behind `socket` serves under the pass `number`. Gives the port;
/// it is on 127.0.0.1.
///
/// # Errors
/// The proxy is gone, or does not know the pass.
pub fn enter(socket: &Path, number: u64) -> io::Result<u16> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut attached = SendAncillaryBuffer::new(&mut space);
    let sockets = [listener.as_fd()];
    attached.push(SendAncillaryMessage::ScmRights(&sockets));
    let number = number.to_be_bytes();
    rustix::net::sendmsg(&stream, &[IoSlice::new(&number)], &mut attached, SendFlags::empty())?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    if answer == [SERVED] { Ok(port) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// The other side: the pass and the port that a helper sent. `None` if it sent something else.
pub(crate) fn receive(stream: &impl std::os::fd::AsFd) -> io::Result<Option<(u64, TcpListener)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut attached = RecvAncillaryBuffer::new(&mut space);
    let mut number = [0; 8];
    let got = rustix::net::recvmsg(
        stream,
        &mut [IoSliceMut::new(&mut number)],
        &mut attached,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut sockets = attached.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(sockets) => sockets.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let listener = sockets.next().map(TcpListener::from);
    Ok(listener.filter(|_| got.bytes == number.len()).map(|listener| (u64::from_be_bytes(number), listener)))
}
