//! What `coracle up` prints when it starts.

use super::local_key;
use crate::frontend::Serving;
use crate::models::Local;
use crate::output::{counted, plain};
use crate::variables;
use coracle_accounts::People;
use coracle_engine::{Listing, Request};
use coracle_server::{AgentOptions, Part, Parts, local_providers};
use coracle_types::{Language, UserId};
use std::net::SocketAddr;
use std::sync::Arc;

/// Maximum length of a reason in characters.
const MAX_REASON: usize = 300;

/// Lines about the agent: where it is, how clients authenticate, and which models were found.
pub(super) async fn agent(
    agent: &AgentOptions,
    local: &Local,
    people: &People,
    address: SocketAddr,
) -> anyhow::Result<Vec<String>> {
    let has_users = !people.all().await.map_err(crate::users::told)?.is_empty();
    let own = if has_users { Vec::new() } else { local_providers(agent, people).await };
    if agent.models.providers().is_empty() && own.is_empty() {
        let page = if has_users { "" } else { "enter the key of a provider on the page, " };
        let how = "set DEFAULT_MODEL and the key of its provider, start Ollama, LM Studio or llama.cpp, or try coracle up \
                   --demo";
        return Ok(vec![format!("agent     off, because there is no model: {page}{how}")]);
    }
    let model = match agent.models.find(None) {
        Ok(model) => format!("model {}", plain(&model.name(), MAX_REASON)),
        Err(_) if !own.is_empty() => format!("keys of {} from the page", own.join(", ")),
        Err(_) => "no agent.default_model".to_owned(),
    };
    let key = if has_users {
        "with an API key: coracle users keys".to_owned()
    } else {
        format!("key in {}", variables::home()?.join(local_key::FILE).display())
    };
    let mut lines = vec![format!("agent     http://{address}/v1 ({model}; {key})")];
    lines.extend(local.descriptions().into_iter().map(|line| format!("models    {line} (found on this machine)")));
    if let Some(example) = local.example() {
        lines.push(format!("          to make one the default: DEFAULT_MODEL={example} coracle up"));
    }
    Ok(lines)
}

/// Everything that is printed about a server that has started.
pub(super) struct Greeting<'a> {
    pub(super) serving: &'a Serving,
    pub(super) profile: &'a str,
    pub(super) addresses: &'a [SocketAddr],
    pub(super) parts: &'a Parts,
    /// Whether to print how MCP clients are connected.
    pub(super) is_lasting: bool,
}

impl Greeting<'_> {
    pub(super) async fn print(&self, welcome: &[String]) {
        let version = env!("CARGO_PKG_VERSION");
        let Some((address, others)) = self.addresses.split_first() else { return };
        if self.parts.has(Part::Mcp) {
            eprintln!("coracle {version} serves MCP at http://{address}/mcp (profile {})", self.profile);
        } else {
            let parts: Vec<&str> =
                Part::ALL.into_iter().filter(|part| self.parts.has(*part)).map(Part::as_str).collect();
            eprintln!("coracle {version} serves http://{address} (only {})", parts.join(" and "));
        }
        for address in others {
            eprintln!("  also      http://{address}");
        }
        for line in welcome {
            eprintln!("  {line}");
        }
        self.sandbox().await;
        if self.parts.has(Part::Mcp) && self.is_lasting {
            eprintln!(
                "  connect   coracle mcp --install claude|cursor|vscode|codex, or any MCP client by the address above"
            );
        }
        self.servers().await;
    }

    /// Runs a program, because only a real sandbox shows what is enforced.
    async fn sandbox(&self) {
        let mut request = Request::new(UserId::local(), Language::Python, "pass");
        request.is_listed = false;
        let tried = self.serving.engine.execute(request).await;
        match &tried.failure {
            None => {
                let enforced = tried.limits.enforced.as_ref();
                let memory =
                    enforced.map(|enforced| format!("{:?}", enforced.memory).to_lowercase()).unwrap_or_default();
                eprintln!(
                    "  sandbox   {} (memory by {memory}), first start {:.0} ms; see coracle doctor",
                    tried.limits.tier, tried.execution_time_ms
                );
            }
            Some(failure) => eprintln!("  sandbox   none: {}; see coracle doctor", plain(&failure.error, MAX_REASON)),
        }
    }

    async fn servers(&self) {
        let none =
            || eprintln!("  servers   none: import those of other clients with coracle servers import, or add one");
        let Some(toolbox) = &self.serving.toolbox else { return none() };
        let toolbox = Arc::clone(toolbox);
        let inventory = toolbox.inventory(&UserId::local(), Listing::All).await;
        toolbox.begin_reading(&inventory).await;
        if inventory.catalog.servers().is_empty() && inventory.missing.is_empty() {
            none();
        }
        for server in inventory.catalog.servers() {
            eprintln!("  server    {}: {}", server.name, counted(server.tools.len(), "tool"));
        }
        for (server, reason) in &inventory.missing {
            eprintln!("  server    {server}: not available: {}", plain(reason, MAX_REASON));
        }
    }
}
