use crate::cel::{About, Expression, Subject};
use crate::checks::{Placed, expression, pattern};
use crate::facts::Facts;
use crate::problem::PolicyProblem;
use crate::{Groups, Pattern};
use cel::Value;
use coracle_store::{LimitCharge, Millionths};
use coracle_types::Decision;
use std::collections::HashSet;
use std::time::Duration;

/// The maximum number of limits.
pub const MAX_LIMITS: usize = 1_000;
/// The shortest and the longest period of a limit.
const WINDOWS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(24 * 366));
/// The maximum length of the name of a limit, in bytes.
const MAX_NAME: usize = 100;

/// A limit on calls in a period, as the settings have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitSpec {
    /// The name of the limit.
    pub name: String,
    /// The pattern of the tools whose calls count. All tools without it.
    pub tools: Option<Placed>,
    /// What is counted separately.
    pub per: Vec<Per>,
    /// The period, as text.
    pub window: Placed,
    /// The maximum number of calls.
    pub calls: Option<u64>,
    /// The expression for the amount of a call.
    pub amount: Option<Placed>,
    /// The maximum sum of amounts.
    pub max: Option<u64>,
    /// Where the limit is.
    pub origin: String,
}

/// What is counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Per {
    /// Each user.
    User,
    /// Each server.
    Server,
    /// Each tool.
    Tool,
}

/// Limits on calls.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    limits: Vec<Limit>,
}

#[derive(Clone, Debug)]
struct Limit {
    spec: LimitSpec,
    tools: Option<Pattern>,
    window: Duration,
    amount: Option<Expression>,
}

/// A limit that refuses a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LimitVerdict {
    pub(crate) name: String,
    pub(crate) origin: String,
    /// What is wrong with the call, unless the limit is used up.
    pub(crate) error: Option<String>,
}

impl Limits {
    /// Compiles the expressions and patterns. Returns all errors.
    pub fn new(specs: Vec<LimitSpec>) -> Result<Self, Vec<PolicyProblem>> {
        if specs.len() > MAX_LIMITS {
            let message = format!("there are {} limits: the maximum is {MAX_LIMITS}", specs.len());
            return Err(vec![PolicyProblem::new("policy.limits", message)]);
        }
        let (mut limits, mut problems, mut names) = (Vec::new(), Vec::new(), HashSet::new());
        for spec in specs {
            match Limit::new(spec, &mut names) {
                Ok(limit) => limits.push(limit),
                Err(more) => problems.extend(more),
            }
        }
        if problems.is_empty() { Ok(Self { limits }) } else { Err(problems) }
    }

    /// Whether there are no limits.
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// The limits as the settings have them.
    pub fn iter(&self) -> impl Iterator<Item = &LimitSpec> {
        self.limits.iter().map(|limit| &limit.spec)
    }

    /// What a call is charged. Nothing if no limit is about its tool.
    pub(crate) fn charges(&self, groups: &Groups, facts: &Facts<'_>) -> Result<Vec<LimitCharge>, LimitVerdict> {
        let about = self.limits.iter().filter(|limit| {
            limit.tools.as_ref().is_none_or(|tools| tools.matches(facts.names, Decision::Deny).is_some())
        });
        about.map(|limit| limit.charge(groups, facts)).collect()
    }

    /// The limit that refuses a charge.
    pub(crate) fn used_up(&self, charge: &LimitCharge) -> LimitVerdict {
        let limit = self.limits.iter().find(|limit| limit.spec.name == charge.limit);
        let origin = limit.map(|limit| limit.spec.origin.clone()).unwrap_or_default();
        LimitVerdict { name: charge.limit.clone(), origin, error: None }
    }
}

impl Limit {
    fn new(spec: LimitSpec, names: &mut HashSet<String>) -> Result<Self, Vec<PolicyProblem>> {
        let mut problems = Vec::new();
        let mut wrong = |message: &str| problems.push(PolicyProblem::new(&*spec.origin, message));
        if spec.name.is_empty() || spec.name.len() > MAX_NAME {
            wrong("the limit has no `name`, or one of more than 100 bytes");
        } else if !names.insert(spec.name.clone()) {
            wrong(&format!("there is another limit {:?}", spec.name));
        }
        if spec.calls.is_none() && spec.max.is_none() {
            wrong("the limit has neither `calls` nor `max`");
        }
        if spec.amount.is_some() != spec.max.is_some() {
            wrong("`amount` and `max` belong together");
        }
        if spec.window.text.is_empty() {
            wrong("the limit has no `window`, such as 1h");
        }
        let window = match humantime::parse_duration(&spec.window.text) {
            Ok(window) if (WINDOWS.0..=WINDOWS.1).contains(&window) => window,
            _ if spec.window.text.is_empty() => Duration::ZERO,
            _ => {
                let message = format!("{:?} is not a period from 1s to 366days", spec.window.text);
                problems.push(PolicyProblem::new(&*spec.window.origin, message).hinted("write 30s, 15m, 1h or 7days"));
                Duration::ZERO
            }
        };
        let tools = spec.tools.as_ref().map(pattern).transpose();
        let amount = spec.amount.as_ref().map(|amount| expression(amount, Subject::Call)).transpose();
        match (tools, amount) {
            (Ok(tools), Ok(amount)) if problems.is_empty() => Ok(Self { spec, tools, window, amount }),
            (tools, amount) => {
                problems.extend([tools.err(), amount.err()].into_iter().flatten());
                Err(problems)
            }
        }
    }

    fn charge(&self, groups: &Groups, facts: &Facts<'_>) -> Result<LimitCharge, LimitVerdict> {
        let refused = |error: String| LimitVerdict {
            name: self.spec.name.clone(),
            origin: self.spec.origin.clone(),
            error: Some(error),
        };
        let amount = match &self.amount {
            None => Millionths::default(),
            Some(amount) => number(amount.evaluate(groups, About::Call(facts)).map_err(refused)?).map_err(refused)?,
        };
        Ok(LimitCharge {
            limit: self.spec.name.clone(),
            user: self.spec.per.contains(&Per::User).then(|| facts.user.clone()),
            subject: self.subject(facts),
            window: self.window,
            calls: self.spec.calls,
            amount,
            max: self.spec.max.map(Millionths::whole),
        })
    }

    /// What the calls are counted for, besides the user: a server, a tool, or both.
    fn subject(&self, facts: &Facts<'_>) -> String {
        let server = facts.tool.server.as_str();
        match (self.spec.per.contains(&Per::Server), self.spec.per.contains(&Per::Tool)) {
            (_, true) => format!("{server}.{}", facts.tool.name),
            (true, false) => server.to_owned(),
            (false, false) => String::new(),
        }
    }
}

/// The amount of a call. Fractions are rounded up to a millionth.
fn number(value: Value) -> Result<Millionths, String> {
    let amount = match value {
        Value::Int(int) => u64::try_from(int).ok().and_then(Millionths::checked_whole),
        Value::UInt(uint) => Millionths::checked_whole(uint),
        Value::Float(float) => Millionths::of_float(float),
        other => return Err(format!("the amount is not a number, but of the type {}", other.type_of())),
    };
    amount.ok_or_else(|| "the amount is negative or too large".to_owned())
}
