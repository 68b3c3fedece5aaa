//! `delete` and `touch`.

use std::time::Duration;

use axum::response::Response;
use blockgate_api::limits::TTL_S_MAX;
use blockgate_api::types::{DeleteRequest, DeleteResponse, TouchRequest, TouchResponse};
use blockgate_block::{KEY_BYTES_MAX, RESERVED_PREFIX};

use crate::gate::{Asked, Gate};
use crate::refusal::Refusal;
use crate::{fields, json};

impl Gate {
    pub(crate) async fn delete(&self, asked: Asked) -> Result<Response, Refusal> {
        let request: DeleteRequest = json::read(&asked.headers, asked.body).await?;
        let has_affixes = !(request.key_prefix.is_empty() && request.key_suffix.is_empty());
        if has_affixes && request.keys.is_none() {
            return Err(Refusal::argument("`key_prefix` and `key_suffix` need `keys`"));
        }
        let bucket = &asked.bucket;
        let deleted = match (request.keys, request.prefix, request.fingerprint) {
            (Some(keys), None, None) => {
                let keys = fields::keys(bucket, &request.key_prefix, &request.key_suffix, keys)?;
                self.store.delete_keys(&keys).await?
            }
            (None, Some(prefix), None) => {
                check_prefix(&prefix)?;
                self.store.delete_prefix(bucket, &prefix).await?
            }
            (None, None, Some(fingerprint)) => {
                fields::fingerprint(Some(&fingerprint))?;
                self.store.delete_fingerprint(bucket, &fingerprint).await?
            }
            _ => return Err(Refusal::argument("give exactly one of `keys`, `prefix` and `fingerprint`")),
        };
        let effective_at = fields::milliseconds(self.store.upstream().now());
        Ok(json::response(&DeleteResponse { deleted, effective_at }))
    }

    pub(crate) async fn touch(&self, asked: Asked) -> Result<Response, Refusal> {
        let request: TouchRequest = json::read(&asked.headers, asked.body).await?;
        let ttl_s = fields::between("ttl_s", request.ttl_s, TTL_S_MAX)?;
        let keys = fields::keys(&asked.bucket, &request.key_prefix, &request.key_suffix, request.keys)?;
        let touched = self.store.touch(&keys, Duration::from_secs(ttl_s)).await?;
        Ok(json::response(&TouchResponse { touched }))
    }
}

/// A prefix that keys of clients can have. An empty one would be everything, which is not asked for by accident.
fn check_prefix(prefix: &str) -> Result<(), Refusal> {
    if prefix.is_empty() {
        return Err(Refusal::argument("`prefix` must not be empty"));
    }
    if prefix.len() > KEY_BYTES_MAX {
        return Err(Refusal::limit("bytes of `prefix`", KEY_BYTES_MAX));
    }
    if prefix.contains('\0') || prefix.starts_with(RESERVED_PREFIX) {
        return Err(Refusal::argument(format!("`prefix` must not hold a NUL or begin with {RESERVED_PREFIX}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        assert!(check_prefix("model/").is_ok() && check_prefix(".blockgate").is_ok());
        for bad in ["", "a\0", ".blockgate/x", &"p".repeat(KEY_BYTES_MAX + 1)] {
            assert!(check_prefix(bad).is_err(), "{bad:?}");
        }
    }
}
