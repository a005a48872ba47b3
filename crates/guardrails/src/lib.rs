//! Checks code before it runs: syntax trees of Python, TypeScript and bash against a table of rules.
//!
//! This crate knows what is dangerous or useless in code, and nothing of how code is run. Start at `guardrails.rs`. The
//! rules are the table in `rules.rs`. Python and TypeScript are lowered to one small tree (`program.rs`) in which names
//! and values are followed (`flow.rs`); bash is followed word by word (`bash.rs`). What the languages offer is in
//! `facts/`.
//!
//! What must hold: the code is hostile. Whatever it is, a check ends in bounded time and memory, and neither panics nor
//! overflows the stack: code that is nested too deeply is never given to a parser (`nesting.rs`). The checks are no
//! sandbox: they find what is written in the code, and the sandbox confines what they do not find.

mod bash;
mod facts;
mod flow;
mod guardrails;
mod languages;
mod lower;
mod nesting;
mod program;
mod report;
mod rules;
mod uses;
mod value;

pub use guardrails::{Access, Guardrails, Inspection};
pub use languages::{MAX_CODE_BYTES, MAX_NESTING};
pub use report::{Finding, MAX_FINDINGS, Report};
pub use rules::{Description, RULES, Rule, Severity};
pub use uses::{Catalogue, Known};
