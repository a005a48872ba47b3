use super::annotations::Annotations;
use super::file::PolicyFile;
use super::partition::{Partition, Scope};
use super::types::Types;
use super::{CEDAR_SCHEMA, CedarPolicies, CedarPolicy};
use crate::Groups;
use crate::problem::{PolicyError, PolicyProblem};
use cedar_policy::ActionConstraint;
use cedar_policy::{
    Effect, Policy, PolicyId, PolicySet, PrincipalConstraint, ResourceConstraint, Schema, ValidationMode,
    ValidationWarning, Validator,
};
use miette::Diagnostic;
use std::collections::{HashMap, HashSet};
use std::str::FromStr as _;

/// The maximum number of Cedar policies.
pub const MAX_CEDAR_POLICIES: usize = 10_000;

/// A policy as it was read, with its place in the file.
struct Read<'a> {
    policy: Policy,
    file: &'a PolicyFile,
    offset: usize,
}

pub(super) fn load(files: &[PolicyFile], groups: &Groups) -> Result<CedarPolicies, PolicyError> {
    let mut problems = Vec::new();
    let mut read = Vec::new();
    for file in files {
        match parse(file) {
            Ok(policies) => read.extend(policies),
            Err(more) => problems.extend(more),
        }
    }
    if read.len() > MAX_CEDAR_POLICIES {
        let message = format!("there are {} policies: the maximum is {MAX_CEDAR_POLICIES}", read.len());
        problems.push(PolicyProblem::new("policy.files", message));
    }
    if !problems.is_empty() {
        return Err(PolicyError(problems));
    }
    let mut policies: HashMap<PolicyId, CedarPolicy> = HashMap::new();
    let (mut order, mut all, mut names) = (Vec::new(), PolicySet::new(), HashSet::new());
    let (mut calls, mut executions, mut reads_arguments) = (Partition::default(), PolicySet::new(), false);
    let mut places = HashMap::new();
    for (number, Read { policy, file, offset }) in read.into_iter().enumerate() {
        let origin = place(file, offset);
        if policy.effect() == Effect::Permit {
            if !permits_everything(&policy) {
                let message = "a permit has no effect here: what no policy forbids is permitted";
                let hint = "write forbid(…) unless { … } instead; permit(principal, action, resource); may stay";
                problems.push(PolicyProblem::new(origin, message).hinted(hint));
            }
            continue;
        }
        let annotations = match Annotations::of(&policy, groups) {
            Ok(annotations) => annotations,
            Err(message) => {
                problems.push(PolicyProblem::new(origin, message));
                continue;
            }
        };
        let name = policy.annotation("id").map(str::to_owned).filter(|id| !id.is_empty());
        if let Some(name) = name.as_ref().filter(|name| !names.insert((*name).clone())) {
            problems.push(PolicyProblem::new(origin, format!("there is another policy with @id({name:?})")));
            continue;
        }
        let policy = policy.new_id(PolicyId::new(format!("policy{number}")));
        let scope = Scope::of(&policy);
        let (is_about_calls, is_about_executions) = scope.actions(&policy);
        if annotations.ask.is_some() && is_about_executions {
            let message = "@ask applies to calls only, and this policy is about executions, too";
            problems.push(PolicyProblem::new(origin, message).hinted("write: action == Action::\"call\""));
            continue;
        }
        let added = all.add(policy.clone()).map_err(Box::new);
        let added = added
            .and_then(|()| if is_about_executions { executions.add(policy.clone()).map_err(Box::new) } else { Ok(()) });
        let added = added.and_then(|()| if is_about_calls { calls.add(scope, policy.clone()) } else { Ok(()) });
        if let Err(error) = added {
            problems.push(PolicyProblem::new(origin, error.to_string()));
            continue;
        }
        let text = policy.to_cedar().unwrap_or_default();
        let reads_context = text.contains("context");
        // An attribute could be written with an escape.
        reads_arguments |= is_about_calls && (text.contains("args") || text.contains('\\'));
        let id = policy.id().clone();
        places.insert(id.clone(), (file, offset));
        let name = name.unwrap_or_else(|| origin.clone());
        policies.insert(id.clone(), CedarPolicy { id: name, origin, text, annotations, reads_context });
        order.push(id);
    }
    let mut warnings = Vec::new();
    check(&all, &places, &mut problems, &mut warnings)?;
    if !problems.is_empty() {
        return Err(PolicyError(problems));
    }
    let (groups, types) = (groups.clone(), Types::new()?);
    Ok(CedarPolicies { policies, order, calls, executions, reads_arguments, groups, types, warnings })
}

/// Checks policies against the schema, in strict mode.
fn check(
    all: &PolicySet,
    places: &HashMap<PolicyId, (&PolicyFile, usize)>,
    problems: &mut Vec<PolicyProblem>,
    warnings: &mut Vec<String>,
) -> Result<(), PolicyProblem> {
    let of_schema = |error: &dyn std::fmt::Display| PolicyProblem::new("the schema", error.to_string());
    let (schema, _) = Schema::from_cedarschema_str(CEDAR_SCHEMA).map_err(|error| of_schema(&error))?;
    let result = Validator::new(schema).validate(all, ValidationMode::Strict);
    let origin = |id: &PolicyId, diagnostic: &dyn Diagnostic| match places.get(id) {
        Some((file, offset)) => place(file, self::offset(diagnostic).unwrap_or(*offset)),
        None => "policy.files".to_owned(),
    };
    for error in result.validation_errors() {
        let message = told(&error.to_string());
        let mut problem = PolicyProblem::new(origin(error.policy_id(), error), message);
        problem.hint = error.help().map(|help| help.to_string());
        problems.push(problem);
    }
    for warning in result.validation_warnings() {
        let (origin, message) = (origin(warning.policy_id(), warning), told(&warning.to_string()));
        if matches!(warning, ValidationWarning::ImpossiblePolicy(_) | ValidationWarning::InvalidActionApplication(_)) {
            let hint = "compare the policy with the schema, which `coracle policy schema` prints";
            problems.push(PolicyProblem::new(origin, message).hinted(hint));
        } else {
            warnings.push(format!("{origin}: {message}"));
        }
    }
    Ok(())
}

/// A message of the validator without the internal ID of the policy.
fn told(message: &str) -> String {
    match message.strip_prefix("for policy `").and_then(|rest| rest.split_once("`, ")) {
        Some((_, rest)) => rest.to_owned(),
        None => message.to_owned(),
    }
}

/// Parses one file.
fn parse(file: &PolicyFile) -> Result<Vec<Read<'_>>, Vec<PolicyProblem>> {
    let set = PolicySet::from_str(&file.text).map_err(|errors| {
        let problem = |error: &dyn Diagnostic, message: String| {
            let mut problem = PolicyProblem::new(place(file, offset(error).unwrap_or_default()), message);
            problem.hint = error.help().map(|help| help.to_string());
            problem
        };
        errors.iter().map(|error| problem(error, error.to_string())).collect::<Vec<_>>()
    })?;
    if let Some(template) = set.templates().next() {
        let id = template.id();
        let message = format!("{id} is a template: `?principal` and `?resource` have no values here");
        return Err(vec![PolicyProblem::new(&*file.path, message)]);
    }
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the type is one of another crate, which is no dependency"
    )]
    let offset = |policy: &Policy| AsRef::<_>::as_ref(policy).loc().map_or(0, |loc| loc.start());
    let mut read: Vec<Read<'_>> =
        set.policies().map(|policy| Read { policy: policy.clone(), file, offset: offset(policy) }).collect();
    read.sort_by_key(|read| read.offset);
    Ok(read)
}

fn offset(diagnostic: &dyn Diagnostic) -> Option<usize> {
    diagnostic.labels()?.next().map(|label| label.offset())
}

/// A position as people read it: file, line and column.
fn place(file: &PolicyFile, offset: usize) -> String {
    let before = file.text.get(..offset).unwrap_or(&file.text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("{}:{line}:{column}", file.path)
}

/// `permit(principal, action, resource);`, which says what is so anyway.
fn permits_everything(policy: &Policy) -> bool {
    let is_any = matches!(policy.principal_constraint(), PrincipalConstraint::Any)
        && matches!(policy.action_constraint(), ActionConstraint::Any)
        && matches!(policy.resource_constraint(), ResourceConstraint::Any);
    is_any && !policy.has_non_scope_constraint()
}
