//! Shortens a conversation that fills the model's context.

use coracle_models::{Item, ModelError, ModelProvider, ModelRequest, Part, Usage};
use std::fmt::Write as _;
use tokio::sync::mpsc;

/// Share of the context, in percent, that the recent part keeps.
const KEPT_PERCENT: usize = 30;
/// Maximum number of tokens of a summary.
const MAX_SUMMARY_TOKENS: u64 = 4_000;

const INSTRUCTIONS: &str = "You shorten conversations between a user and an agent that writes code. Summarise the \
conversation below for the agent, who will continue it without seeing the original: the user's goals and constraints, \
what was found out and done (with names of files, sessions, variables, servers and tools), what failed and why, and what \
is left to do. Do not answer the user. Write at most one page.";

/// A shortened conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Compacted {
    /// The whole conversation from now on.
    pub items: Vec<Item>,
    /// The tokens that this took.
    pub usage: Usage,
}

/// Replaces the older part of a conversation with a summary. Returns `None` if there is nothing to shorten.
pub async fn compact(
    provider: &dyn ModelProvider,
    model: &str,
    items: &[Item],
) -> Result<Option<Compacted>, ModelError> {
    let Some(border) = border(items) else { return Ok(None) };
    let (older, recent) = items.split_at(border);
    let request = ModelRequest {
        model: model.to_owned(),
        instructions: INSTRUCTIONS.to_owned(),
        items: vec![Item::User { parts: vec![Part::text(transcript(older))] }],
        max_output_tokens: Some(MAX_SUMMARY_TOKENS),
        ..ModelRequest::default()
    };
    let (nobody, _) = mpsc::channel(1);
    let answer = provider.ask(&request, &nobody).await?;
    let mut summary = String::from("[Summary of the earlier part of this conversation]\n");
    for item in &answer.items {
        if let Item::Assistant { text, .. } = item {
            summary.push_str(text);
        }
    }
    let mut items = vec![Item::User { parts: vec![Part::text(summary)] }];
    // Providers reject signed reasoning after a beginning that has changed.
    items.extend(recent.iter().filter(|item| !matches!(item, Item::Reasoning { .. })).cloned());
    Ok(Some(Compacted { items, usage: answer.usage }))
}

/// Where the recent part begins: never between a call and its result, nor within a turn of the model.
fn border(items: &[Item]) -> Option<usize> {
    let sizes: Vec<usize> = items.iter().map(size).collect();
    let total: usize = sizes.iter().sum();
    let mut kept = 0;
    let mut border = None;
    for (place, item) in items.iter().enumerate().rev() {
        kept += sizes[place];
        if kept * 100 > total * KEPT_PERCENT && border.is_some() {
            break;
        }
        let begins_turn = match item {
            Item::User { .. } | Item::System { .. } => true,
            Item::Assistant { .. } | Item::Reasoning { .. } | Item::Call(_) => {
                place > 0 && matches!(items[place - 1], Item::Result(_))
            }
            Item::Result(_) => false,
        };
        if begins_turn {
            border = Some(place);
        }
    }
    // A summary of a single item would only lose content.
    border.filter(|border| *border >= 2)
}

fn size(item: &Item) -> usize {
    let parts =
        |parts: &[Part]| parts.iter().map(|part| if let Part::Text { text } = part { text.len() } else { 2_000 }).sum();
    match item {
        Item::System { text } | Item::Assistant { text, .. } | Item::Reasoning { text, .. } => text.len(),
        Item::User { parts: all } => parts(all),
        Item::Call(call) => call.arguments.len(),
        Item::Result(result) => parts(&result.parts),
    }
}

/// The conversation as text, with long items cut.
fn transcript(items: &[Item]) -> String {
    const MAX_ITEM_CHARS: usize = 4_000;
    let text = |all: &[Part]| -> String {
        let texts = all.iter().map(|part| match part {
            Part::Text { text } => text.as_str(),
            Part::Image { .. } | Part::ImageUrl { .. } => "[image]",
        });
        texts.collect::<Vec<_>>().join("\n")
    };
    let mut transcript = String::new();
    for item in items {
        let (who, text) = match item {
            Item::System { text } => ("instruction", text.clone()),
            Item::User { parts } => ("user", text(parts)),
            Item::Assistant { text, .. } => ("agent", text.clone()),
            Item::Reasoning { .. } => continue,
            Item::Call(call) => ("call", format!("{} {}", call.name, call.arguments)),
            Item::Result(result) => ("result", text(&result.parts)),
        };
        let cut: String = text.chars().take(MAX_ITEM_CHARS).collect();
        let mark = if cut.len() < text.len() { " […]" } else { "" };
        let _ = write!(transcript, "<{who}>\n{cut}{mark}\n</{who}>\n");
    }
    transcript
}
