//! May this happen? Rules of the configuration, people who are asked, and what they said.
//!
//! Start at [`Approvals::decide`], which every call of a tool passes. [`Policy`] is the part of it that asks nobody:
//! [`Rules`] of the operator, and a default for tools that no rule is about.
//!
//! What must hold: a rule that denies cannot be overridden by anybody's answer; an answer that is remembered counts for
//! one user, one tool, and the one definition of it that the person saw; where nobody can be asked the answer is no.
//!
//! The default goes by what a tool *says* of itself. These are claims of its server: a server that lies about its tools
//! is not asked about. Whoever does not trust a server writes a rule for it: `"server.*": ask`.

mod approvals;
mod approver;
mod call;
mod configuration_line;
mod definition;
mod grants;
mod names;
mod pattern;
mod policy;
mod question;
mod refusal;
mod rules;
mod shown;

pub use approvals::{Approvals, Grant};
pub use approver::{Answer, Approver, NobodyToAsk};
pub use call::Call;
pub use definition::definition_digest;
pub use names::{Naming, Spellings, ToolNames};
pub use pattern::{Match, Pattern, PatternError};
pub use policy::{Policy, Reason, Verdict};
pub use question::{MAX_DESCRIPTION_CHARS, MAX_PREVIEW_CHARS, Question, QuestionId};
pub use refusal::Refusal;
pub use rules::{KnownServer, MAX_RULES, Rule, Rules, RulesError};
