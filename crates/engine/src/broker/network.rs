//! Requests of code to the network. The proxy asks about each request that its rules allow: it is decided, asked about,
//! counted and recorded like a call of the server `network`, whose tools are the methods of HTTP and `connect`.

use super::asking::Asking;
use super::{Broker, Current, access};
use crate::audit::Stage;
use crate::host_calls::{HostCallError, refused};
use crate::json;
use crate::ledger::Line;
use crate::network::{NETWORK_SERVER, server};
use crate::run::CallCount;
use async_trait::async_trait;
use coracle_egress::{Attempt, Decide, Decision, Outcome, Refusal, RefusalKind, Scheme};
use coracle_policy::{Call, ToolNames};
use coracle_types::{Schema, Tool, ToolHints};
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of different warnings about refused requests.
const MAX_WARNINGS: usize = 20;

/// Maximum length of a warning, in characters. Hosts and paths come from hostile code.
const MAX_WARNING_CHARS: usize = 500;

/// Tools that only read, as far as servers follow the standard.
const READING: [&str; 3] = ["get", "head", "options"];

/// The requests of one execution.
#[derive(Debug)]
pub(crate) struct NetworkCalls {
    broker: Arc<Broker>,
    /// Counts calls of tools, too.
    count: CallCount,
    most: u64,
    /// Requests that were allowed and have not ended, by their number at the gate.
    open: Mutex<HashMap<u64, Line>>,
    warnings: Mutex<Vec<String>>,
}

impl NetworkCalls {
    /// Requests that count together with the calls of the execution, which may make `most` of both.
    pub(crate) fn new(broker: Arc<Broker>, count: CallCount, most: u64) -> Self {
        Self { broker, count, most, open: Mutex::default(), warnings: Mutex::default() }
    }

    /// Records what has not ended as cancelled, and returns what the user has to know of the others.
    pub(crate) fn end(&self) -> Vec<String> {
        self.open().clear();
        std::mem::take(&mut *self.warnings())
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Line>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn warnings(&self) -> MutexGuard<'_, Vec<String>> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn warn(&self, refusal: &Refusal) {
        let text = refusal.to_string().replace('\n', "; ");
        let text: String = text.chars().take(MAX_WARNING_CHARS).collect();
        let mut warnings = self.warnings();
        if warnings.contains(&text) {
            return;
        }
        match warnings.len() {
            ..MAX_WARNINGS => warnings.push(text),
            MAX_WARNINGS => warnings.push("network access refused: further requests are only counted".to_owned()),
            _ => {}
        }
    }
}

#[async_trait]
impl Decide for NetworkCalls {
    async fn decide(&self, attempt: &Attempt) -> Decision {
        if !self.count.take(self.most) {
            let reason = format!("is one call too many: at most {} are made in an execution", self.most);
            return Decision::Deny { reason, hint: Some("raise execution.limits.calls".to_owned()) };
        }
        match self.broker.admit_network(attempt).await {
            Ok(line) => {
                self.open().insert(attempt.id, line);
                Decision::Allow
            }
            Err(error) => {
                Decision::Deny { reason: format!("was denied ({}): {}", error.code, error.message), hint: None }
            }
        }
    }

    fn finished(&self, attempt: &Attempt, outcome: &Outcome) {
        let line = self.open().remove(&attempt.id);
        match (line, &outcome.error) {
            (Some(line), None) => line.answered(outcome.bytes_down),
            (Some(line), Some(error)) if error == "cancelled" => line.failed("cancelled"),
            (Some(line), Some(_)) => line.failed("request_failed"),
            (None, _) => {}
        }
    }

    fn refused(&self, refusal: &Refusal) {
        match refusal.kind {
            // It was allowed, and what became of it is recorded when it ends.
            RefusalKind::Upstream => return,
            // These were recorded when they were decided about.
            RefusalKind::Decision | RefusalKind::Address => {}
            _ if self.count.take(self.most) => self.broker.refused_network(refusal),
            // Records are bounded by the limit on calls.
            _ => {}
        }
        self.warn(refusal);
    }
}

impl Broker {
    /// Decides about a request. It is recorded as answered by the line that is returned.
    async fn admit_network(&self, attempt: &Attempt) -> Result<Line, HostCallError> {
        let method = attempt.method.to_lowercase();
        let arguments = arguments(attempt);
        let bytes = json::length(&arguments);
        let number = self.ledger.next_number();
        let mut line = self.ledger.begin(number, NETWORK_SERVER, &method, bytes);
        line.audit(self.in_progress(number));
        line.announce(&self.listener, &arguments).await;
        let mut current = Current { line, entry: None, foreseen: None };
        match self.decide_network(method, arguments, bytes, &mut current).await {
            Ok(()) => Ok(current.line),
            Err(error) => {
                current.line.failed(&error.code);
                Err(error)
            }
        }
    }

    /// Nothing in a request is restored, so the arguments are what is sent.
    async fn decide_network(
        &self,
        method: String,
        arguments: Map<String, Value>,
        bytes: u64,
        current: &mut Current,
    ) -> Result<(), HostCallError> {
        let most = self.toolbox.caps().argument_bytes;
        if bytes > most {
            return Err(refused("too_large", &format!("the request is {bytes} bytes long: at most {most} are taken")));
        }
        let Some(tool) = network_tool(method) else {
            return Err(refused("internal", "requests have no server"));
        };
        let server = &tool.server;
        if let Err(error) = access::check(self.caller.access, &tool) {
            self.caller.audit.denied_early(self.call_of(server, &tool.name, bytes, current), &error).await;
            current.line.reached(Stage::Denied);
            return Err(error);
        }
        let (names, arguments) = (ToolNames::of_wire(&tool), Value::Object(arguments));
        let cargo = self.cargo(&tool, &names, &arguments, BTreeSet::new()).await?;
        let call = Call {
            user: &self.caller.user,
            session: self.caller.session.as_ref(),
            execution: &self.caller.execution,
            tool: &tool,
            names: &names,
            arguments: &arguments,
            cargo: &cargo,
            circumstances: self.circumstances(current),
            doubt: None,
        };
        let (approver, audit, number) = (self.caller.approver.as_ref(), &self.caller.audit, current.line.number());
        let privacy = self.caller.privacy.as_ref();
        let asking = Asking::new(approver, &self.clock, &self.listener, audit, number, &arguments, privacy);
        let decided = self.toolbox.approvals().decide(call, &asking).await;
        asking.decided(decided.is_ok()).await;
        match decided {
            // Also a request that fails counts towards the limits of the policy.
            Ok(grant) => self.settled(&call, &grant, bytes, current).await.map(drop),
            Err(refusal) => Err(self.denied(server, &tool, bytes, &arguments, current, &refusal).await),
        }
    }

    /// Records a request that the proxy refused before it asked.
    fn refused_network(&self, refusal: &Refusal) {
        let method = refusal.subject.split(' ').next().unwrap_or_default();
        let is_method = !method.is_empty() && method.chars().all(|c| c.is_ascii_uppercase());
        let tool = if is_method { method.to_lowercase() } else { "request".to_owned() };
        let number = self.ledger.next_number();
        let mut line = self.ledger.begin(number, NETWORK_SERVER, &tool, 0);
        line.audit(self.in_progress(number));
        line.failed(refusal.kind.code());
    }
}

/// A request as rules see it.
fn arguments(attempt: &Attempt) -> Map<String, Value> {
    let Attempt { id: _, scheme, method, host, port, path, query, body_bytes, credentials } = attempt;
    let (name, usual) = match scheme {
        Scheme::Http => ("http", 80),
        Scheme::Https | Scheme::Tunnel => ("https", 443),
    };
    let address = if *port == usual { host.to_string() } else { format!("{host}:{port}") };
    let query = query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
    let all = json!({
        "url": format!("{name}://{address}{path}{query}"),
        "method": method,
        "host": host.as_str(),
        "port": port,
        "path": path,
        "body_bytes": body_bytes,
        "credentials": credentials,
    });
    match all {
        Value::Object(all) => all,
        _ => Map::new(),
    }
}

/// The method of a request as a tool.
fn network_tool(method: String) -> Option<Tool> {
    let only_reads = READING.contains(&method.as_str());
    let hints = ToolHints { read_only: Some(only_reads), open_world: Some(true), ..ToolHints::default() };
    Some(Tool {
        server: server()?,
        name: method,
        title: None,
        description: String::new(),
        input_schema: Schema::default(),
        output_schema: None,
        category: None,
        hints,
    })
}

#[cfg(test)]
mod tests {
    use super::{arguments, network_tool};
    use coracle_egress::{Attempt, Host, Scheme};
    use serde_json::json;

    fn attempt(scheme: Scheme, port: u16) -> Attempt {
        Attempt {
            id: 0,
            scheme,
            method: "GET".to_owned(),
            host: Host::parse("example.org").unwrap(),
            port,
            path: "/a".to_owned(),
            query: Some("b=c".to_owned()),
            body_bytes: None,
            credentials: Vec::new(),
        }
    }

    #[test]
    fn arguments_have_the_whole_address() {
        let url = |scheme, port| arguments(&attempt(scheme, port))["url"].clone();
        assert_eq!(url(Scheme::Http, 80), json!("http://example.org/a?b=c"));
        assert_eq!(url(Scheme::Https, 443), json!("https://example.org/a?b=c"));
        assert_eq!(url(Scheme::Https, 80), json!("https://example.org:80/a?b=c"));
    }

    #[test]
    fn only_some_methods_read() {
        let reads = |method: &str| network_tool(method.to_owned()).unwrap().hints.read_only;
        assert_eq!((reads("get"), reads("post"), reads("connect")), (Some(true), Some(false), Some(false)));
    }
}
