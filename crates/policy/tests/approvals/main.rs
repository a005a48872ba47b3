//! Questions to people, and their answers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod approvers;
mod doubts;
mod flows;
mod groups;
mod remembered;
mod restrictions;
mod same_arguments;
mod waiting;

use coracle_policy::{
    Approvals, Approver, Call, Cargo, Circumstances, Doubt, Grant, Policy, Refusal, Rule, Rules, ToolNames,
};
use coracle_store::{MemoryStore, Store};
use coracle_types::{Decision, ExecutionId, ServerName, SessionId, Tool, ToolHints, UserId};
use serde_json::{Value, json};
use std::sync::Arc;

/// The context of code that calls tools.
#[derive(Clone)]
struct Caller {
    approvals: Arc<Approvals>,
    user: UserId,
    session: Option<SessionId>,
    execution: ExecutionId,
    cargo: Cargo,
    doubt: Option<Doubt>,
}

impl Caller {
    fn new(approvals: &Arc<Approvals>, user: &str, session: Option<&str>, execution: &str) -> Self {
        Self {
            approvals: Arc::clone(approvals),
            user: UserId::new(user).unwrap(),
            session: session.map(|session| SessionId::new(session).unwrap()),
            execution: ExecutionId::new(execution).unwrap(),
            cargo: Cargo::default(),
            doubt: None,
        }
    }

    async fn calls(&self, tool: &Tool, approver: &dyn Approver) -> Result<Grant, Refusal> {
        self.calls_with(tool, &json!({"path": "/x"}), approver).await
    }

    async fn calls_with(&self, tool: &Tool, arguments: &Value, approver: &dyn Approver) -> Result<Grant, Refusal> {
        let names = ToolNames::of_wire(tool);
        let call = Call {
            user: &self.user,
            session: self.session.as_ref(),
            execution: &self.execution,
            tool,
            names: &names,
            arguments,
            cargo: &self.cargo,
            circumstances: Circumstances::default(),
            doubt: self.doubt,
        };
        self.approvals.decide(call, approver).await
    }
}

fn approvals(rules: &[(&str, Decision)]) -> (Arc<Approvals>, Arc<MemoryStore>) {
    let store = Arc::new(MemoryStore::new());
    (with_store(rules, Arc::clone(&store) as Arc<dyn Store>), store)
}

fn with_store(rules: &[(&str, Decision)], store: Arc<dyn Store>) -> Arc<Approvals> {
    let rules = rules.iter().map(|(pattern, decision)| Rule {
        pattern: (*pattern).to_owned(),
        decision: *decision,
        origin: "coracle.yaml:3".to_owned(),
    });
    Arc::new(Approvals::new(Policy::new(Rules::new(rules.collect()).unwrap()), store))
}

/// A tool that is marked as destructive.
fn destructive(server: &str, name: &str) -> Tool {
    Tool {
        server: ServerName::new(server).unwrap(),
        name: name.to_owned(),
        title: None,
        description: "Throws\neverything \u{1b}[31maway.".to_owned(),
        input_schema: coracle_types::Schema::default(),
        output_schema: None,
        category: None,
        hints: ToolHints { destructive: Some(true), ..ToolHints::default() },
    }
}
