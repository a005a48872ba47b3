//! Names that policy rules may use for tools: those that servers use, and those shown to people and to code.

use super::Toolbox;
use coracle_catalog::{CodeName, server_names, tool_names};
use coracle_policy::{KnownServer, Naming, Pattern, Rule, Spellings, ToolNames, Verdict};
use coracle_types::{ServerName, Tool, UserId};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Spellings of names, keyed by the name on the wire.
pub(super) type NamesByWire = HashMap<String, Arc<Spellings>>;

pub(super) fn of_tools<'a>(wires: impl IntoIterator<Item = &'a str>) -> NamesByWire {
    spellings(&tool_names(wires))
}

pub(super) fn of_servers<'a>(wires: impl IntoIterator<Item = &'a str>) -> NamesByWire {
    spellings(&server_names(wires))
}

fn spellings(names: &[CodeName<'_>]) -> NamesByWire {
    Spellings::of_all(names.iter().map(|name| Naming {
        wire: name.wire,
        plain: &name.plain,
        identifier: &name.identifier,
    }))
}

impl Toolbox {
    /// Returns the names that policy rules may use for a tool.
    pub(crate) fn names(&self, user: &UserId, server: &ServerName, tool: &str) -> ToolNames {
        let on_wire = |wire: &str| Arc::new(Spellings::of_wire(wire));
        if !self.approvals.policy().reads_names() {
            return ToolNames { server: on_wire(server.as_str()), tool: on_wire(tool) };
        }
        let owner = self.owner(user, server);
        let known = owner.and_then(|owner| self.known().get_mut(&(owner, server.clone()))?.names());
        let of_tool = match known {
            Some(names) => names.get(tool).map(Arc::clone),
            // No list is known: the tool is treated as the only one of its server.
            None => of_tools([tool]).remove(tool),
        };
        let of_server = self.configured().names.get(server.as_str()).map(Arc::clone);
        ToolNames {
            server: of_server.unwrap_or_else(|| on_wire(server.as_str())),
            tool: of_tool.unwrap_or_else(|| on_wire(tool)),
        }
    }

    /// Returns what the policy decides about a tool, before any person is asked.
    pub fn verdict(&self, user: &UserId, tool: &Tool) -> Verdict {
        self.approvals.policy().decide(tool, &self.names(user, &tool.server, &tool.name))
    }

    /// Returns the policy rules that name a tool, and no other.
    pub fn rules_about(&self, user: &UserId, tool: &Tool) -> Vec<Rule> {
        let names = self.names(user, &tool.server, &tool.name);
        self.approvals.policy().rules().about_tool(&names).cloned().collect()
    }

    /// Returns the policy rules that match no tool, although all servers that they apply to have listed their tools,
    /// now or in an earlier run.
    pub async fn rules_without_effect(&self, user: &UserId) -> Vec<Rule> {
        self.restore(user).await;
        self.rules_without_effect_now()
    }

    /// Returns the policy rules without effect that name only this server. Its tools must have been listed; stored
    /// tools are not loaded.
    pub fn rules_without_effect_on(&self, server: &ServerName) -> Vec<Rule> {
        let configured = self.configured();
        let Some(names) = configured.names.get(server.as_str()) else { return Vec::new() };
        let is_about = |rule: &Rule| {
            let pattern = rule.pattern.parse::<Pattern>();
            pattern.is_ok_and(|pattern| pattern.names_one_server() && pattern.matches_server(names))
        };
        let mut rules = self.rules_without_effect_now();
        rules.retain(is_about);
        rules
    }

    fn rules_without_effect_now(&self) -> Vec<Rule> {
        let policy = self.approvals.policy();
        let rules = policy.rules();
        if rules.is_empty() {
            return Vec::new();
        }
        let servers: Vec<KnownServer> = {
            let mut tools: HashMap<String, Vec<Arc<Spellings>>> = HashMap::new();
            for ((_, server), known) in self.known().iter_mut() {
                if let Some(names) = known.names() {
                    tools.entry(server.to_string()).or_default().extend(names.values().map(Arc::clone));
                }
            }
            let known = |(wire, server): (&String, &Arc<Spellings>)| KnownServer {
                server: Arc::clone(server),
                tools: tools.remove(wire),
            };
            self.configured().names.iter().map(known).collect()
        };
        rules.without_effect(&servers).into_iter().cloned().collect()
    }

    /// Logs each policy rule that matches no tool, once.
    pub fn report_rules(&self) {
        let generation = self.generation.load(Ordering::Relaxed);
        if self.approvals.policy().rules().is_empty() || self.checked.swap(generation, Ordering::Relaxed) == generation
        {
            return;
        }
        for rule in self.rules_without_effect_now() {
            let is_new = self.reported.lock().unwrap_or_else(PoisonError::into_inner).insert(rule.pattern.clone());
            if is_new {
                tracing::warn!("{}", without_effect(&rule));
            }
        }
    }
}

/// Returns the message for a policy rule that matches no tool.
pub fn without_effect(rule: &Rule) -> String {
    format!(
        "{}: the policy rule {:?} has no effect: it matches no tool; `coracle tools list` prints the names of all tools",
        rule.origin, rule.pattern
    )
}
