//! The face on a socket.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use blockgate_auth::{AccessKey, AccessKeys, Permission, Secret};
use blockgate_telemetry::Metrics;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::recorder::Recorder;
use crate::{Face, FaceSettings};

pub(super) const REGION: &str = "us-east-1";
/// May everything.
pub(super) const OWNER: &str = "BGOWNER";
/// May read and write `kv*`.
pub(super) const TEAM: &str = "BGTEAM";
/// May read `kvs`.
pub(super) const READER: &str = "BGREADER";

/// The secret of an access key of these tests.
pub(super) fn secret(access_key: &str) -> String {
    format!("secret-of-{access_key}")
}

pub(super) struct Server {
    pub(super) address: SocketAddr,
    recorder: Recorder,
    task: JoinHandle<()>,
}

impl Server {
    pub(super) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(super) async fn start_with(change: impl FnOnce(&mut FaceSettings)) -> Self {
        let mut settings = FaceSettings {
            domains: vec!["localhost".to_owned()],
            default_bucket: None,
            region: Some(REGION.to_owned()),
            anonymous_read: false,
            body_stall: Duration::from_secs(20),
        };
        change(&mut settings);
        let recorder = Recorder::default();
        let operations = recorder.clone();
        let face = Face::over(move || operations.clone(), None, keys(), settings, Metrics::new(), None);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(accept(listener, face));
        Self { address, recorder, task }
    }

    /// What was done since this was last asked.
    pub(super) fn done(&self) -> Vec<String> {
        self.recorder.take()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn keys() -> Arc<AccessKeys> {
    let key = |access_key: &str, buckets: &[&str], permissions: &[Permission]| AccessKey {
        access_key: access_key.to_owned(),
        secret_key: Secret::new(secret(access_key)),
        tenant: None,
        buckets: buckets.iter().map(|&bucket| bucket.to_owned()).collect(),
        permissions: permissions.to_vec(),
    };
    let keys = vec![key(OWNER, &[], &[]), key(TEAM, &["kv*"], &[]), key(READER, &["kvs"], &[Permission::Read])];
    Arc::new(AccessKeys::new(keys).unwrap())
}

async fn accept(listener: TcpListener, face: Face) {
    while let Ok((socket, _)) = listener.accept().await {
        let face = face.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let face = face.clone();
                async move { Ok::<_, Infallible>(face.call(request).await) }
            });
            let http = auto::Builder::new(TokioExecutor::new());
            let _ = http.serve_connection(TokioIo::new(socket), service).await;
        });
    }
}
