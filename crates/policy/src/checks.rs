use crate::cel::{About, Expression, Subject};
use crate::facts::{ExecutionFacts, Facts};
use crate::problem::PolicyProblem;
use crate::{Groups, Pattern};
use coracle_types::Decision;
use std::collections::HashSet;

/// The maximum number of rules on arguments.
pub const MAX_CHECKS: usize = 1_000;

/// A condition on calls or on executions, as the settings have it. Each text comes with its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckSpec {
    /// The name of the rule.
    pub name: String,
    /// Whether it is about executions. Otherwise, it is about calls.
    pub is_about_executions: bool,
    /// The pattern of the tools that it applies to. All tools without it.
    pub tools: Option<Placed>,
    /// The expression that is true for calls that the rule applies to.
    pub when: Option<Placed>,
    /// The expression that must be true.
    pub require: Placed,
    /// Whether a person is asked if it is not. Otherwise, the call is refused.
    pub asks: bool,
    /// What people and programs whose calls are refused are told.
    pub message: Option<String>,
    /// Where the rule is.
    pub origin: String,
}

/// A text of the settings, and its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// The text.
    pub text: String,
    /// A file and a line, or a variable.
    pub origin: String,
}

/// Rules on the arguments of calls.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    checks: Vec<Check>,
}

#[derive(Clone, Debug)]
struct Check {
    spec: CheckSpec,
    tools: Option<Pattern>,
    when: Option<Expression>,
    require: Expression,
}

/// What a rule decides about a call that does not meet it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckVerdict {
    pub(crate) decision: Decision,
    pub(crate) name: String,
    pub(crate) origin: String,
    pub(crate) message: Option<String>,
    /// Why the rule could not be evaluated.
    pub(crate) error: Option<String>,
}

impl Checks {
    /// Compiles the expressions and patterns. Returns all errors.
    pub fn new(specs: Vec<CheckSpec>) -> Result<Self, Vec<PolicyProblem>> {
        if specs.len() > MAX_CHECKS {
            let message = format!("there are {} rules: the maximum is {MAX_CHECKS}", specs.len());
            return Err(vec![PolicyProblem::new("policy.rules", message)]);
        }
        let (mut checks, mut problems, mut names) = (Vec::new(), Vec::new(), HashSet::new());
        for spec in specs {
            if spec.name.is_empty() {
                problems.push(PolicyProblem::new(&*spec.origin, "the rule has no `name`"));
            } else if !names.insert(spec.name.clone()) {
                problems.push(PolicyProblem::new(&*spec.origin, format!("there is another rule {:?}", spec.name)));
            }
            if spec.require.text.is_empty() {
                problems.push(PolicyProblem::new(&*spec.origin, "the rule has no `require`"));
                continue;
            }
            if spec.is_about_executions && (spec.asks || spec.tools.is_some()) {
                let message = "a rule about executions has no `tools`, and denies: `otherwise: ask` is for calls";
                problems.push(PolicyProblem::new(&*spec.origin, message));
            }
            let subject = if spec.is_about_executions { Subject::Execution } else { Subject::Call };
            let tools = spec.tools.as_ref().map(pattern).transpose();
            let when = spec.when.as_ref().map(|when| expression(when, subject)).transpose();
            match (tools, when, expression(&spec.require, subject)) {
                (Ok(tools), Ok(when), Ok(require)) => checks.push(Check { spec, tools, when, require }),
                (tools, when, require) => {
                    problems.extend([tools.err(), when.err(), require.err()].into_iter().flatten());
                }
            }
        }
        if problems.is_empty() { Ok(Self { checks }) } else { Err(problems) }
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }

    /// The rules as the settings have them.
    pub fn iter(&self) -> impl Iterator<Item = &CheckSpec> {
        self.checks.iter().map(|check| &check.spec)
    }

    /// What the rules decide that a call does not meet. The strictest of them counts.
    pub(crate) fn decide(&self, groups: &Groups, facts: &Facts<'_>) -> Option<CheckVerdict> {
        let about = self.checks.iter().filter(|check| check.is_about(facts));
        let unmet = about.filter_map(|check| check.decide(groups, About::Call(facts)));
        unmet.reduce(|strictest, other| if other.decision > strictest.decision { other } else { strictest })
    }

    /// The first rule that an execution does not meet.
    pub(crate) fn denies_execution(&self, groups: &Groups, facts: &ExecutionFacts<'_>) -> Option<CheckVerdict> {
        let mut about = self.checks.iter().filter(|check| check.spec.is_about_executions);
        about.find_map(|check| check.decide(groups, About::Execution(facts)))
    }

    /// Whether there are rules about executions.
    pub fn are_about_executions(&self) -> bool {
        self.checks.iter().any(|check| check.spec.is_about_executions)
    }
}

impl Check {
    /// Whether the rule is about the tool of a call. A rule restricts, so it is also about tools whose names only look the
    /// same.
    fn is_about(&self, facts: &Facts<'_>) -> bool {
        let matches = |tools: &Pattern| tools.matches(facts.names, Decision::Deny).is_some();
        let is_open = facts.circumstances.are_arguments_open && self.reads_arguments();
        !self.spec.is_about_executions && !is_open && self.tools.as_ref().is_none_or(matches)
    }

    fn reads_arguments(&self) -> bool {
        self.when.iter().chain([&self.require]).any(Expression::reads_arguments)
    }

    fn decide(&self, groups: &Groups, about: About<'_>) -> Option<CheckVerdict> {
        let applies = self.when.as_ref().map(|when| when.holds(groups, about));
        if applies == Some(Ok(false)) {
            return None;
        }
        let error = match self.require.holds(groups, about) {
            Ok(true) => return None,
            Ok(false) => None,
            Err(error) => Some(error),
        };
        let decision = if self.spec.asks { Decision::Ask } else { Decision::Deny };
        let CheckSpec { name, origin, message, .. } = &self.spec;
        Some(CheckVerdict { decision, name: name.clone(), origin: origin.clone(), message: message.clone(), error })
    }
}

/// Reads a pattern of the settings.
pub(crate) fn pattern(placed: &Placed) -> Result<Pattern, PolicyProblem> {
    placed.text.parse::<Pattern>().map_err(|error| {
        let mut problem = PolicyProblem::new(&*placed.origin, error.to_string());
        problem.hint = error.hint();
        problem
    })
}

/// Compiles an expression of the settings.
pub(crate) fn expression(placed: &Placed, subject: Subject) -> Result<Expression, PolicyProblem> {
    Expression::new(&placed.text, subject).map_err(|message| PolicyProblem::new(&*placed.origin, message))
}
