//! What every operation passes: who may, for which bucket, with which parameters.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use blockgate_api::ErrorCode;
use blockgate_auth::{AccessKeys, Permission};
use blockgate_store::{Mode, Store};
use blockgate_telemetry::Metrics;
use http::HeaderMap;

use crate::budget::Budget;
use crate::limits::{WAITING_SHARE, WINDOWS_SHARE};
use crate::refusal::{Refusal, no_such_bucket};
use crate::{Caller, Identity, KvParts, Operation};

/// What operations share.
pub(crate) struct Gate {
    pub(crate) store: Arc<Store>,
    pub(crate) metrics: Metrics,
    pub(crate) identity: Identity,
    keys: Arc<AccessKeys>,
    /// What all `get`s hold of memory for their clients.
    pub(crate) windows: Arc<Budget>,
    /// What waits in memory for the end of its request.
    pub(crate) waiting: Arc<Budget>,
}

/// A request that may go on.
pub(crate) struct Asked {
    pub(crate) bucket: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    pub(crate) is_promised: bool,
    /// The parameter `group`.
    pub(crate) is_group: bool,
}

impl Gate {
    pub(crate) fn new(parts: KvParts) -> Self {
        let KvParts { store, keys, metrics, identity } = parts;
        let memory_bytes = store.memory_stats().arena.capacity_bytes;
        let (windows, waiting) = (Budget::new(memory_bytes / WINDOWS_SHARE), Budget::new(memory_bytes / WAITING_SHARE));
        Self { store, metrics, identity, keys, windows, waiting }
    }

    /// Answers a request for an operation.
    pub(crate) async fn answer(self: &Arc<Self>, operation: Operation, request: Request) -> Response {
        let Some(caller) = request.extensions().get::<Caller>().cloned() else {
            return Refusal::internal(&"a request without a caller").response("");
        };
        let answered = match self.admit(operation, &caller, request) {
            Ok(asked) => self.run(operation, asked).await,
            Err(refusal) => Err(refusal),
        };
        answered.unwrap_or_else(|refusal| refusal.response(&caller.request_id))
    }

    async fn run(self: &Arc<Self>, operation: Operation, asked: Asked) -> Result<Response, Refusal> {
        match operation {
            Operation::Lookup => self.lookup(asked).await,
            Operation::Exists => self.exists(asked).await,
            Operation::Get => self.get(asked).await,
            Operation::Put => self.put(asked).await,
            Operation::Delete => self.delete(asked).await,
            Operation::Touch => self.touch(asked).await,
            Operation::Stats => self.stats(asked).await,
            Operation::Fleet => self.fleet().await,
        }
    }

    fn admit(&self, operation: Operation, caller: &Caller, request: Request) -> Result<Asked, Refusal> {
        let (parts, body) = request.into_parts();
        let bucket = Operation::bucket(parts.uri.path()).to_owned();
        let permission = match operation {
            Operation::Put | Operation::Delete | Operation::Touch => Permission::Write,
            Operation::Lookup | Operation::Exists | Operation::Get | Operation::Stats | Operation::Fleet => {
                Permission::Read
            }
        };
        if operation != Operation::Fleet {
            if !self.keys.allows(&caller.access_key, &bucket, permission) {
                return Err(Refusal::new(ErrorCode::AccessDenied, "the access key may not do this to this bucket"));
            }
            self.check_bucket(operation, &bucket)?;
        }
        let parameter = (operation == Operation::Put).then_some("group");
        let is_group = crate::query::flag(parts.uri.query(), parameter)?;
        Ok(Asked { bucket, headers: parts.headers, body, is_promised: caller.is_promised, is_group })
    }

    fn check_bucket(&self, operation: Operation, bucket: &str) -> Result<(), Refusal> {
        if !is_bucket_name(bucket) {
            return Err(no_such_bucket());
        }
        if operation != Operation::Stats && self.store.policy(bucket).mode == Mode::Passthrough {
            return Err(Refusal::new(ErrorCode::NotImplemented, "the bucket is passthrough: it holds no blocks"));
        }
        Ok(())
    }
}

/// The names that S3 has, roughly: what no store takes is not asked for.
fn is_bucket_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    (3..=63).contains(&name.len())
        && name.bytes().all(legal)
        && ends(name.as_bytes().first())
        && ends(name.as_bytes().last())
}

/// The answer to a path that names no operation.
pub(crate) async fn not_found(request: Request) -> Response {
    refuse(&request, Refusal::new(ErrorCode::NotFound, "there is no such operation"))
}

/// The answer to a method that the operation does not have; the router adds `Allow`.
pub(crate) async fn method_not_allowed(request: Request) -> Response {
    let allow = Operation::at(request.uri().path()).map_or("", Operation::allow);
    refuse(&request, Refusal::new(ErrorCode::MethodNotAllowed, format!("the operation's methods are {allow}")))
}

fn refuse(request: &Request, refusal: Refusal) -> Response {
    refusal.response(request.extensions().get::<Caller>().map_or("", |caller| &caller.request_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_names() {
        for good in ["kv1", "kv-bucket", "a.b.c", "0ab"] {
            assert!(is_bucket_name(good), "{good}");
        }
        for bad in ["", "kv", "..", "-ab", "ab-", "Kvs", "a/b", "a%2fb", "_kv", &"a".repeat(64)] {
            assert!(!is_bucket_name(bad), "{bad}");
        }
    }
}
