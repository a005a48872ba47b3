//! What outlives an execution: sessions and their log, artifacts, and skills.

mod artifacts;
mod log;
mod skills;
mod state;
