//! Finds the turn to play. It depends on the request alone.

use thiserror::Error;

use crate::conversation::{Item, Wire};
use crate::script::{Library, RULES, Reasoning, Script, Step, Then, Turn};

const MARKER: &str = "[script:";

/// Why no turn can be played.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum SelectError {
    #[error("there is no script named `{0}`")]
    Unknown(String),
    #[error("the script `{script}` has {turns} turns, and this is the request after the last one")]
    Exhausted { script: String, turns: usize },
}

/// A script and a number of turns that have been played of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position<'a> {
    /// The script, or `None` in rule mode.
    pub(crate) script: Option<(&'a str, &'a Script)>,
    pub(crate) turn: usize,
}

impl<'a> Position<'a> {
    /// The turn at this position: `None` if the rules answer.
    pub(crate) fn turn(&self) -> Result<Option<&'a Turn>, SelectError> {
        let Some((name, script)) = self.script else { return Ok(None) };
        match (script.turns.get(self.turn), script.then) {
            (Some(turn), _) => Ok(Some(turn)),
            (None, Then::Repeat) => Ok(script.turns.last()),
            (None, Then::Rules) => Ok(None),
            (None, Then::Refuse) => Err(SelectError::Exhausted { script: name.to_owned(), turns: script.turns.len() }),
        }
    }

    /// The number of the turn in its script. A turn that is repeated keeps its number.
    pub(crate) fn number(&self) -> usize {
        self.script.map_or(0, |(_, script)| self.turn.min(script.turns.len().saturating_sub(1)))
    }

    pub(crate) fn name(&self) -> &'a str {
        self.script.map_or(RULES, |(name, _)| name)
    }
}

/// Items of the model that belong to one turn.
#[derive(Clone, Debug)]
pub(crate) struct Group<'a> {
    pub(crate) position: Position<'a>,
    pub(crate) items: Vec<&'a Item>,
    /// Whether no user message comes after it.
    pub(crate) is_current: bool,
}

/// A history, as the scripts have played it.
#[derive(Clone, Debug)]
pub(crate) struct History<'a> {
    pub(crate) groups: Vec<Group<'a>>,
    /// The position of the answer to this request.
    pub(crate) next: Position<'a>,
}

/// Something that the script has sent and the client has not sent back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The reasoning before a call.
    Reasoning { call: String },
    /// The signature of a call.
    ThoughtSignature { name: String },
}

impl History<'_> {
    /// The first thing that the history lacks, by the rules of the wire.
    pub(crate) fn missing(&self, wire: Wire) -> Option<Missing> {
        self.groups.iter().find_map(|group| {
            let turn = group.position.turn().ok().flatten()?;
            match wire {
                Wire::Chat if group.is_current => missing_signature(turn, group),
                Wire::Responses if has_reasoning(turn, |reasoning| reasoning.encrypted) => missing_reasoning(group),
                Wire::Messages if group.is_current && has_reasoning(turn, |_| true) => missing_reasoning(group),
                _ => None,
            }
        })
    }
}

fn has_reasoning(turn: &Turn, is_meant: impl Fn(&Reasoning) -> bool) -> bool {
    turn.steps.iter().any(|step| matches!(step, Step::Reasoning(reasoning) if is_meant(reasoning)))
}

fn missing_signature(turn: &Turn, group: &Group<'_>) -> Option<Missing> {
    let scripted = turn.steps.iter().flat_map(Step::calls);
    let called = group.items.iter().filter_map(|item| match item {
        Item::Called { name, is_signed, .. } => Some((name, *is_signed)),
        _ => None,
    });
    let unsigned = scripted.zip(called).find(|(call, (_, is_signed))| call.thought_signature && !is_signed);
    unsigned.map(|(_, (name, _))| Missing::ThoughtSignature { name: name.clone() })
}

fn missing_reasoning(group: &Group<'_>) -> Option<Missing> {
    let first = group.items.iter().find(|item| matches!(item, Item::Reasoned | Item::Called { .. }))?;
    match first {
        Item::Called { id, .. } => Some(Missing::Reasoning { call: id.clone() }),
        _ => None,
    }
}

/// Follows a history from its beginning to the turn that is next.
pub(crate) fn follow<'a>(library: &'a Library, items: &'a [Item]) -> Result<History<'a>, SelectError> {
    let default = library.default.as_deref().and_then(|name| library.scripts.get_key_value(name));
    let mut next = Position { script: default.map(|(name, script)| (&**name, script)), turn: 0 };
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut is_in_group = false;
    for item in items {
        if let Item::User(text) = item {
            is_in_group = false;
            for group in &mut groups {
                group.is_current = false;
            }
            if let Some(script) = selected(library, text)? {
                next = Position { script, turn: 0 };
            }
        } else if item.is_of_model() {
            let last = groups.last_mut().filter(|group| is_in_group || has_more_calls(group, item));
            if let Some(group) = last {
                group.items.push(item);
            } else {
                groups.push(Group { position: next, items: vec![item], is_current: true });
                next.turn += 1;
            }
            is_in_group = true;
        } else {
            is_in_group = false;
        }
    }
    Ok(History { groups, next })
}

/// Whether an item after a tool result belongs to the turn before it: clients may put the result of each call right
/// after the call, even if the calls were made in one turn.
fn has_more_calls(group: &Group<'_>, item: &Item) -> bool {
    let calls = group.items.iter().filter(|item| matches!(item, Item::Called { .. })).count();
    let expected = group.position.turn().ok().flatten().map_or(0, Turn::calls);
    group.is_current && matches!(item, Item::Called { .. }) && calls < expected
}

type Selected<'a> = Option<(&'a str, &'a Script)>;

/// The script that a user message selects. The inner `None` is rule mode.
fn selected<'a>(library: &'a Library, text: &str) -> Result<Option<Selected<'a>>, SelectError> {
    let marker = text.split_once(MARKER).and_then(|(_, after)| after.split_once(']'));
    if let Some((name, _)) = marker {
        if name == RULES {
            return Ok(Some(None));
        }
        let found = library.scripts.get_key_value(name);
        let (name, script) = found.ok_or_else(|| SelectError::Unknown(name.to_owned()))?;
        return Ok(Some(Some((name, script))));
    }
    let said = library.scripts.iter().find(|(_, script)| script.says.as_deref() == Some(text));
    Ok(said.map(|(name, script)| Some((&**name, script))))
}

#[cfg(test)]
mod tests;
