//! Decisions of a policy with 200 conditions or 200 Cedar policies about one call, without anything around them.

use super::plan::{Kind, Times};
use anyhow::Context;
use coracle_policy::{
    CedarPolicies, CheckSpec, Checks, Circumstances, Facts, Groups, Interface, Naming, Placed, Policy, PolicyFile,
    Rules, Spellings, ToolNames,
};
use coracle_types::{Schema, ServerLabel, ServerName, Tool, ToolHints, UserId};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Number of conditions that name no server, one of 20 servers, and one of 100 tools.
const GENERAL: usize = 5;
const OF_SERVERS: usize = 95;
const OF_TOOLS: usize = 100;
/// The same of Cedar policies, which also name 100 tools.
const CEDAR_GENERAL: usize = 20;
const CEDAR_OF_SERVERS: usize = 80;

/// Makes this many decisions. The policies about the call read its user, its arguments and the time.
pub(super) fn measure(kind: Kind, calls: usize) -> anyhow::Result<Times> {
    let users = BTreeMap::from([("finance".to_owned(), vec!["ann".to_owned()])]);
    let groups = Groups::new(&users)?;
    let policy = match kind {
        Kind::Conditions => {
            let checks = Checks::new(conditions()).map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
            anyhow::ensure!(checks.iter().count() == GENERAL + OF_SERVERS + OF_TOOLS, "some conditions are missing");
            Policy::new(Rules::default()).with_checks(checks)
        }
        Kind::Cedar => {
            let files = [PolicyFile { path: "bench.cedar".to_owned(), text: cedar() }];
            let cedar = CedarPolicies::new(&files, &groups)?;
            let count = CEDAR_GENERAL + CEDAR_OF_SERVERS + OF_TOOLS;
            anyhow::ensure!(cedar.iter().count() == count, "some policies are missing");
            Policy::new(Rules::default()).with_cedar(cedar)
        }
    };
    let policy = policy.with_groups(groups);
    let tool = Tool {
        server: ServerName::new("server7").context("invalid server name")?,
        name: "tool7".to_owned(),
        title: None,
        description: String::new(),
        input_schema: Schema::default(),
        output_schema: None,
        category: None,
        hints: ToolHints { read_only: Some(false), destructive: Some(false), ..ToolHints::default() },
    };
    let spellings = |name: &str| {
        let all = Spellings::of_all([Naming { wire: name, plain: name, identifier: name }]);
        all.into_values().next().unwrap_or_else(|| Arc::new(Spellings::of_wire(name)))
    };
    let names = ToolNames { server: spellings("server7"), tool: spellings("tool7") };
    let arguments =
        json!({ "amount": 12.5, "to": { "mail": "ann@example.com" }, "note": "x".repeat(200), "tags": ["a", "b"] });
    let user = UserId::new("ann").context("invalid user name")?;
    let mut times = Times { each: Vec::with_capacity(calls), total: 0.0 };
    for _ in 0..calls {
        let begun = Instant::now();
        let verdict = policy.decide_call(&Facts {
            user: &user,
            session: None,
            tool: &tool,
            names: &names,
            arguments: &arguments,
            labels: [ServerLabel::Private].into(),
            circumstances: Circumstances { calls: 3, interface: Interface::Mcp, ..Circumstances::default() },
            at: SystemTime::now(),
        });
        let took = begun.elapsed().as_secs_f64() * 1e6;
        anyhow::ensure!(
            verdict.decision == coracle_types::Decision::Allow,
            "the call is not allowed: {}",
            verdict.reason
        );
        times.each.push(took);
        times.total += took;
    }
    Ok(times)
}

fn conditions() -> Vec<CheckSpec> {
    let condition = |name: String, tools: Option<String>, require: String| CheckSpec {
        name,
        tools: tools.map(|text| Placed { text, origin: "bench".to_owned() }),
        require: Placed { text: require, origin: "bench".to_owned() },
        origin: "bench".to_owned(),
        ..CheckSpec::default()
    };
    let general = (0..GENERAL).map(|number| {
        let require = format!("calls < {} && interface != 'other{number}'", 1_000 + number);
        condition(format!("general {number}"), None, require)
    });
    let of_servers = (0..OF_SERVERS).map(|number| {
        let (tools, hour) = (format!("server{}.*", number % 20), number % 24);
        let require = format!("time.hour < {hour} || 'finance' in user.groups");
        condition(format!("server {number}"), Some(tools), require)
    });
    let of_tools = (0..OF_TOOLS).map(|number| {
        let tools = format!("server{}.tool{number}", number % 20);
        condition(format!("tool {number}"), Some(tools), "args.amount <= 1000".to_owned())
    });
    general.chain(of_servers).chain(of_tools).collect()
}

/// The same in Cedar, with more of those that name no server.
fn cedar() -> String {
    let mut text = String::new();
    for number in 0..CEDAR_GENERAL {
        let _ = writeln!(
            text,
            "@id(\"general {number}\") forbid(principal, action == Action::\"call\", resource)
             when {{ context.interface == \"other{number}\" || context.calls > {} }};",
            1_000 + number
        );
    }
    for number in 0..CEDAR_OF_SERVERS {
        let _ = writeln!(
            text,
            "@id(\"server {number}\") forbid(principal, action == Action::\"call\", resource in Server::\"server{}\")
             when {{ context.time.hour > {} && !(principal in Group::\"finance\") }};",
            number % 20,
            number % 24
        );
    }
    for number in 0..OF_TOOLS {
        let _ = writeln!(
            text,
            "@id(\"tool {number}\") forbid(principal, action == Action::\"call\", resource == Tool::\"server{}.tool{number}\")
             unless {{ context.args.decimal.hasTag(\"amount\") &&
                       context.args.decimal.getTag(\"amount\").lessThanOrEqual(decimal(\"1000.0\")) }};",
            number % 20
        );
    }
    text
}
