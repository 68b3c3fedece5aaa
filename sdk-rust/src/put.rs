//! Storing blocks.

use std::fmt::Display;

use blockgate_api::frame::{FrameHeader, end, put_header};
use blockgate_api::limits::{GROUP_BLOCKS_MAX, PUT_BLOCKS_MAX};
use blockgate_api::types::{PutHeader, PutResponse, PutResult, StreamEnd};
use blockgate_api::{Crc64, ErrorCode, FRAMES_MEDIA_TYPE};
use bytes::Bytes;
use http::Method;

use crate::call::answer;
use crate::client::whole_seconds;
use crate::sign::BodyHash;
use crate::transport::Request;
use crate::{Client, Error, PutOptions};

/// A block to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its key, to which the client's prefix and suffix are added.
    pub key: String,
    /// Its bytes.
    pub bytes: Bytes,
}

impl Block {
    /// A block; `Vec<u8>` and [`Bytes`] are taken without a copy.
    pub fn new(key: impl Display, bytes: impl Into<Bytes>) -> Self {
        Self { key: key.to_string(), bytes: bytes.into() }
    }
}

/// A block that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stored {
    /// Its ETag, which HEAD and GET of the S3 API show too.
    pub etag: String,
}

impl Client {
    /// Stores a block.
    ///
    /// # Errors
    /// When it is not stored, or it is not known to be: storing it again is always safe.
    pub async fn put(&self, key: impl Display, bytes: impl Into<Bytes>, options: &PutOptions) -> Result<Stored, Error> {
        let results = self.put_request(&[Block::new(key, bytes)], false, options).await?;
        results.into_iter().next().unwrap_or_else(|| Err(Error::protocol("no result")))
    }

    /// Stores blocks, each by itself: what became of each, in order.
    ///
    /// # Errors
    /// When nothing is known of any of them.
    ///
    /// ```no_run
    /// # async fn example(client: blockgate_sdk::Client) -> Result<(), blockgate_sdk::Error> {
    /// use std::time::Duration;
    /// use blockgate_sdk::{Block, PutOptions};
    ///
    /// let blocks = [Block::new("k0", vec![0; 65_536]), Block::new("k1", vec![1; 65_536])];
    /// let an_hour = PutOptions { ttl: Some(Duration::from_secs(3600)), ..Default::default() };
    /// for (block, result) in blocks.iter().zip(client.put_many(&blocks, &an_hour).await?) {
    ///     if let Err(error) = result {
    ///         println!("{} is not stored: {error}", block.key);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn put_many(&self, blocks: &[Block], options: &PutOptions) -> Result<Vec<Result<Stored, Error>>, Error> {
        let mut results = Vec::with_capacity(blocks.len());
        for some in blocks.chunks(PUT_BLOCKS_MAX) {
            match self.put_request(some, false, options).await {
                Ok(more) => results.extend(more),
                Err(error) if results.is_empty() => return Err(error),
                Err(error) => results.resize(blocks.len().min(results.len() + some.len()), Err(error)),
            }
        }
        Ok(results)
    }

    /// Stores blocks that become visible together: all of them or none.
    ///
    /// # Errors
    /// When none of them is stored, or it is not known whether all are.
    pub async fn put_group(&self, blocks: &[Block], options: &PutOptions) -> Result<Vec<Stored>, Error> {
        if blocks.len() > GROUP_BLOCKS_MAX {
            return Err(Error::Limit { what: "blocks in a group", value: blocks.len(), max: GROUP_BLOCKS_MAX });
        }
        self.put_request(blocks, true, options).await?.into_iter().collect()
    }

    async fn put_request(
        &self,
        blocks: &[Block],
        group: bool,
        options: &PutOptions,
    ) -> Result<Vec<Result<Stored, Error>>, Error> {
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let deadline = self.deadline(options.deadline);
        let request = Request {
            method: Method::POST,
            path: format!("{}/put", self.shared.base_path),
            query: group.then_some(("group", "true")),
            media_type: Some(FRAMES_MEDIA_TYPE),
            hash: BodyHash::Unsigned,
            body: self.frames(blocks, options),
        };
        let first = options.chain.as_deref().or(blocks.first().map(|block| block.key.as_str()));
        let mut attempts = self.attempts(first, &[], deadline);
        loop {
            let connection = attempts.next().await?;
            match answer::<PutResponse>(&connection, &request, deadline).await {
                Ok(PutResponse { results }) if results.len() == blocks.len() => {
                    let results: Vec<_> = results.into_iter().map(stored).collect();
                    let kept = results.iter().zip(blocks).filter(|(result, _)| result.is_ok());
                    let bytes = kept.clone().map(|(_, block)| block.bytes.len() as u64).sum();
                    self.shared.counters.stored(kept.count(), bytes);
                    return Ok(results);
                }
                Ok(_) => return Err(Error::protocol("not as many results as blocks")),
                Err(failure) => attempts.failed(&connection.gateway, failure)?,
            }
        }
    }

    fn frames(&self, blocks: &[Block], options: &PutOptions) -> Vec<Bytes> {
        let mut body = Vec::with_capacity(3 * blocks.len() + 1);
        let mut total = StreamEnd::default();
        for (index, block) in (0..).zip(blocks) {
            let header = PutHeader {
                key: self.scope.full(&block.key),
                ttl_s: options.ttl.map(whole_seconds),
                fingerprint: self.scope.fingerprint.clone(),
            };
            let len_bytes = block.bytes.len() as u64;
            let data = FrameHeader::data(index, 0, len_bytes, Crc64::of(&block.bytes));
            // In one buffer, so that it is sent at once.
            body.push([&put_header(index, &header)[..], &data.encode()].concat().into());
            body.push(block.bytes.clone());
            total.blocks += 1;
            total.bytes += len_bytes;
        }
        body.push(end(total));
        body
    }
}

fn stored(result: PutResult) -> Result<Stored, Error> {
    match result {
        PutResult { status: 200, etag: Some(etag), .. } => Ok(Stored { etag }),
        PutResult { status: 200, .. } => Err(Error::protocol("a stored block without an ETag")),
        PutResult { code, message, status, .. } => Err(Error::Refused {
            code: code.unwrap_or(ErrorCode::InternalError),
            message: message.unwrap_or_else(|| format!("status {status}")),
        }),
    }
}
