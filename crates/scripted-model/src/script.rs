//! Scripts as plain data, and their checks.

mod rule;
mod step;

use std::collections::BTreeMap;

use serde::Deserialize;
use thiserror::Error;

pub use rule::{Rule, Rules};
pub use step::{
    Arrangement, Call, CallGroup, Disconnect, FinishReason, Raw, Reasoning, Repeat, Status, Step, StreamError, Text,
    UsageFigures, Wait,
};

/// The name that selects rule mode in a marker, and that no script may have.
pub(crate) const RULES: &str = "rules";

/// An error in a script.
#[derive(Debug, Error)]
pub enum ScriptError {
    /// The file is neither YAML nor JSON, or has fields that no script has.
    #[error("cannot parse the script: {0}")]
    Parse(String),
    /// The script that the library names as its default does not exist.
    #[error("the default script `{0}` does not exist")]
    UnknownDefault(String),
    /// A script has a name that a marker cannot have, or that means something else.
    #[error("`{0}` cannot be the name of a script")]
    Name(String),
    /// A script has no turns.
    #[error("the script `{0}` has no turns")]
    Empty(String),
    /// Two scripts are selected by the same text.
    #[error("the scripts `{0}` and `{1}` are selected by the same text")]
    SameText(String, String),
    /// A status that comes after output can no longer be sent.
    #[error("turn {turn} of `{script}` has a status after other output")]
    LateStatus {
        /// The name of the script.
        script: String,
        /// The turn, counted from 0.
        turn: usize,
    },
}

/// All scripts of a server.
///
/// A user message selects a script by a marker, `[script:NAME]`, or by being exactly the text of [`Script::says`]. The
/// last message that does so counts. Before any does, the default applies, which is rule mode if there is none. The
/// marker `[script:rules]` selects rule mode.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Library {
    /// The key that requests must have. Without one, none is needed.
    pub key: Option<String>,
    /// The models that exist. If the list is empty, every name is accepted.
    pub models: Vec<String>,
    /// The script for conversations in which no message selects one.
    pub default: Option<String>,
    /// How to answer in rule mode.
    pub rules: Rules,
    /// The scripts by their names.
    pub scripts: BTreeMap<String, Script>,
}

impl Library {
    /// Reads a library from YAML or JSON, and checks it.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let library: Self = serde_saphyr::from_str(text).map_err(|error| ScriptError::Parse(error.to_string()))?;
        library.check()?;
        Ok(library)
    }

    /// A library whose default is one script with these turns.
    pub fn single<T: Into<Turn>>(turns: impl IntoIterator<Item = T>) -> Self {
        let script = Script::new(turns);
        Self { default: Some("main".to_owned()), ..Self::default() }.with("main", script)
    }

    /// Adds a script.
    #[must_use]
    pub fn with(mut self, name: &str, script: Script) -> Self {
        self.scripts.insert(name.to_owned(), script);
        self
    }

    /// Finds mistakes that would only show when a turn is played.
    pub fn check(&self) -> Result<(), ScriptError> {
        if let Some(default) = self.default.as_ref().filter(|name| *name != RULES && !self.scripts.contains_key(*name))
        {
            return Err(ScriptError::UnknownDefault(default.clone()));
        }
        let mut texts: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, script) in &self.scripts {
            if name == RULES || name.is_empty() || name.contains(['[', ']']) {
                return Err(ScriptError::Name(name.clone()));
            }
            if script.turns.is_empty() {
                return Err(ScriptError::Empty(name.clone()));
            }
            if let Some(other) = script.says.as_deref().and_then(|text| texts.insert(text, name)) {
                return Err(ScriptError::SameText(other.to_owned(), name.clone()));
            }
            if let Some(turn) = script.turns.iter().position(Turn::has_late_status) {
                return Err(ScriptError::LateStatus { script: name.clone(), turn });
            }
        }
        Ok(())
    }
}

/// A conversation, from the message that selects it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The exact text of a user message that selects the script.
    #[serde(default)]
    pub says: Option<String>,
    /// What the model answers, one turn for each request that continues the conversation.
    pub turns: Vec<Turn>,
    /// What happens after the last turn.
    #[serde(default)]
    pub then: Then,
}

impl Script {
    /// A script with these turns.
    pub fn new<T: Into<Turn>>(turns: impl IntoIterator<Item = T>) -> Self {
        Self { turns: turns.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// The same script, selected by the exact text of a user message.
    #[must_use]
    pub fn says(mut self, text: &str) -> Self {
        self.says = Some(text.to_owned());
        self
    }

    /// The same script, with another end.
    #[must_use]
    pub fn then(mut self, then: Then) -> Self {
        self.then = then;
        self
    }
}

/// What happens after the last turn of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// The request is rejected, because a test did not expect it.
    #[default]
    Refuse,
    /// The last turn is played again.
    Repeat,
    /// Rule mode answers.
    Rules,
}

/// One answer of the model: a list of steps.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Turn {
    /// The steps in the order in which they are played.
    pub steps: Vec<Step>,
}

impl Turn {
    /// The number of tool calls in this turn.
    pub(crate) fn calls(&self) -> usize {
        self.steps.iter().map(|step| step.calls().len()).sum()
    }

    fn has_late_status(&self) -> bool {
        let is_opening = |step: &&Step| matches!(step, Step::Status(_) | Step::Wait(_));
        self.steps.iter().skip_while(is_opening).any(|step| matches!(step, Step::Status(_)))
    }
}

impl<const N: usize> From<[Step; N]> for Turn {
    fn from(steps: [Step; N]) -> Self {
        Self { steps: steps.into() }
    }
}

impl From<Vec<Step>> for Turn {
    fn from(steps: Vec<Step>) -> Self {
        Self { steps }
    }
}

#[cfg(test)]
mod tests;
