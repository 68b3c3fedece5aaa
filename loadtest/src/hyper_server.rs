//! The baseline: hyper and nothing else.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use clap::Args;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

use crate::Result;
use crate::objects::{number_in, objects};

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
    /// Serve objects from files of this directory, read whole for each request, instead of from memory.
    #[arg(long)]
    pub(crate) files: Option<PathBuf>,
}

/// What answers requests.
struct Served {
    objects: Vec<Bytes>,
    files: Option<PathBuf>,
    /// The frames of each object's last PUT.
    put: Vec<Mutex<Vec<Bytes>>>,
}

/// Serves until killed.
pub(crate) async fn serve(options: Options) -> Result<()> {
    let objects = objects(options.objects, options.size);
    if let Some(directory) = &options.files {
        for (number, object) in objects.iter().enumerate() {
            tokio::fs::write(directory.join(number.to_string()), object).await?;
        }
    }
    let put = objects.iter().map(|_| Mutex::default()).collect();
    let served = Arc::new(Served { objects, files: options.files, put });
    let socket = Socket::new(Domain::for_address(options.listen), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    if let Some(bytes) = options.send_buffer {
        socket.set_send_buffer_size(bytes)?;
    }
    socket.bind(&options.listen.into())?;
    socket.listen(1024)?;
    let listener = TcpListener::from_std(socket.into())?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let served = served.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let served = served.clone();
                async move { Ok::<_, Infallible>(served.answer(request).await) }
            });
            // A client that hangs up is no failure.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

impl Served {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let Some(number) = number_in(request.uri().path()).filter(|number| *number < self.objects.len()) else {
            return status(StatusCode::NOT_FOUND);
        };
        match *request.method() {
            Method::GET | Method::HEAD => match &self.files {
                None => Response::new(Full::new(self.objects[number].clone())),
                Some(directory) => match tokio::fs::read(directory.join(number.to_string())).await {
                    Ok(bytes) => Response::new(Full::new(bytes.into())),
                    Err(_) => status(StatusCode::INTERNAL_SERVER_ERROR),
                },
            },
            Method::PUT => self.put(number, request.into_body()).await,
            _ => status(StatusCode::METHOD_NOT_ALLOWED),
        }
    }

    async fn put(&self, number: usize, mut body: Incoming) -> Response<Full<Bytes>> {
        let mut frames = Vec::new();
        while let Some(frame) = body.frame().await {
            match frame.map(hyper::body::Frame::into_data) {
                Ok(Ok(data)) => frames.push(data),
                Ok(Err(_trailers)) => {}
                Err(_) => return status(StatusCode::BAD_REQUEST),
            }
        }
        // No holder of this lock can panic.
        *self.put[number].lock().unwrap_or_else(std::sync::PoisonError::into_inner) = frames;
        status(StatusCode::OK)
    }
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
