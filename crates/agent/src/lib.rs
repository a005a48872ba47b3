//! The agent: a model that solves a task by calling tools, and the embedder for tool search.
//!
//! Start at [`Agent::run`]: it asks a model, runs the calls of its answer with [`AgentTools`], and repeats that until the
//! model is done. `run.rs` is the loop, `step.rs` one question to the model, `calls.rs` the calls of one answer,
//! `fences.rs` understands models that write code into their text, `compaction.rs` shortens conversations, and
//! `journal.rs` is the seam through which a run survives a crash.
//! [`RemoteEmbedder`] is the client of an embeddings model.
//!
//! Invariants: every call in a conversation has exactly one result, also after a stop or a failure, so that the
//! conversation can always be continued. Everything that a model or a tool sends has a limit. A run ends within its
//! limits of steps and tokens. This crate knows nothing of HTTP servers, MCP or users.

mod calls;
mod compaction;
mod embedder;
mod events;
mod fences;
mod journal;
mod run;
mod steering;
mod step;
mod tools;

pub use calls::Questions;
pub use compaction::{Compacted, compact};
pub use embedder::{EmbedderError, EmbedderSettings, RemoteEmbedder};
pub use events::RunEvent;
pub use fences::{FencedCode, fenced_code};
pub use journal::{Earlier, Entry, JournalError, RunJournal};
pub use run::{Agent, CodeFences, Ended, RunLimits, RunOutcome, RunRequest};
pub use steering::{NotSteered, Steering};
pub use tools::{AgentTools, CallUpdate, Ran, ToolOutput};
