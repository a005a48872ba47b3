//! Requests of clients that are no calls of tools: reading resources, prompts and completions. Rules and the audit log know
//! them by their method, such as `crm.resources/read`.

use super::flows::Holds;
use super::{Broker, Current, LESS};
use crate::host_calls::{HostCallError, refused, upstream_failed};
use crate::json;
use crate::request::DirectError;
use coracle_policy::{Call, NobodyToAsk, ToolNames};
use coracle_types::{Schema, ServerName, Tool, ToolHints};
use coracle_upstream::UpstreamError;
use serde_json::{Map, Value};

impl Broker {
    /// Decides about a request, and makes it with the arguments in which tokens were restored. Nobody is asked: what a rule
    /// wants a person to approve is refused.
    pub(crate) async fn pass_on_request<R>(
        &self,
        server: &ServerName,
        method: &'static str,
        arguments: Map<String, Value>,
        make: impl FnOnce(Map<String, Value>) -> R,
    ) -> Result<Value, DirectError>
    where
        R: Future<Output = Result<Value, UpstreamError>>,
    {
        let bytes = json::length(&arguments);
        let number = self.ledger.next_number();
        let mut line = self.ledger.begin(number, server.as_str(), method, bytes);
        line.audit(self.in_progress(number));
        let mut current = Current { line, entry: None, foreseen: None };
        let passed = async {
            let arguments = self.admit_request(server, method, arguments, bytes, &mut current).await?;
            let answer = make(arguments).await.map_err(|error| match error {
                UpstreamError::Refused { number, message, data, .. } => DirectError::Refused { number, message, data },
                other => upstream_failed(&other).into(),
            })?;
            let length = json::length(&answer);
            self.fits(length, LESS)?;
            self.came_from(server.as_str(), &answer, Holds::Data).await?;
            Ok::<_, DirectError>((answer, length))
        };
        match passed.await {
            Ok((answer, length)) => {
                current.line.answered(length);
                Ok(answer)
            }
            Err(error) => {
                current.line.failed(error.code());
                Err(error)
            }
        }
    }

    async fn admit_request(
        &self,
        server: &ServerName,
        method: &'static str,
        arguments: Map<String, Value>,
        bytes: u64,
        current: &mut Current,
    ) -> Result<Map<String, Value>, HostCallError> {
        let most = self.toolbox.caps().argument_bytes;
        if bytes > most {
            let message = format!("the request is {bytes} bytes long: at most {most} are passed on");
            return Err(refused("too_large", &message));
        }
        let (arguments, tokens) = self.restored(arguments).await?;
        let (tool, arguments) = (request_tool(server, method), Value::Object(arguments));
        let names = ToolNames::of_wire(&tool);
        let cargo = self.cargo(&tool, &names, &arguments, tokens).await?;
        let call = Call {
            user: &self.caller.user,
            session: None,
            execution: &self.caller.execution,
            tool: &tool,
            names: &names,
            arguments: &arguments,
            cargo: &cargo,
            circumstances: self.circumstances(current),
            doubt: None,
        };
        match self.toolbox.approvals().decide(call, &NobodyToAsk).await {
            Ok(grant) => self.settled(&call, &grant, bytes, current).await?,
            Err(refusal) => return Err(self.denied(server, &tool, bytes, &arguments, current, &refusal).await),
        };
        let Value::Object(arguments) = arguments else { return Err(refused("internal", "the arguments are gone")) };
        Ok(arguments)
    }
}

/// The request as rules see it: like a tool that only reads.
fn request_tool(server: &ServerName, method: &str) -> Tool {
    Tool {
        server: server.clone(),
        name: method.to_owned(),
        title: None,
        description: String::new(),
        input_schema: Schema::default(),
        output_schema: None,
        category: None,
        hints: ToolHints { read_only: Some(true), ..ToolHints::default() },
    }
}
