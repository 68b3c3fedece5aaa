//! Client of blockgate: KV blocks stored, looked up and loaded.
//!
//! [`Client`] is asynchronous, [`blocking::Client`] the same for threads. Reads never fail: what can't be had in time is a
//! [`Miss`] with its [`MissReason`], and the engine computes it. Every call has a deadline; several gateways stand in for each
//! other; what arrives is verified before it counts.
//!
//! * read: [`Client::lookup`], [`Client::exists`], [`Client::get_into`], [`Client::get`]
//! * write: [`Client::put`], [`Client::put_many`], [`Client::put_group`], [`Client::touch`], [`Client::delete`]
//! * keys from token ids: [`Client::compute_keys`], [`keys`]
//! * see: [`Client::stats_local`], [`Client::stats`]
#![forbid(unsafe_code)]

mod batch;
pub mod blocking;
mod body;
mod breaker;
mod builder;
mod call;
mod change;
mod client;
mod endpoint;
mod error;
mod frames;
mod gateway;
mod get;
mod land;
mod metrics;
mod options;
mod outcome;
mod put;
mod route;
mod sign;
mod stream;
mod transport;

pub use blockgate_api::types::{ByteRange, StatsResponse, TierCounts};
pub use blockgate_api::{ErrorCode, keys};
pub use bytes::Bytes;

pub use breaker::BreakerState;
pub use builder::Builder;
pub use change::Deleted;
pub use client::Client;
pub use error::Error;
pub use metrics::{GatewayStats, LocalStats};
pub use options::{GetMode, GetOptions, GetOrder, LoadOptions, LookupOptions, Pieces, PutOptions};
pub use outcome::{Exists, GetOutcome, Lookup, Miss, MissReason};
pub use put::{Block, Stored};
pub use stream::{Blocks, Piece};
