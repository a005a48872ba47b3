//! Clients of external models. Currently there is only an embedder: [`RemoteEmbedder`].
//!
//! Invariants: everything that a model's server sends has a size limit before it is read, and is checked before it is
//! used. A key is only sent to the address that it is configured for: redirects are not followed, and no error, log
//! line or `Debug` output contains it.

mod embedder;

pub use embedder::{EmbedderError, EmbedderSettings, RemoteEmbedder};
