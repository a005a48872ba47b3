//! The frames between the host and the guest of a sandbox, over any duplex byte stream.
//!
//! A frame is a big-endian `u32` length and that many bytes of JSON: one [`ToGuest`] or [`FromGuest`]. Both sides can
//! send requests, the host with `run` and the guest with `call`, and an answer carries the ID of its request. The guest
//! sends [`VERSION`] in its first frame. `schema/v1.json` freezes the shapes, and a test compares them.
//!
//! Trust boundary: everything that the guest sends is hostile. Lengths are checked before anything is allocated, no
//! input causes a panic, and an error is final for the stream.

mod frame;
#[cfg(test)]
mod schema;
mod stream;

pub use frame::{CallFailure, FromGuest, Reply, RunFailure, RunNetwork, ToGuest};
pub use stream::{FrameBuffer, FrameError, frame_bytes, read_frame, write_frame};

/// The protocol version, which the guest sends in `ready`.
pub const VERSION: u32 = 1;

/// The maximum length of a frame in either direction.
pub const MAX_FRAME: usize = 8 << 20;

/// The maximum number of values in a frame. A value takes up to a hundred times the memory of its text.
pub const MAX_VALUES: usize = 600_000;
