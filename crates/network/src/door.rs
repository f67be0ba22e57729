//! Opens a port inside the network of a confined command and hands it to the proxy outside.
//!
//! The network of a confined command has no route out. A socket belongs to the network namespace in which it was made,
//! even if another process owns it. So the helper opens a port inside and sends it to the proxy through a Unix socket
//! in the file system. The proxy then accepts the connections to this port.

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

/// The byte that the proxy sends when it serves the port.
pub(crate) const SERVED: u8 = b'k';

/// Time limit for an answer of the other side.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Opens a port in the network of this process. The proxy behind `socket` serves the port for the [`Pass`](crate::Pass) with this
/// number. Returns the port; its address is 127.0.0.1.
///
/// # Errors
///
/// Fails if the proxy has exited or does not know the pass.
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

/// The proxy's side: receives the pass and the port that a helper sent. `None` if it sent anything else.
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
