//! Limits of the face that are not the contract's.

use std::time::Duration;

/// Most blocks of one `get` that are fetched or wait for the socket.
pub(crate) const WINDOW_BLOCKS: usize = 32;
/// Bytes of one `get` that are fetched or wait for the socket: over it no further fetch begins.
pub(crate) const WINDOW_BYTES: u64 = 64 << 20;
/// Bytes of one `get` that stay held between its stripes. Blocks beyond are read anew for each stripe, from memory if they are
/// still there.
pub(crate) const HELD_BYTES: u64 = 64 << 20;
/// Share of memory that all `get`s together may hold for their clients beyond one block each: 1 in so many bytes.
pub(crate) const WINDOWS_SHARE: u64 = 4;

/// Blocks of one `put` that are being stored while later ones arrive.
pub(crate) const STORES_BLOCKS: usize = 32;
/// Their bytes: over it the client waits.
pub(crate) const STORES_BYTES: u64 = 64 << 20;
/// Pieces of a block that wait for their copy into memory.
pub(crate) const PIECES_AHEAD: usize = 2;
/// Share of memory that blocks which wait for the end of their request may take (`group`, or a signed hash), all requests
/// together: 1 in so many bytes.
pub(crate) const WAITING_SHARE: u64 = 4;

/// How long the upstream is waited for by those who only ask how it is.
pub(crate) const UPSTREAM_PATIENCE: Duration = Duration::from_secs(2);
