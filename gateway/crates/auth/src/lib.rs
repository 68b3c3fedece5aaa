//! Who may do what: access keys, and the one policy that both faces ask.

mod keys;
mod secret;

pub use keys::{AccessKey, AccessKeys, KeyError, Permission};
pub use secret::Secret;
