//! Settings of rule mode.

use serde::Deserialize;

use super::Turn;

/// How to answer in rule mode.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// The tool that runs code. It is called with the first fenced block of a user's message.
    pub code_tool: String,
    /// Turns for messages with certain words. The first rule that applies is used.
    pub phrases: Vec<Rule>,
    /// Whether tools are called that have no word in common with the message.
    pub eager: bool,
    /// Tools that are called only if the client demands it.
    pub ignored_tools: Vec<String>,
    /// The turn for a message that nothing else applies to, in place of an echo.
    pub otherwise: Option<Turn>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            code_tool: "execute_code".to_owned(),
            phrases: Vec::new(),
            eager: true,
            ignored_tools: Vec::new(),
            otherwise: None,
        }
    }
}

/// A turn for messages with certain words. It applies if the request offers all tools that the turn calls.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The words, all of which the message must contain, in any case and order.
    pub words: Vec<String>,
    /// The turn.
    pub turn: Turn,
    /// The turn after the tool results, if it is not the usual one.
    #[serde(default)]
    pub after_result: Option<Turn>,
}
