//! The frames between the host and the guest of a sandbox, over any duplex byte stream.
//!
//! A frame is a big-endian `u32` length and that many bytes of JSON: one [`ToGuest`] or [`FromGuest`]. Both sides may
//! ask: the host with `run`, the guest with `call`; answers carry the id of what they answer. [`VERSION`] is said by the
//! guest in its first frame, and `schema/v1.json` freezes the shapes: a test compares.
//!
//! Trust boundary: everything the guest sends is hostile. Lengths are capped before anything is allocated, nothing here
//! panics on any input, and an error is final for the stream.

mod frame;
#[cfg(test)]
mod schema;
mod stream;

pub use frame::{CallFailure, FromGuest, Reply, RunFailure, ToGuest};
pub use stream::{FrameBuffer, FrameError, frame_bytes, read_frame, write_frame};

/// The version of the frames, said by the guest in `ready`.
pub const VERSION: u32 = 1;

/// No frame is longer than this, in either direction.
pub const MAX_FRAME: usize = 8 << 20;

/// No frame holds more values than this: each takes up to a hundred times the memory of its text.
pub const MAX_VALUES: usize = 600_000;
