//! The operator's Cedar policies: loaded and checked as a whole, and evaluated for one call or one execution at a time.
//!
//! What no policy forbids is permitted. A `forbid` with the annotation `@ask` has a person asked instead. A policy that
//! cannot be evaluated for a request denies it.

mod annotations;
mod arguments;
mod entities;
mod file;
mod load;
mod partition;
mod types;

use crate::facts::{ExecutionFacts, Facts};
use crate::{ApproverRule, Groups, PolicyError};
use annotations::Annotations;
use cedar_policy::{AuthorizationError, Authorizer, Context, Entities, PolicyId, PolicySet, Request};
use coracle_types::Decision;
pub use file::{MAX_POLICY_FILES, PolicyFile, policy_files};
pub use load::MAX_CEDAR_POLICIES;
use partition::Partition;
use std::collections::HashMap;
use types::Types;

/// The schema that policies are checked against.
pub const CEDAR_SCHEMA: &str = include_str!("cedar/schema.cedarschema");

/// The Cedar policies of the operator.
#[derive(Clone, Debug)]
pub struct CedarPolicies {
    policies: HashMap<PolicyId, CedarPolicy>,
    /// The IDs of the policies, in the order of the files.
    order: Vec<PolicyId>,
    calls: Partition,
    executions: PolicySet,
    /// Whether a policy about calls reads arguments.
    reads_arguments: bool,
    groups: Groups,
    types: Types,
    warnings: Vec<String>,
}

/// One Cedar policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CedarPolicy {
    /// Its name: the annotation `@id`, or its place.
    pub id: String,
    /// Its file and line.
    pub origin: String,
    /// The text of the policy.
    pub text: String,
    annotations: Annotations,
    /// Whether it depends on more than the user and the tool.
    reads_context: bool,
}

/// What the Cedar policies decide, if one of them applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CedarVerdict {
    /// Ask or deny.
    pub(crate) decision: Decision,
    pub(crate) id: String,
    pub(crate) origin: String,
    pub(crate) message: Option<String>,
    /// Why the policy could not be evaluated, if that is the reason.
    pub(crate) error: Option<String>,
    pub(crate) approvers: Option<ApproverRule>,
    /// Whether it depends on more than the user and the tool.
    pub(crate) reads_context: bool,
}

impl CedarPolicies {
    /// Parses the files and checks them against [`CEDAR_SCHEMA`], in Cedar's strict mode.
    pub fn new(files: &[PolicyFile], groups: &Groups) -> Result<Self, PolicyError> {
        load::load(files, groups)
    }

    /// Whether there are no policies.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty()
    }

    /// The policies, in the order of the files.
    pub fn iter(&self) -> impl Iterator<Item = &CedarPolicy> {
        self.order.iter().filter_map(|id| self.policies.get(id))
    }

    /// Things that were probably not intended.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Decides about a call. `None` if no policy applies.
    pub(crate) fn decide(&self, facts: &Facts<'_>) -> Option<CedarVerdict> {
        let sets = self.calls.about(facts.tool);
        if sets.iter().all(|set| set.is_empty()) {
            return None;
        }
        // The placeholders in open arguments would be read as values.
        if facts.circumstances.are_arguments_open && self.reads_arguments {
            return None;
        }
        let request = match self.request(facts) {
            Ok(request) => request,
            Err(error) => return Some(self.not_evaluated(&sets, error)),
        };
        self.evaluate(&sets, &request)
    }

    /// Decides about an execution. `None` if no policy applies.
    pub(crate) fn decide_execution(&self, facts: &ExecutionFacts<'_>) -> Option<CedarVerdict> {
        if self.executions.is_empty() {
            return None;
        }
        let sets = [&self.executions];
        let request = match self.types.execution(&self.groups, facts) {
            Ok(request) => request,
            Err(error) => return Some(self.not_evaluated(&sets, error)),
        };
        self.evaluate(&sets, &request)
    }

    fn request(&self, facts: &Facts<'_>) -> Result<(Request, Entities), String> {
        let mut built = self.types.call(&self.groups, facts)?;
        let args = self.types.arguments(if self.reads_arguments { Some(facts.arguments) } else { None })?;
        built.context.push(("args".to_owned(), args.record));
        built.entities.extend(args.entities);
        let context = Context::from_pairs(built.context).map_err(|error| error.to_string())?;
        let request = Request::new(built.principal, built.action, built.resource, context, None);
        let request = request.map_err(|error| error.to_string())?;
        let entities = Entities::from_entities(built.entities, None).map_err(|error| error.to_string())?;
        Ok((request, entities))
    }

    /// The strictest verdict of all policies that apply.
    fn evaluate(&self, sets: &[&PolicySet], (request, entities): &(Request, Entities)) -> Option<CedarVerdict> {
        let authorizer = Authorizer::new();
        let mut strictest: Option<CedarVerdict> = None;
        for set in sets.iter().filter(|set| !set.is_empty()) {
            let response = authorizer.is_authorized(request, set, entities);
            let diagnostics = response.diagnostics();
            let applied = diagnostics.reason().filter_map(|id| Some(self.policies.get(id)?.verdict()));
            let failed = diagnostics.errors().filter_map(|error| {
                let AuthorizationError::PolicyEvaluationError(error) = error;
                Some(self.policies.get(error.policy_id())?.failed(error.inner().to_string()))
            });
            for verdict in applied.chain(failed) {
                strictest = Some(match strictest {
                    None => verdict,
                    Some(other) => other.and(verdict),
                });
            }
        }
        strictest
    }

    /// The verdict if the request cannot even be expressed. The first policy that might apply is named.
    fn not_evaluated(&self, sets: &[&PolicySet], error: String) -> CedarVerdict {
        let first = |id: &&PolicyId| sets.iter().any(|set| set.policy(id).is_some());
        let policy = self.order.iter().find(first).and_then(|id| self.policies.get(id));
        match policy {
            Some(policy) => policy.failed(error),
            None => CedarVerdict {
                decision: Decision::Deny,
                id: "cedar".to_owned(),
                origin: String::new(),
                message: None,
                error: Some(error),
                approvers: None,
                reads_context: true,
            },
        }
    }
}

impl CedarPolicy {
    fn verdict(&self) -> CedarVerdict {
        let Annotations { ask, message, approvers, .. } = &self.annotations;
        CedarVerdict {
            decision: if ask.is_some() { Decision::Ask } else { Decision::Deny },
            id: self.id.clone(),
            origin: self.origin.clone(),
            message: ask.clone().filter(|ask| !ask.is_empty()).or_else(|| message.clone()),
            error: None,
            approvers: approvers.clone(),
            reads_context: self.reads_context,
        }
    }

    fn failed(&self, error: String) -> CedarVerdict {
        CedarVerdict { decision: Decision::Deny, error: Some(error), approvers: None, ..self.verdict() }
    }
}

impl CedarVerdict {
    /// The stricter of both, with the approvers that both require.
    fn and(self, other: Self) -> Self {
        let (mut stricter, milder) =
            if (other.decision, &self.id) > (self.decision, &other.id) { (other, self) } else { (self, other) };
        if stricter.decision == Decision::Ask {
            stricter.reads_context |= milder.reads_context;
            if let Ok(approvers) = ApproverRule::both(stricter.approvers.take(), milder.approvers) {
                stricter.approvers = approvers;
            } else {
                stricter.decision = Decision::Deny;
                stricter.error = Some(format!("it and {:?} require approvers of different groups", milder.id));
            }
        }
        stricter
    }
}
