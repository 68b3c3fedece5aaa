//! Listening sockets.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

/// Connections that the kernel accepts before the process does.
const BACKLOG: i32 = 1024;

/// Listens on the first address of `host:port` that can be listened on. Accepted connections inherit the send buffer.
///
/// # Errors
/// When no address can be listened on.
pub(crate) fn listen(host_port: &str, send_buffer_bytes: Option<usize>) -> io::Result<TcpListener> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in host_port.to_socket_addrs()? {
        match listen_at(address, send_buffer_bytes) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn listen_at(address: SocketAddr, send_buffer_bytes: Option<usize>) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    if let Some(bytes) = send_buffer_bytes {
        socket.set_send_buffer_size(bytes)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}
