//! Skills: code that agents save and import, and instructions that they read.

use super::budget::Budget;
use super::{structured, token_count};
use crate::mcp::Frontend;
use coracle_engine::{HelperModule, SkillError, SkillFolder, helper_modules};
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResult, ReadResourceResult, Resource, ResourceContents};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Prefix of resource URIs of instructions.
pub(crate) const SCHEME: &str = "skill://";

/// Maximum length of each part of the prompt about skills and modules, in tokens.
const MAX_PROMPT_TOKENS: usize = 1_500;

/// Maximum length of a description in the prompt, in characters.
const MAX_LINE_CHARS: usize = 300;

/// Handles the tools for skills, such as `save_skill`.
pub(crate) async fn answer(frontend: &Frontend, request: &CallToolRequestParams) -> Result<CallToolResult, String> {
    let name = request.name.as_ref();
    let act = name.strip_suffix("_skill").or_else(|| name.strip_suffix("_skills")).unwrap_or(name);
    let arguments = request.arguments.clone().unwrap_or_default();
    let answer = frontend.engine.skill_request(&frontend.user(), act, arguments).await.map_err(|error| told(&error))?;
    Ok(render(frontend, act, answer))
}

fn told(error: &SkillError) -> String {
    match error.hint() {
        Some(hint) => format!("{error}\nhint: {hint}"),
        None => error.to_string(),
    }
}

/// Renders a result within the token budget.
fn render(frontend: &Frontend, act: &str, mut answer: Value) -> CallToolResult {
    let budget = Budget::of(&frontend.options.settings.limits()).whole;
    let rest = match act {
        "get" if answer.get("location").is_none() => "code gets the rest with load_skill".to_owned(),
        "load" => "code gets the rest with load_skill".to_owned(),
        _ => format!("the rest is in {}", answer["location"].as_str().unwrap_or_default()),
    };
    for field in ["code", "content"] {
        let long = answer[field].as_str().filter(|text| !token_count::fits(text, budget));
        if let Some(text) = long {
            answer[field] = Value::from(format!("{}\n… cut here: {rest}", token_count::head(text, budget)));
        }
    }
    if act == "list" || act == "search" {
        shorten(&mut answer, budget);
    }
    let text = match act {
        "get" => {
            let mut text = answer["content"].as_str().unwrap_or_default().to_owned();
            let files: Vec<&str> = answer["files"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            if !files.is_empty() {
                let _ = write!(text, "\n\nOther files of this skill: {}", files.join(", "));
            }
            text
        }
        "load" => answer["code"].as_str().unwrap_or_default().to_owned(),
        _ => answer.to_string(),
    };
    structured(&text, answer)
}

/// Removes items from the end of a list that exceed the budget.
fn shorten(answer: &mut Value, budget: usize) {
    let mut left_out = 0;
    for list in ["skills", "instructions"] {
        let Some(skills) = answer.get_mut(list).and_then(Value::as_array_mut) else { continue };
        let mut left = budget / 2;
        let fitting = skills.iter().take_while(|skill| {
            let rest = left.checked_sub(super::count_tokens(&skill.to_string()) + 1);
            left = rest.unwrap_or_default();
            rest.is_some()
        });
        let fitting = fitting.count();
        left_out += skills.len() - fitting;
        skills.truncate(fitting);
    }
    if left_out > 0 {
        answer["left_out"] = Value::from(left_out);
        answer["hint"] = Value::from("search_skills finds the others");
    }
}

/// Parts of the prompt about skills and the operator's modules.
pub(crate) async fn prompt(frontend: &Frontend) -> String {
    let mut text = String::new();
    let folders = frontend.engine.library().read().await;
    let lines = folders.skills.iter().map(|skill| {
        let when = skill.use_when.as_ref().map(|when| format!(" Use when: {when}")).unwrap_or_default();
        format!("- {}: {} ({})", skill.name, plain(&format!("{}{when}", skill.description)), skill.location())
    });
    add(
        &mut text,
        "Available Skills: read the instructions of one in full before such a task, from its file in /skills/ with \
         read_file, or with get_skill",
        lines,
    );
    // Tools are not checked, so that the prompt does not wait for a server.
    let saved = frontend.engine.search_skills(&frontend.user(), "", usize::MAX).await.unwrap_or_default();
    let code = saved.into_iter().filter(|skill| skill.kind == coracle_engine::SkillKind::Code);
    let lines = code.map(|skill| format!("- {}: {} ({})", skill.name, plain(&skill.description), skill.usage));
    add(&mut text, "Saved code, to be imported", lines);
    let execution = &frontend.options.settings.execution;
    let folders =
        [(&execution.tools_dir, ""), (&execution.skills_dir, "skills."), (&execution.servers_dir, "servers.")];
    let folders: Vec<_> =
        folders.into_iter().filter_map(|(folder, package)| folder.clone().map(|folder| (folder, package))).collect();
    if !folders.is_empty() {
        let modules = tokio::task::spawn_blocking(move || folders.iter().flat_map(written).collect::<Vec<_>>()).await;
        add(&mut text, "Modules of the operator, to be imported", modules.unwrap_or_default().iter().map(about));
    }
    text
}

/// Modules of a folder; only Python modules can belong to a package.
fn written((folder, package): &(PathBuf, &str)) -> Vec<HelperModule> {
    let mut modules = helper_modules(folder);
    modules.retain(|module| package.is_empty() || !module.module.starts_with('"'));
    for module in &mut modules {
        module.module.insert_str(0, package);
    }
    modules
}

fn about(module: &HelperModule) -> String {
    let HelperModule { module, summary, functions } = module;
    let mut line = format!("- {module}: {}", plain(summary));
    for function in functions {
        let _ = write!(line, "\n  {}", plain(function));
    }
    line
}

fn add(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.collect();
    let mut part = String::new();
    let mut left = MAX_PROMPT_TOKENS;
    let mut bytes_left: usize = lines.iter().map(|line| line.len() + 1).sum();
    for (told, line) in lines.iter().enumerate() {
        // A token has at least one byte, so often there is nothing to count.
        let tokens = if bytes_left <= left { line.len() } else { super::count_tokens(line) };
        let Some(rest) = left.checked_sub(tokens + 1) else {
            let _ = writeln!(part, "- and {} more: list_skills, search_skills", lines.len() - told);
            break;
        };
        left = rest;
        bytes_left -= line.len() + 1;
        let _ = writeln!(part, "{line}");
    }
    if !part.is_empty() {
        let _ = write!(text, "\n{title}:\n{part}");
    }
}

/// Joins a text to one line without hidden characters.
fn plain(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().filter(|c| !coracle_types::is_hidden(*c)).take(MAX_LINE_CHARS).collect()
}

/// Lists the instructions as resources.
pub(crate) async fn resources(frontend: &Frontend) -> Vec<Resource> {
    let folders = frontend.engine.library().read().await;
    folders.skills.iter().map(resource).collect()
}

fn resource(skill: &SkillFolder) -> Resource {
    Resource::new(format!("{SCHEME}{}/{}", skill.folder, skill.file), skill.name.clone())
        .with_description(plain(&skill.description))
        .with_mime_type("text/markdown")
}

/// Reads instructions, or a file beside them, by URI.
pub(crate) async fn read(frontend: &Frontend, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let missing = |message: String| ErrorData::resource_not_found(message, None);
    let rest = uri.strip_prefix(SCHEME).unwrap_or_default();
    let Some((name, path)) = rest.split_once('/') else {
        return Err(missing(format!("invalid skill URI: use {SCHEME}NAME/SKILL.md")));
    };
    let found = frontend.engine.library().get(name, Some(path)).await.map_err(|error| missing(error.to_string()))?;
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let mime = if ending.eq_ignore_ascii_case("md") { "text/markdown" } else { "text/plain" };
    Ok(ReadResourceResult::new(vec![ResourceContents::text(found.content, uri).with_mime_type(mime)]))
}
