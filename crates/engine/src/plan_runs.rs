//! Makes plans, and runs those that a person has approved.
//!
//! Start at [`make`], which runs the code, and at [`PlanRunner::run`]. Code works on a copy of the workspace (`files.rs`).
//!
//! Trust boundary: code, servers and workspaces are hostile. Invariants: a plan is run at most once, and each of its effects
//! is on disk as begun before it takes place. What is run is what the person saw: the stored arguments, the same
//! definitions, the same answers of reads, the same files.

mod error;
mod files;
mod making;
mod running;
mod view;

pub use error::PlanError;
pub(crate) use making::make;
pub use running::PlanApproval;
pub(crate) use running::PlanRunner;
pub use view::hide_in_plan;
