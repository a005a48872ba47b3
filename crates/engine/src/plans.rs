//! The mode `plan`: reads of code are made, everything else is collected as a list. A person who approves the list has
//! exactly that done, in order, unless something has changed.
//!
//! The [`Planner`] collects the calls of one execution (`broker/planning.rs` hands them over). `placeholders.rs` has what
//! code gets in place of results that do not exist yet. `plan_runs.rs` makes plans and runs them.

mod content;
mod placeholders;
mod planner;
mod settings;

pub(crate) use content::{Content, Effect, FileEffect, Outcome, Progress, Read};
pub(crate) use placeholders::Use;
pub(crate) use planner::{Collected, Planner};
pub use settings::{PlanSettings, PlanSettingsError, ToolEffect};
