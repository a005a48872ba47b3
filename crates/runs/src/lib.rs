//! Runs of the agent that outlive their clients, and their process.
//!
//! Start at [`RunService::start`]: it stores a request and works on it in the background, while any number of clients
//! listen to its [`Feed`]. `journal.rs` puts each step on the disk before it has an effect, and `take_up.rs` continues
//! runs whose process was killed. `wire/` tells a run in the language of the Responses API, which is also how clients of
//! `/v1` and the page see it; `context.rs` turns stored items back into the conversation that a model sees.
//!
//! Invariants: a run that outlives its client ends only by itself, by a stop, or by a limit. What is recorded is never
//! done again: a crash repeats at most the question to the model that was open. Users do not see each other's runs.

mod approval;
mod call_log;
mod context;
mod conversations;
mod drive;
mod error;
mod export;
mod feed;
mod fork;
mod input;
mod item;
mod journal;
mod kept_conversation;
mod live;
mod open_call;
mod owner;
mod parked;
mod queue;
mod references;
mod retention;
mod savings;
mod service;
mod spec;
mod summaries;
mod surroundings;
mod take_up;
mod transcript;
mod wire;

pub use approval::{ApprovalAnswer, AskedCall, Before, LateAnswer, ParkedQuestion, ParkedRun, take_answers};
pub use call_log::StoreCallLog;
pub use conversations::ItemList;
pub use error::RunError;
pub use export::ExportFormat;
pub use feed::{Feed, FeedEvent, Heard, Listener};
pub use input::InputOptions;
pub use kept_conversation::KeptConversation;
pub use live::{LiveRun, StopOnDrop};
pub use owner::Owner;
pub use queue::{MAX_QUEUED, NewMessage, Queue, QueueChange, QueuedFile, QueuedMessage};
pub use savings::Savings;
pub use service::{Events, MAX_RUNS_PER_USER, RunService};
pub use spec::{AlwaysAsk, ModelOptions, RunSpec};
pub use summaries::{ConversationSummary, RunSummary};
pub use surroundings::{Continued, Prepared, RunTools, Surroundings, artifact_of_file, container, file_id};
