//! Language models of other people. So far one that says what texts mean: [`RemoteEmbedder`].
//!
//! Invariants: what a model's server sends has a cap before it is read, and is checked before it is used. A key goes to
//! the address that it was given for and nowhere else: not along a redirect, not into an error, a log line or a `Debug`
//! text.

mod embedder;

pub use embedder::{EmbedderError, EmbedderSettings, RemoteEmbedder};
