//! What is remembered of unfinished multipart uploads: a help, never a need. Any gateway can complete any upload.

use std::collections::{HashMap, VecDeque};

use blockgate_block::{Attributes, BlockBuf};
use parking_lot::Mutex;

/// Attributes and tags that an upload was begun with.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    pub(crate) attributes: Attributes,
    pub(crate) tags: Vec<(String, String)>,
}

/// Bounded in uploads, parts, and bytes of parts; what is oldest goes first.
pub(crate) struct Uploads {
    bytes_max: u64,
    parts_max: usize,
    uploads_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    uploads: HashMap<String, Upload>,
    /// Uploads by age, some of them already gone.
    by_age: VecDeque<String>,
    /// Parts by age, some of them already gone or replaced.
    parts_by_age: VecDeque<(String, u32, u64)>,
    bytes: u64,
    parts_seen: u64,
}

#[derive(Default)]
struct Upload {
    begun: Option<Begun>,
    parts: HashMap<u32, Part>,
}

struct Part {
    seen: u64,
    etag: String,
    block: Option<BlockBuf>,
}

impl Uploads {
    pub(crate) fn new(bytes_max: u64, parts_max: usize, uploads_max: usize) -> Self {
        Self { bytes_max, parts_max, uploads_max, state: Mutex::default() }
    }

    pub(crate) fn begin(&self, upload_id: &str, begun: Begun) {
        let mut state = self.state.lock();
        state.upload(upload_id).begun = Some(begun);
        state.shrink(self);
    }

    pub(crate) fn begun(&self, upload_id: &str) -> Option<Begun> {
        self.state.lock().uploads.get(upload_id)?.begun.clone()
    }

    /// Remembers a part by the ETag that the client was given, and its bytes where the arena has them.
    pub(crate) fn add_part(&self, upload_id: &str, number: u32, etag: String, block: Option<BlockBuf>) {
        let mut state = self.state.lock();
        state.parts_seen += 1;
        let seen = state.parts_seen;
        state.bytes += block.as_ref().map_or(0, BlockBuf::len);
        let replaced = state.upload(upload_id).parts.insert(number, Part { seen, etag, block });
        state.bytes -= bytes_of(replaced.as_ref());
        state.parts_by_age.push_back((upload_id.to_owned(), number, seen));
        state.shrink(self);
    }

    /// The ETag that the client was given for a part.
    pub(crate) fn etag(&self, upload_id: &str, number: u32) -> Option<String> {
        Some(self.state.lock().uploads.get(upload_id)?.parts.get(&number)?.etag.clone())
    }

    /// The bytes of these parts, if all of them are here.
    pub(crate) fn blocks<'a>(
        &self,
        upload_id: &str,
        parts: impl Iterator<Item = (u32, &'a str)>,
    ) -> Option<Vec<BlockBuf>> {
        let state = self.state.lock();
        let upload = state.uploads.get(upload_id)?;
        parts.map(|(number, etag)| upload.parts.get(&number).filter(|part| part.etag == etag)?.block.clone()).collect()
    }

    pub(crate) fn forget(&self, upload_id: &str) {
        self.state.lock().forget(upload_id);
    }
}

impl State {
    fn upload(&mut self, upload_id: &str) -> &mut Upload {
        if !self.uploads.contains_key(upload_id) {
            self.by_age.push_back(upload_id.to_owned());
        }
        self.uploads.entry(upload_id.to_owned()).or_default()
    }

    fn forget(&mut self, upload_id: &str) {
        if let Some(upload) = self.uploads.remove(upload_id) {
            self.bytes -= upload.parts.values().map(|part| bytes_of(Some(part))).sum::<u64>();
        }
    }

    fn shrink(&mut self, limits: &Uploads) {
        while self.by_age.len() > limits.uploads_max
            && let Some(upload_id) = self.by_age.pop_front()
        {
            self.forget(&upload_id);
        }
        while (self.bytes > limits.bytes_max || self.parts_by_age.len() > limits.parts_max)
            && let Some((upload_id, number, seen)) = self.parts_by_age.pop_front()
        {
            let Some(upload) = self.uploads.get_mut(&upload_id) else { continue };
            if upload.parts.get(&number).is_some_and(|part| part.seen == seen) {
                self.bytes -= bytes_of(upload.parts.remove(&number).as_ref());
            }
        }
    }
}

fn bytes_of(part: Option<&Part>) -> u64 {
    part.and_then(|part| part.block.as_ref()).map_or(0, BlockBuf::len)
}
