use cedar_policy::{ActionConstraint, EntityUid, Policy, PolicySet, PolicySetError, ResourceConstraint};
use coracle_types::Tool;
use std::collections::HashMap;

/// Policies about calls by what their scope names, so that only those that can apply are evaluated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Partition {
    /// Policies whose scope names neither a server nor a tool.
    general: PolicySet,
    by_server: HashMap<String, PolicySet>,
    /// By server and tool.
    by_tool: HashMap<String, PolicySet>,
}

/// What the scope of a policy says about its action and its resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    General,
    Server(String),
    Tool(String),
    /// Only code.
    Code,
}

impl Scope {
    pub(crate) fn of(policy: &Policy) -> Self {
        let entity = |uid: &EntityUid| match uid.type_name().to_string().as_str() {
            "Server" => Self::Server(uid.id().unescaped().to_owned()),
            "Tool" => Self::Tool(uid.id().unescaped().to_owned()),
            "Code" => Self::Code,
            _ => Self::General,
        };
        match policy.resource_constraint() {
            ResourceConstraint::Is(name) if name.to_string() == "Code" => Self::Code,
            ResourceConstraint::Any | ResourceConstraint::Is(_) => Self::General,
            ResourceConstraint::Eq(uid) | ResourceConstraint::In(uid) | ResourceConstraint::IsIn(_, uid) => {
                entity(&uid)
            }
        }
    }

    /// Whether the policy can apply to calls, and whether it can apply to executions.
    pub(crate) fn actions(&self, policy: &Policy) -> (bool, bool) {
        let is = |uid: &EntityUid, action: &str| uid.id().unescaped() == action;
        let (call, execute) = match policy.action_constraint() {
            ActionConstraint::Any => (true, true),
            ActionConstraint::Eq(uid) => (is(&uid, "call"), is(&uid, "execute")),
            ActionConstraint::In(uids) => {
                (uids.iter().any(|uid| is(uid, "call")), uids.iter().any(|uid| is(uid, "execute")))
            }
        };
        let is_tool = match policy.resource_constraint() {
            ResourceConstraint::Is(name) | ResourceConstraint::IsIn(name, _) => name.to_string() == "Tool",
            _ => matches!(self, Self::Server(_) | Self::Tool(_)),
        };
        (call && *self != Self::Code, execute && !is_tool)
    }
}

impl Partition {
    pub(crate) fn add(&mut self, scope: Scope, policy: Policy) -> Result<(), Box<PolicySetError>> {
        let set = match scope {
            Scope::General => &mut self.general,
            Scope::Server(server) => self.by_server.entry(server).or_default(),
            Scope::Tool(tool) => self.by_tool.entry(tool).or_default(),
            Scope::Code => return Ok(()),
        };
        set.add(policy).map_err(Box::new)
    }

    /// The policies that can apply to calls of a tool.
    pub(crate) fn about(&self, tool: &Tool) -> Vec<&PolicySet> {
        let by_server = self.by_server.get(tool.server.as_str());
        let by_tool =
            if self.by_tool.is_empty() { None } else { self.by_tool.get(&format!("{}.{}", tool.server, tool.name)) };
        [Some(&self.general), by_server, by_tool].into_iter().flatten().collect()
    }
}
