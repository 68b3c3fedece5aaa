//! What a machine can do: responses made beforehand, written with writev, a thread for each connection.

use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use bytes::Bytes;
use clap::Args;
use socket2::{Domain, Socket, Type};

use crate::Result;
use crate::objects::{number_in, objects};

/// Longest request head that is read.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// What to serve, and how.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Where to listen; the address is printed once it is.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Number of objects.
    #[arg(long, default_value_t = 64)]
    pub(crate) objects: usize,
    /// Bytes of each object.
    #[arg(long, default_value_t = 4 << 20)]
    pub(crate) size: usize,
    /// `SO_SNDBUF` of each connection; the system's default if absent.
    #[arg(long)]
    pub(crate) send_buffer: Option<usize>,
}

/// Serves until killed.
pub(crate) fn serve(options: &Options) -> Result<()> {
    let objects = Arc::new(objects(options.objects, options.size));
    let socket = Socket::new(Domain::for_address(options.listen), Type::STREAM, None)?;
    if let Some(bytes) = options.send_buffer {
        socket.set_send_buffer_size(bytes)?;
    }
    socket.bind(&options.listen.into())?;
    socket.listen(1024)?;
    let listener = TcpListener::from(socket);
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let objects = objects.clone();
        // A client that hangs up is no failure.
        std::thread::spawn(move || answer_all(stream, &objects));
    }
}

fn answer_all(mut stream: TcpStream, objects: &[Bytes]) -> io::Result<()> {
    let size_bytes = objects.first().map_or(0, Bytes::len);
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {size_bytes}\r\n\r\n");
    let mut buffer = vec![0; HEAD_BYTES_MAX];
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..])?;
        if read == 0 {
            return Ok(());
        }
        filled += read;
        while let Some(end) = buffer[..filled].windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let object = object_asked_for(&buffer[..end], objects).ok_or(io::ErrorKind::InvalidData)?;
            write_all(&mut stream, head.as_bytes(), object)?;
            buffer.copy_within(end + 4..filled, 0);
            filled -= end + 4;
        }
    }
}

fn object_asked_for<'o>(head: &[u8], objects: &'o [Bytes]) -> Option<&'o Bytes> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let path = line.split(|byte| *byte == b' ').nth(1)?;
    objects.get(number_in(std::str::from_utf8(path).ok()?)?)
}

fn write_all(stream: &mut TcpStream, mut head: &[u8], mut body: &[u8]) -> io::Result<()> {
    while !body.is_empty() {
        let written = stream.write_vectored(&[IoSlice::new(head), IoSlice::new(body)])?;
        let of_head = written.min(head.len());
        head = &head[of_head..];
        body = &body[written - of_head..];
    }
    Ok(())
}
