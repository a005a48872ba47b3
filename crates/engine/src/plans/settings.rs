//! What the operator says about plans.

use coracle_policy::{Pattern, PatternError, Rule, Rules, RulesError, ToolNames};
use coracle_types::{Decision, Tool};
use std::time::Duration;

/// How long a plan can be approved, unless the settings say otherwise.
const KEPT_FOR: Duration = Duration::from_hours(24);
/// Arguments by which a tool can be asked what it would do.
const PREVIEW_ARGUMENTS: [&str; 5] = ["dry_run", "dryRun", "preview", "validate_only", "validateOnly"];

/// What a tool does, according to the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolEffect {
    /// It only reads.
    Reads,
    /// It only reads, and its answer differs each time.
    Varies,
    /// It changes something.
    Writes,
}

/// Why settings of plans cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanSettingsError {
    /// A pattern of a tool is invalid.
    #[error(transparent)]
    Tools(#[from] RulesError),
    /// A pattern of a preview is invalid.
    #[error("plan.previews: {0}")]
    Previews(#[from] PatternError),
}

/// What the operator says about plans.
#[derive(Clone, Debug)]
pub struct PlanSettings {
    /// Reading tools are allowed here, those that vary need approval, and those that write are denied: of rules that are
    /// equally specific, the strictest counts.
    tools: Rules,
    previews: Vec<Pattern>,
    kept_for: Duration,
}

impl Default for PlanSettings {
    fn default() -> Self {
        Self { tools: Rules::default(), previews: Vec::new(), kept_for: KEPT_FOR }
    }
}

impl PlanSettings {
    /// Creates settings. Each tool has a pattern, its effect, and where that is set. `previews` are patterns of tools that
    /// may be called while a plan is made, to say what they would do.
    pub fn new(
        tools: impl IntoIterator<Item = (String, ToolEffect, String)>,
        previews: impl IntoIterator<Item = String>,
        kept_for: Option<Duration>,
    ) -> Result<Self, PlanSettingsError> {
        let rule = |(pattern, effect, origin)| {
            let decision = match effect {
                ToolEffect::Reads => Decision::Allow,
                ToolEffect::Varies => Decision::Ask,
                ToolEffect::Writes => Decision::Deny,
            };
            Rule { pattern, decision, origin }
        };
        let previews = previews.into_iter().map(|pattern| pattern.parse()).collect::<Result<_, PatternError>>()?;
        let tools = Rules::new(tools.into_iter().map(rule).collect())?;
        Ok(Self { tools, previews, kept_for: kept_for.unwrap_or(KEPT_FOR) })
    }

    /// How long a plan can be approved.
    pub(crate) fn kept_for(&self) -> Duration {
        self.kept_for
    }

    /// What a tool does: as the operator says, or else as its server claims.
    pub(crate) fn effect(&self, tool: &Tool, names: &ToolNames) -> ToolEffect {
        match self.tools.decisive(names).map(|rule| rule.decision) {
            Some(Decision::Allow) => ToolEffect::Reads,
            Some(Decision::Ask) => ToolEffect::Varies,
            Some(Decision::Deny) => ToolEffect::Writes,
            None => {
                let is_reading = tool.hints.read_only == Some(true);
                if is_reading { ToolEffect::Reads } else { ToolEffect::Writes }
            }
        }
    }

    /// The argument by which the tool can be asked what it would do, if the operator allows that.
    pub(crate) fn preview(&self, tool: &Tool, names: &ToolNames) -> Option<&'static str> {
        let is_meant = |pattern: &Pattern| pattern.matches(names, Decision::Allow).is_some();
        if !self.previews.iter().any(is_meant) {
            return None;
        }
        let schema = tool.input_schema.object();
        let properties = schema.get("properties")?;
        let is_switch = |name: &&str| properties.get(name).is_some_and(|argument| argument["type"] == "boolean");
        PREVIEW_ARGUMENTS.into_iter().find(|name| is_switch(name))
    }
}
