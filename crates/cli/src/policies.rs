//! The policy of the settings, as a whole or not at all.

mod follow;
mod in_force;
mod text;

use crate::status::Mistake;
use anyhow::Context as _;
use coracle_config::{Approvers, Loaded, PolicyLimit, PolicyRule};
use coracle_policy::{
    ApproverLine, ApproverRule, ApproverRules, CedarPolicies, CheckSpec, Checks, Groups, LimitSpec, Limits, Per,
    Placed, Policy, PolicyError, PolicyProblem, Rule, Rules,
};
pub(crate) use follow::follow;
pub(crate) use in_force::{Held, PolicyInForce};
pub(crate) use text::PolicyText;

/// The whole policy. One error rejects all of it.
pub(crate) fn policy(loaded: &Loaded) -> anyhow::Result<Policy> {
    policy_of(loaded, &PolicyText::of(loaded)?)
}

/// Policy rules of the settings.
fn rules(loaded: &Loaded) -> anyhow::Result<Rules> {
    let rules = loaded.settings.policy.tools.iter().map(|(pattern, decision)| {
        let origin = loaded.origins.get(&format!("policy.tools.{pattern}")).cloned().unwrap_or_default();
        Rule { pattern: pattern.clone(), decision: *decision, origin: origin.to_string() }
    });
    Ok(Rules::new(rules.collect()).context("policy.tools")?.with_approvers(approvers(loaded)?))
}

/// Groups that have to approve calls.
fn approvers(loaded: &Loaded) -> anyhow::Result<ApproverRules> {
    let policy = &loaded.settings.policy;
    let groups = Groups::new(&policy.groups).context("policy.groups")?;
    let lines = policy.approvers.iter().map(|(pattern, Approvers { groups, count })| {
        let origin = loaded.origins.get(&format!("policy.approvers.{pattern}")).cloned().unwrap_or_default();
        let rule = ApproverRule { groups: groups.clone(), count: *count };
        ApproverLine { pattern: pattern.clone(), rule, origin: origin.to_string() }
    });
    ApproverRules::new(lines.collect(), groups)
        .map_err(|error| Mistake::new(format!("policy.approvers: {error}"), error.hint()).into())
}

/// The policy of settings whose files were read before.
fn policy_of(loaded: &Loaded, text: &PolicyText) -> anyhow::Result<Policy> {
    let rules = rules(loaded)?;
    let settings = &loaded.settings.policy;
    let mut problems = Vec::new();
    let groups = Groups::new(&settings.groups).unwrap_or_else(|error| {
        problems.push(PolicyProblem {
            origin: origin(loaded, "policy.groups"),
            message: error.to_string(),
            hint: None,
        });
        Groups::default()
    });
    let cedar = CedarPolicies::new(text.files(), &groups).map_err(|PolicyError(more)| problems.extend(more));
    let specs = settings.rules.iter().enumerate().map(|(number, rule)| check(loaded, number, rule));
    let checks = Checks::new(specs.collect()).unwrap_or_else(|more| {
        problems.extend(more);
        Checks::default()
    });
    let specs = settings.limits.iter().enumerate().map(|(number, limit)| self::limit(loaded, number, limit));
    let limits = Limits::new(specs.collect()).unwrap_or_else(|more| {
        problems.extend(more);
        Limits::default()
    });
    if !problems.is_empty() {
        return Err(Mistake::new(PolicyError(problems), None::<String>).into());
    }
    let policy = Policy::new(rules).with_groups(groups).with_checks(checks).with_limits(limits);
    let policy = policy.with_labels(crate::flows::labels(loaded));
    Ok(match cedar {
        Ok(cedar) => policy.with_cedar(cedar),
        Err(()) => policy,
    })
}

fn check(loaded: &Loaded, number: usize, rule: &PolicyRule) -> CheckSpec {
    let key = format!("policy.rules.{number}");
    let placed = |field: &str, text: &str| placed(loaded, &key, field, text);
    CheckSpec {
        name: rule.name.clone(),
        is_about_executions: rule.on.as_deref() == Some("execution"),
        tools: rule.tools.as_deref().map(|text| placed("tools", text)),
        when: rule.when.as_deref().map(|text| placed("when", text)),
        require: placed("require", &rule.require),
        asks: rule.otherwise.as_deref() == Some("ask"),
        message: rule.message.clone(),
        origin: origin(loaded, &key),
    }
}

fn limit(loaded: &Loaded, number: usize, limit: &PolicyLimit) -> LimitSpec {
    let key = format!("policy.limits.{number}");
    let placed = |field: &str, text: &str| placed(loaded, &key, field, text);
    let per = |name: &String| match name.as_str() {
        "server" => Per::Server,
        "tool" => Per::Tool,
        _ => Per::User,
    };
    LimitSpec {
        name: limit.name.clone(),
        tools: limit.tools.as_deref().map(|text| placed("tools", text)),
        per: limit.per.iter().map(per).collect(),
        window: placed("window", &limit.window),
        calls: limit.calls,
        amount: limit.amount.as_deref().map(|text| placed("amount", text)),
        max: limit.max,
        origin: origin(loaded, &key),
    }
}

fn placed(loaded: &Loaded, key: &str, field: &str, text: &str) -> Placed {
    Placed { text: text.to_owned(), origin: origin(loaded, &format!("{key}.{field}")) }
}

/// Where a key of the settings is. Entries that come from one variable have no places of their own.
fn origin(loaded: &Loaded, key: &str) -> String {
    let mut key = key;
    loop {
        if let Some(origin) = loaded.origins.get(key) {
            return origin.to_string();
        }
        match key.rsplit_once('.') {
            Some((section, _)) => key = section,
            None => return "policy".to_owned(),
        }
    }
}
