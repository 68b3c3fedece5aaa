//! `get`: lookup and stream fused.

mod blocks;
mod sender;
mod window;

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use blockgate_api::types::{GetMode, GetRequest};
use blockgate_api::{BYTES_HEADER, FRAMES_MEDIA_TYPE, MATCHED_HEADER, limits};
use blockgate_store::{ChainMatch, ChainRequest};
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue};
use tokio::time::Instant;

use crate::cut::Cut;
use crate::gate::{Asked, Gate};
use crate::refusal::Refusal;
use crate::{fields, json};
use sender::{Order, Sender};

impl Gate {
    pub(crate) async fn get(self: &Arc<Self>, asked: Asked) -> Result<Response, Refusal> {
        let started = Instant::now();
        let request: GetRequest = json::read(&asked.headers, asked.body).await?;
        let cut = cut_of(&request)?;
        fields::fingerprint(request.fingerprint.as_deref())?;
        let deadline = fields::deadline(request.deadline_ms, started)?;
        let keys = fields::keys(&asked.bucket, &request.key_prefix, &request.key_suffix, request.keys)?;
        let found = match request.mode {
            GetMode::All => None,
            GetMode::Prefix => {
                let fingerprint = request.fingerprint.clone();
                let chain = ChainRequest { fingerprint, deadline: fields::left(deadline), ..ChainRequest::default() };
                Some(self.store.lookup(&keys, chain).await?)
            }
        };
        let mut response = Response::new(Body::empty());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(FRAMES_MEDIA_TYPE));
        if let Some(ChainMatch { matched, bytes, .. }) = found {
            let matched = matched as u64;
            headers.insert(HeaderName::from_static(MATCHED_HEADER), HeaderValue::from(matched));
            headers.insert(HeaderName::from_static(BYTES_HEADER), HeaderValue::from(cut.bytes_of(matched, bytes)));
        }
        let order = Order { keys, cut, order: request.order, fingerprint: request.fingerprint, deadline, found };
        *response.body_mut() = Body::from_stream(Sender::new(Arc::clone(self), order).into_stream());
        Ok(response)
    }
}

/// How blocks are cut, if they can be.
fn cut_of(request: &GetRequest) -> Result<Cut, Refusal> {
    let stripes = fields::between("stripes", request.stripes.into(), limits::STRIPES_MAX.into())?;
    let Some(ranges) = &request.ranges else {
        // Not above `STRIPES_MAX`.
        return Ok(Cut::Stripes(u32::try_from(stripes).unwrap_or(1)));
    };
    if stripes != 1 {
        return Err(Refusal::argument("`stripes` and `ranges` exclude each other"));
    }
    if ranges.len() > limits::RANGES_MAX {
        return Err(Refusal::limit("`ranges`", limits::RANGES_MAX));
    }
    if ranges.is_empty() {
        return Err(Refusal::argument("`ranges` must be null or name a range"));
    }
    let wrong = ranges.iter().position(|range| range.length == 0 || range.offset.checked_add(range.length).is_none());
    match wrong {
        Some(index) => Err(Refusal::argument(format!("`ranges[{index}]` must hold bytes"))),
        None => Ok(Cut::Ranges(ranges.clone())),
    }
}

#[cfg(test)]
mod tests {
    use blockgate_api::types::ByteRange;

    use super::*;

    #[test]
    fn cuts() {
        let request = |stripes, ranges: Option<&[(u64, u64)]>| {
            let ranges = ranges.map(|all| all.iter().map(|&(offset, length)| ByteRange { offset, length }).collect());
            cut_of(&GetRequest { stripes, ranges, ..GetRequest::default() })
        };
        assert_eq!(request(1, None), Ok(Cut::Stripes(1)));
        assert_eq!(request(1024, None), Ok(Cut::Stripes(1024)));
        assert!(request(1, Some(&[(0, 1)])).is_ok());
        for (stripes, ranges) in [
            (0, None),
            (1025, None),
            (2, Some(&[(0, 1)][..])),
            (1, Some(&[])),
            (1, Some(&[(0, 0)])),
            (1, Some(&[(u64::MAX, 1)])),
            (1, Some(&[(0, 1); 257])),
        ] {
            assert!(request(stripes, ranges).is_err(), "{stripes} {ranges:?}");
        }
    }
}
