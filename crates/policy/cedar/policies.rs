//! The policy of the settings and of the files that they name, as a whole or not at all.

mod follow;

use crate::status::Mistake;
use coracle_config::{Loaded, PolicyLimit, PolicyRule};
use coracle_policy::{
    CedarPolicies, CheckSpec, Checks, Groups, LimitSpec, Limits, Per, Placed, Policy, PolicyError, PolicyProblem,
    policy_files,
};
use coracle_types::ServerName;
pub(crate) use follow::follow;
use std::collections::BTreeMap;

/// The whole policy. One mistake rejects all of it.
pub(crate) fn policy(loaded: &Loaded) -> anyhow::Result<Policy> {
    let rules = crate::wiring::rules(loaded)?;
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
    let cedar = match policy_files(&settings.files) {
        Ok(files) => CedarPolicies::new(&files, &groups).map(Some).unwrap_or_else(|PolicyError(more)| {
            problems.extend(more);
            None
        }),
        Err(problem) => {
            problems.push(problem);
            None
        }
    };
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
    let policy = policy.with_labels(labels(loaded));
    Ok(match cedar {
        Some(cedar) => {
            for warning in cedar.warnings() {
                tracing::warn!("{warning}");
            }
            policy.with_cedar(cedar)
        }
        None => policy,
    })
}

/// The labels of the configured servers.
fn labels(loaded: &Loaded) -> BTreeMap<ServerName, Vec<coracle_types::ServerLabel>> {
    let servers = &loaded.settings.mcp_servers;
    let labelled = servers.iter().filter(|(_, entry)| !entry.labels.is_empty());
    labelled.filter_map(|(name, entry)| Some((ServerName::new(name).ok()?, entry.labels.clone()))).collect()
}

fn check(loaded: &Loaded, number: usize, rule: &PolicyRule) -> CheckSpec {
    let key = format!("policy.rules.{number}");
    let placed = |field: &str, text: &str| placed(loaded, &key, field, text);
    CheckSpec {
        name: rule.name.clone(),
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
