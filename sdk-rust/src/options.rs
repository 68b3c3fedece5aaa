//! What calls may be told. All have a default; write `LookupOptions { lease: …, ..Default::default() }`.

use std::time::Duration;

use blockgate_api::types::ByteRange;
pub use blockgate_api::types::{GetMode, GetOrder};

/// Of [`lookup`](crate::Client::lookup).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookupOptions {
    /// Time that the call may take, and time within which the match must be deliverable: what is not is no part of it. The
    /// client's default when none.
    pub deadline: Option<Duration>,
    /// How long the match must stay where it is.
    pub lease: Option<Duration>,
    /// Whether the gateway begins to bring the match to memory.
    pub prefetch: bool,
    /// First key of the chain, where `keys` begins later: calls of one chain go to one gateway.
    pub chain: Option<String>,
}

/// Of [`get_into`](crate::Client::get_into).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Time to the last byte. The client's default when none.
    pub deadline: Option<Duration>,
    /// Whether to stop at the first miss.
    pub mode: GetMode,
    /// First key of the chain, where `keys` begins later: calls of one chain go to one gateway.
    pub chain: Option<String>,
}

/// Of [`get`](crate::Client::get).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetOptions {
    /// Time to the last byte. The client's default when none.
    pub deadline: Option<Duration>,
    /// Whether to stop at the first miss.
    pub mode: GetMode,
    /// As asked, or as blocks become ready.
    pub order: GetOrder,
    /// How each block is divided.
    pub pieces: Pieces,
    /// First key of the chain, where `keys` begins later: calls of one chain go to one gateway.
    pub chain: Option<String>,
}

/// How the blocks of a [`get`](crate::Client::get) are divided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pieces {
    /// Each block in one piece.
    #[default]
    Whole,
    /// Each block in so many equal stripes (the last takes the rest): stripe 0 of all blocks first, then stripe 1 … With as
    /// many as the layers of a layer-major block, layer 0 can be used while layer 1 is on its way.
    Stripes(u32),
    /// Only these bytes of each block.
    Ranges(Vec<ByteRange>),
}

/// Of [`put`](crate::Client::put) and its relatives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutOptions {
    /// Time that the call may take. The client's default when none.
    pub deadline: Option<Duration>,
    /// Time to live, rounded up to seconds. The bucket's default when none.
    pub ttl: Option<Duration>,
    /// First key of the chain, where the blocks begin later in it: calls of one chain go to one gateway.
    pub chain: Option<String>,
}
