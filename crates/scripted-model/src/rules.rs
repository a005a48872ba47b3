//! Rule mode: makes up a turn for any request, for compliance suites and the demo.

mod arithmetic;
mod schema;

use serde_json::{Map, Value, json};

use crate::conversation::{Choice, Conversation, Format, Item, Tool};
use crate::script::{Rule, Rules, Step, Turn};

/// Maximum number of characters that an answer quotes.
const MAX_QUOTE: usize = 400;
/// Shortest word that connects a message with a tool.
const MIN_WORD: usize = 4;

/// A made-up turn.
pub(crate) fn answer(rules: &Rules, conversation: &Conversation) -> Turn {
    let text = conversation.user_text();
    let rule = rules.phrases.iter().find(|rule| applies(rule, conversation));
    let has_results = conversation.since_user().iter().any(|item| matches!(item, Item::Result(_)));
    if has_results {
        return match rule.and_then(|rule| rule.after_result.clone()) {
            Some(turn) => turn,
            None => [Step::text(&final_text(conversation))].into(),
        };
    }
    if conversation.choice != Choice::None {
        if let Choice::Named(name) = &conversation.choice {
            let tool = conversation.tools.iter().find(|tool| tool.name == *name);
            return tool.map(|tool| call(tool, text)).unwrap_or_default();
        }
        if let Some(rule) = rule {
            return rule.turn.clone();
        }
        if let Some(turn) = code_call(rules, conversation) {
            return turn;
        }
        if let Some(tool) = tool_for(rules, conversation) {
            return call(tool, text);
        }
    }
    match rule.filter(|rule| rule.turn.calls() == 0).map(|rule| &rule.turn).or(rules.otherwise.as_ref()) {
        Some(turn) => turn.clone(),
        None => [Step::text(&final_text(conversation))].into(),
    }
}

fn applies(rule: &Rule, conversation: &Conversation) -> bool {
    let text = conversation.user_text().to_lowercase();
    let offers = |name: &str| conversation.tools.iter().any(|tool| tool.name == name);
    rule.words.iter().all(|word| text.contains(&word.to_lowercase()))
        && rule.turn.steps.iter().flat_map(Step::calls).all(|call| offers(&call.name))
}

/// A call of the tool that runs code, if the message has a fenced block.
fn code_call(rules: &Rules, conversation: &Conversation) -> Option<Turn> {
    let tool = conversation.tools.iter().find(|tool| tool.name == rules.code_tool)?;
    let (language, code) = fenced_block(conversation.user_text())?;
    let mut arguments = Map::new();
    arguments.insert("code".to_owned(), code.into());
    if !language.is_empty() && tool.parameters.pointer("/properties/language").is_some() {
        arguments.insert("language".to_owned(), full_language(language).into());
    }
    Some([Step::call(&tool.name, arguments.into())].into())
}

fn fenced_block(text: &str) -> Option<(&str, &str)> {
    let (_, after) = text.split_once("```")?;
    let (block, _) = after.split_once("```")?;
    let (language, code) = block.split_once('\n')?;
    Some((language.trim(), code))
}

fn full_language(language: &str) -> &str {
    match language {
        "py" | "python3" => "python",
        "ts" | "javascript" | "js" => "typescript",
        "sh" | "shell" => "bash",
        other => other,
    }
}

/// The tool to call: one with a word of the message in its name, or the first one.
fn tool_for<'a>(rules: &Rules, conversation: &'a Conversation) -> Option<&'a Tool> {
    let text = conversation.user_text();
    let is_required = conversation.choice == Choice::Required;
    let candidates = || {
        let tools = conversation.tools.iter().filter(|tool| schema::fill(&tool.parameters, text).is_some());
        tools.filter(|tool| is_required || (tool.name != rules.code_tool && !rules.ignored_tools.contains(&tool.name)))
    };
    let words = words(text);
    let named = candidates().find(|tool| words_of_name(&tool.name).iter().any(|word| words.contains(word)));
    named.or_else(|| candidates().next().filter(|_| is_required || rules.eager))
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() >= MIN_WORD);
    words.map(str::to_lowercase).collect()
}

fn words_of_name(name: &str) -> Vec<String> {
    words(&name.replace(['_', '-', '.'], " "))
}

fn call(tool: &Tool, text: &str) -> Turn {
    let arguments = schema::fill(&tool.parameters, text).filter(Value::is_object).unwrap_or_else(|| json!({}));
    [Step::call(&tool.name, arguments)].into()
}

fn final_text(conversation: &Conversation) -> String {
    let text = conversation.user_text();
    match &conversation.format {
        Format::Schema(schema) => schema::fill_all(schema, text).unwrap_or_else(|| json!({})).to_string(),
        Format::Object => json!({"answer": plain_text(conversation)}).to_string(),
        Format::Text => plain_text(conversation),
    }
}

fn plain_text(conversation: &Conversation) -> String {
    let has_results = conversation.since_user().iter().any(|item| matches!(item, Item::Result(_)));
    if let Some(result) = conversation.last_result().filter(|_| has_results) {
        return format!("The tool returned: {}", quote(result));
    }
    let text = conversation.user_text();
    match arithmetic::solve(text) {
        Some(answer) => answer,
        None if text.trim().is_empty() => "Hello! There is no text in your message.".to_owned(),
        None => format!("You said: {}", quote(text)),
    }
}

/// The beginning of a text. Braces are parted, because the answer is a step, in which they would be a reference.
fn quote(text: &str) -> String {
    let text = text.trim();
    let short: String = text.chars().take(MAX_QUOTE).collect();
    let mark = if short.len() < text.len() { "…" } else { "" };
    format!("{}{mark}", short.replace("{{", "{ {"))
}

#[cfg(test)]
mod tests;
