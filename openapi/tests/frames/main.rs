//! Frames: whatever happens to a body on its way is found by decoder, checksums and rules together, or harms nothing.

mod bodies;
mod damage;
mod decoder;
mod reader;
