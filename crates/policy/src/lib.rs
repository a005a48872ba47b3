//! Decides whether a tool may be called: rules of the configuration, people who are asked, and their answers.
//!
//! Start at [`Approvals::decide`], which every tool call passes. [`Policy`] is the part of it that asks no one: the
//! operator's [`Rules`], and a default for tools that no rule matches.
//!
//! Invariants: no answer overrides a rule that denies. A remembered answer applies to one user, one tool, and the
//! definition of the tool that the person saw; users' own restrictions apply to every definition. If there is no one to
//! ask, the answer is no. A [`Doubt`] about a call is always put to a person: neither a rule nor an earlier answer settles
//! it, and its answer settles nothing else. Where a [`Quorum`] must approve, only its members' answers to this very call
//! count, whatever the person whose code makes the call has answered or answers.
//!
//! The default depends on what a server *claims* about its tools, so a server that lies about them is not asked about.
//! For a server that is not trusted, add a rule: `"server.*": ask`.

mod approvals;
mod approver;
mod approver_rules;
mod call;
mod cedar;
mod cedar_text;
mod cel;
mod charge;
mod checks;
mod configuration_line;
mod definition;
mod doubt;
mod facts;
mod flow;
mod grants;
mod groups;
mod labels;
mod limits;
mod names;
mod pattern;
mod policy;
mod problem;
mod question;
mod refusal;
mod render;
mod restrictions;
mod rules;

pub use approvals::{Approvals, Grant};
pub use approver::{Answer, Approver, GroupAnswer, GroupApprover, NobodyToAsk};
pub use approver_rules::{
    ApproverLine, ApproverRule, ApproverRules, ApproversError, MAX_APPROVALS, MAX_APPROVER_RULES, Quorum,
};
pub use call::Call;
pub use cedar::{
    CEDAR_SCHEMA, CedarPolicies, CedarPolicy, MAX_CEDAR_POLICIES, MAX_POLICY_FILES, PolicyFile, policy_files,
};
pub use cel::MAX_CEL_BYTES;
pub use charge::Charge;
pub use checks::{CheckSpec, Checks, MAX_CHECKS, Placed};
pub use definition::definition_digest;
pub use doubt::Doubt;
pub use facts::{Circumstances, ExecutionFacts, Facts, Interface};
pub use flow::{
    Cargo, Concern, EndError, FlowDecision, FlowLine, FlowSyntax, FlowVerdict, Flows, FlowsError, KnownServers,
    MAX_FLOW_RULES, Sink, Sources, TRIFECTA, Valuable,
};
pub use groups::{GroupError, Groups};
pub use labels::{Guess, Labels, ServerLabels, guessed_from, guesses};
pub use limits::{LimitSpec, Limits, MAX_LIMITS, Per};
pub use names::{Naming, Spellings, ToolNames};
pub use pattern::{Match, Pattern, PatternError};
pub use policy::{Policy, PolicyKind, Reason, Verdict};
pub use problem::{PolicyError, PolicyProblem};
pub use question::{MAX_DESCRIPTION_CHARS, MAX_PREVIEW_CHARS, Question, QuestionId, arguments_preview};
pub use refusal::{NoQuorum, Refusal};
pub use rules::{KnownServer, MAX_RULES, Rule, Rules, RulesError};
