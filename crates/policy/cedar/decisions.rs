//! Decisions of a policy with 200 Cedar policies about one call, without anything around them.

use super::plan::Times;
use anyhow::Context;
use coracle_policy::{
    CedarPolicies, Circumstances, Facts, Groups, Interface, Naming, Policy, PolicyFile, Rules, Spellings, ToolNames,
};
use coracle_types::{Schema, ServerLabel, ServerName, Tool, ToolHints, UserId};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Number of policies that name no server, one of 20 servers, and one of 100 tools.
const GENERAL: usize = 20;
const OF_SERVERS: usize = 80;
const OF_TOOLS: usize = 100;

/// Makes this many decisions. The policies that apply to the call read its user, its arguments and the time.
pub(super) fn measure(calls: usize) -> anyhow::Result<Times> {
    let users = BTreeMap::from([("finance".to_owned(), vec!["ann".to_owned()])]);
    let groups = Groups::new(&users)?;
    let files = [PolicyFile { path: "bench.cedar".to_owned(), text: policies() }];
    let cedar = CedarPolicies::new(&files, &groups)?;
    anyhow::ensure!(cedar.iter().count() == GENERAL + OF_SERVERS + OF_TOOLS, "some policies are missing");
    let policy = Policy::new(Rules::default()).with_groups(groups).with_cedar(cedar);
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
            labels: &[ServerLabel::Private],
            circumstances: Circumstances { calls: 3, interface: Interface::Mcp },
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

fn policies() -> String {
    let mut text = String::new();
    for number in 0..GENERAL {
        let _ = writeln!(
            text,
            "@id(\"general {number}\") forbid(principal, action == Action::\"call\", resource)
             when {{ context.interface == \"other{number}\" || context.calls > {} }};",
            1_000 + number
        );
    }
    for number in 0..OF_SERVERS {
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
