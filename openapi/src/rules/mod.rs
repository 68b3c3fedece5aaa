//! Which frames may follow which.
//!
//! A frame's checksum covers its payload alone. A header that was damaged, a frame that was lost, doubled or exchanged is found by
//! its place: every frame that a body may hold next is known from the request and the frames before it, and the last frame counts
//! blocks and bytes.

mod get;
mod put;

pub use get::{GetRules, GetStep};
pub use put::{PutRules, PutStep};
