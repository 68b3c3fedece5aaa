//! An object as its writers see it: a register that holds a value and a tag, or nothing.

use std::sync::Arc;

use blockgate_block::{Attributes, BlockEtag, Crc64};
use bytes::Bytes;

use super::super::format::{Current, read_at};
use super::super::root::Root;
use super::super::temp::Temp;
use super::super::{delete_many, write};
use crate::{Conditions, CopyRequest, PutRequest, UpstreamError};

pub(super) const BUCKET: &str = "bucket";

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Writes a value.
    Put(u8),
    /// Writes a value if nothing is there.
    Create(u8),
    /// Writes the second value if the first is there.
    Replace(u8, u8),
    /// Gives what is there another tag.
    Tag(u8),
    /// Copies what is there onto itself, with another tag.
    Touch(u8),
    Delete,
    Read,
}

/// A value and a tag (0: none), or nothing.
pub(super) type State = Option<(u8, u8)>;

/// How an act ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Refused,
    Read(State),
    Failed(String),
}

impl Act {
    /// Does it to a model.
    pub(super) fn model(self, state: &mut State) -> Outcome {
        let new = match (self, *state) {
            (Self::Put(value), _) | (Self::Create(value), None) => Some((value, 0)),
            (Self::Replace(old, new), Some((value, _))) if value == old => Some((new, 0)),
            (Self::Tag(tag) | Self::Touch(tag), Some((value, _))) => Some((value, tag)),
            (Self::Delete, _) => None,
            (Self::Read, state) => return Outcome::Read(state),
            _ => return Outcome::Refused,
        };
        *state = new;
        Outcome::Done
    }

    /// Does it to an object.
    pub(super) fn run(self, root: &Arc<Root>, key: &str) -> Outcome {
        match self.try_run(root, key) {
            Ok(outcome) => outcome,
            Err(UpstreamError::PreconditionFailed | UpstreamError::NoSuchKey) => Outcome::Refused,
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }

    fn try_run(self, root: &Arc<Root>, key: &str) -> crate::Result<Outcome> {
        let tags = |tag: u8| vec![("tag".to_owned(), tag.to_string())];
        let none = Conditions::default;
        match self {
            Self::Put(value) => put(root, key, value, none())?,
            Self::Create(value) => put(root, key, value, Conditions { if_none_match: Some("*".to_owned()), ..none() })?,
            Self::Replace(old, new) => put(root, key, new, Conditions { if_match: Some(etag(old)), ..none() })?,
            Self::Tag(tag) => write::set_tags(root, BUCKET, key, &tags(tag))?,
            Self::Touch(tag) => {
                let request = CopyRequest {
                    source_bucket: BUCKET.to_owned(),
                    source_key: key.to_owned(),
                    source_conditions: none(),
                    bucket: BUCKET.to_owned(),
                    key: key.to_owned(),
                    attributes: Attributes::default(),
                    tags: Some(tags(tag)),
                };
                write::copy(root, &request).map(drop)?;
            }
            Self::Delete => delete_many(root, BUCKET, &[key.to_owned()])?.remove(0)?,
            Self::Read => return Ok(Outcome::Read(read(root, key)?)),
        }
        Ok(Outcome::Done)
    }
}

fn etag(value: u8) -> String {
    BlockEtag { crc64: Crc64::of(&[value]), len_bytes: 1 }.to_string()
}

fn put(root: &Arc<Root>, key: &str, value: u8, conditions: Conditions) -> crate::Result<()> {
    let mut temp = Temp::create(root, false).map_err(super::super::error::failed("create"))?;
    temp.write(&[Bytes::copy_from_slice(&[value])]).map_err(super::super::error::failed("write"))?;
    let request = PutRequest { conditions, crc64: Some(Crc64::of(&[value])), ..PutRequest::default() };
    write::put(root, BUCKET, key, request, temp).map(drop)
}

fn read(root: &Root, key: &str) -> crate::Result<State> {
    match root.current(BUCKET, key)? {
        None => Ok(None),
        Some(Current::Sound(object)) => {
            let value = read_at(&object.file, 0, 10).unwrap()[0];
            let tag = object.meta.tags.first().map_or(0, |(_, tag)| tag.parse().unwrap());
            assert_eq!(object.meta.etag, etag(value));
            Ok(Some((value, tag)))
        }
        Some(Current::Damaged(damaged)) => panic!("a reader sees a file that is {}", damaged.why),
    }
}
