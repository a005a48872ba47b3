//! Cedar policies, conditions and limits, through the public API.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cedar;
mod conditions;
mod defaults;
mod errors;
mod limits;
mod printed;

use coracle_policy::{
    CedarPolicies, Circumstances, Facts, Groups, Interface, Naming, Policy, PolicyFile, Rules, Spellings, ToolNames,
    Verdict,
};
use coracle_types::{Decision, Schema, ServerLabel, ServerName, Tool, ToolHints, UserId};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Thursday, 2026-11-19, 01:07:30 UTC.
pub(crate) fn thursday_night() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_795_050_450)
}

pub(crate) fn groups() -> Groups {
    let users = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Groups::new(&BTreeMap::from([
        ("finance".to_owned(), users(&["ann", "kim"])),
        ("legal".to_owned(), users(&["kim"])),
    ]))
    .unwrap()
}

pub(crate) fn file(text: &str) -> PolicyFile {
    PolicyFile { path: "p.cedar".to_owned(), text: text.to_owned() }
}

/// A policy that allows everything which these Cedar policies do not forbid.
pub(crate) fn cedar(text: &str) -> Policy {
    let policies = CedarPolicies::new(&[file(text)], &groups()).unwrap_or_else(|error| panic!("{error}"));
    Policy::new(Rules::default()).with_groups(groups()).with_cedar(policies)
}

/// A call, with defaults for everything.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) user: &'static str,
    pub(crate) server: &'static str,
    pub(crate) tool: &'static str,
    pub(crate) hints: ToolHints,
    pub(crate) labels: Vec<ServerLabel>,
    pub(crate) arguments: Value,
    pub(crate) at: SystemTime,
    pub(crate) calls: u64,
    pub(crate) are_arguments_open: bool,
    pub(crate) conversation: Option<&'static str>,
    pub(crate) interface: Interface,
}

impl Default for Made {
    fn default() -> Self {
        Self {
            user: "ann",
            server: "bank",
            tool: "pay",
            hints: ToolHints::default(),
            labels: Vec::new(),
            arguments: json!({}),
            at: thursday_night(),
            calls: 0,
            are_arguments_open: false,
            conversation: None,
            interface: Interface::Mcp,
        }
    }
}

impl Made {
    pub(crate) fn with(arguments: Value) -> Self {
        Self { arguments, ..Self::default() }
    }

    pub(crate) fn tool(&self) -> Tool {
        tool(self.server, self.tool, self.hints)
    }

    pub(crate) fn verdict(&self, policy: &Policy) -> Verdict {
        let (tool, user) = (self.tool(), UserId::new(self.user).unwrap());
        let Self { calls, are_arguments_open, conversation, interface, .. } = *self;
        let circumstances = Circumstances { calls, are_arguments_open, conversation, interface };
        policy.decide_call(&Facts {
            user: &user,
            session: None,
            tool: &tool,
            names: &names(self.server, &[self.tool], self.tool),
            arguments: &self.arguments,
            labels: self.labels.iter().copied().collect(),
            circumstances,
            at: self.at,
        })
    }

    pub(crate) fn decision(&self, policy: &Policy) -> Decision {
        self.verdict(policy).decision
    }
}

pub(crate) fn tool(server: &str, name: &str, hints: ToolHints) -> Tool {
    Tool {
        server: ServerName::new(server).unwrap(),
        name: name.to_owned(),
        title: None,
        description: String::new(),
        input_schema: Schema::default(),
        output_schema: None,
        category: None,
        hints,
    }
}

/// The names of a tool among those of its server, with identifiers as Coracle makes them.
pub(crate) fn names(server: &str, tools: &[&str], tool: &str) -> ToolNames {
    let plain: Vec<String> =
        tools.iter().map(|name| name.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect()).collect();
    let mut taken = Vec::new();
    let identifiers: Vec<String> = plain
        .iter()
        .map(|plain| {
            let mut identifier = plain.clone();
            while taken.contains(&identifier) {
                identifier.push_str("_2");
            }
            taken.push(identifier.clone());
            identifier
        })
        .collect();
    let all = (0..tools.len()).map(|n| Naming { wire: tools[n], plain: &plain[n], identifier: &identifiers[n] });
    let spellings = Spellings::of_all(all);
    let of_server = Spellings::of_all([Naming { wire: server, plain: server, identifier: server }]);
    ToolNames { server: of_server[server].clone(), tool: spellings[tool].clone() }
}
