//! Decisions of a policy with 200 conditions about one call, without anything around them.

use super::plan::Times;
use anyhow::Context;
use coracle_policy::{
    CheckSpec, Checks, Circumstances, Facts, Groups, Interface, Naming, Placed, Policy, Rules, Spellings, ToolNames,
};
use coracle_types::{Schema, ServerLabel, ServerName, Tool, ToolHints, UserId};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Number of conditions that name no server, one of 20 servers, and one of 100 tools.
const GENERAL: usize = 5;
const OF_SERVERS: usize = 95;
const OF_TOOLS: usize = 100;

/// Makes this many decisions. The conditions on the call read its user, its arguments and the time.
pub(super) fn measure(calls: usize) -> anyhow::Result<Times> {
    let users = BTreeMap::from([("finance".to_owned(), vec!["ann".to_owned()])]);
    let groups = Groups::new(&users)?;
    let checks = Checks::new(conditions()).map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
    anyhow::ensure!(checks.iter().count() == GENERAL + OF_SERVERS + OF_TOOLS, "some conditions are missing");
    let policy = Policy::new(Rules::default()).with_groups(groups).with_checks(checks);
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
