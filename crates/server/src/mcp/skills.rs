//! Skills: code that agents save and import, and instructions that they read.

use super::{structured, tokens};
use crate::mcp::Face;
use coracle_engine::{HelperModule, SkillError, SkillFolder, helper_modules};
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResult, ReadResourceResult, Resource, ResourceContents};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::PathBuf;

/// How the addresses of instructions begin.
pub(crate) const SCHEME: &str = "skill://";

/// The parts of the prompt about skills and modules are no longer than this each, in tokens.
const MAX_PROMPT_TOKENS: usize = 1_500;

/// Of one description so much is in the prompt.
const MAX_LINE_CHARS: usize = 300;

/// Answers `save_skill` and the like.
pub(crate) async fn answer(face: &Face, request: &CallToolRequestParams) -> Result<CallToolResult, String> {
    let name = request.name.as_ref();
    let act = name.strip_suffix("_skill").or_else(|| name.strip_suffix("_skills")).unwrap_or(name);
    let arguments = request.arguments.clone().unwrap_or_default();
    let answer = face.engine.skill_request(&face.user(), act, arguments).await.map_err(|error| told(&error))?;
    Ok(shown(face, act, answer))
}

fn told(error: &SkillError) -> String {
    match error.hint() {
        Some(hint) => format!("{error}\nhint: {hint}"),
        None => error.to_string(),
    }
}

/// What a model reads, within its budget.
fn shown(face: &Face, act: &str, mut answer: Value) -> CallToolResult {
    let budget = usize::try_from(face.options.settings.limits().output_tokens).unwrap_or(usize::MAX);
    let rest = match act {
        "get" if answer.get("location").is_none() => "code gets all of it with load_skill".to_owned(),
        "load" => "code gets all of it with load_skill".to_owned(),
        _ => format!("the rest is in {}", answer["location"].as_str().unwrap_or_default()),
    };
    for field in ["code", "content"] {
        let long = answer[field].as_str().filter(|text| !tokens::fits(text, budget));
        if let Some(text) = long {
            answer[field] = Value::from(format!("{}\n… cut here: {rest}", tokens::head(text, budget)));
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

/// Leaves out from the end of a list what is beyond the budget.
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

/// What the prompt says of skills and of the operator's modules.
pub(crate) async fn prompt(face: &Face) -> String {
    let mut text = String::new();
    let folders = face.engine.library().read().await;
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
    // Their tools are not looked at: nobody waits for a server to read a prompt.
    let saved = face.engine.search_skills(&face.user(), "", usize::MAX).await.unwrap_or_default();
    let code = saved.into_iter().filter(|skill| skill.kind == coracle_engine::SkillKind::Code);
    let lines = code.map(|skill| format!("- {}: {} ({})", skill.name, plain(&skill.description), skill.usage));
    add(&mut text, "Saved code, to be imported", lines);
    let execution = &face.options.settings.execution;
    let folders =
        [(&execution.tools_dir, ""), (&execution.skills_dir, "skills."), (&execution.servers_dir, "servers.")];
    let folders: Vec<_> =
        folders.into_iter().filter_map(|(folder, package)| folder.clone().map(|folder| (folder, package))).collect();
    let modules = tokio::task::spawn_blocking(move || folders.iter().flat_map(written).collect::<Vec<_>>()).await;
    add(&mut text, "Modules of the operator, to be imported", modules.unwrap_or_default().iter().map(about));
    text
}

/// The modules of a folder; those of a package are Python's.
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
    for (told, line) in lines.iter().enumerate() {
        let Some(rest) = left.checked_sub(super::count_tokens(line) + 1) else {
            let _ = writeln!(part, "- and {} more: list_skills, search_skills", lines.len() - told);
            break;
        };
        left = rest;
        let _ = writeln!(part, "{line}");
    }
    if !part.is_empty() {
        let _ = write!(text, "\n{title}:\n{part}");
    }
}

/// One line that says nothing but words.
fn plain(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().filter(|c| !coracle_types::is_hidden(*c)).take(MAX_LINE_CHARS).collect()
}

/// The instructions as resources.
pub(crate) async fn resources(face: &Face) -> Vec<Resource> {
    let folders = face.engine.library().read().await;
    folders.skills.iter().map(resource).collect()
}

fn resource(skill: &SkillFolder) -> Resource {
    Resource::new(format!("{SCHEME}{}/{}", skill.folder, skill.file), skill.name.clone())
        .with_description(plain(&skill.description))
        .with_mime_type("text/markdown")
}

/// The instructions, or a file beside them, by an address of ours.
pub(crate) async fn read(face: &Face, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let missing = |message: String| ErrorData::resource_not_found(message, None);
    let rest = uri.strip_prefix(SCHEME).unwrap_or_default();
    let Some((name, path)) = rest.split_once('/') else {
        return Err(missing(format!("an address of a skill looks like {SCHEME}NAME/SKILL.md")));
    };
    let found = face.engine.library().get(name, Some(path)).await.map_err(|error| missing(error.to_string()))?;
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let mime = if ending.eq_ignore_ascii_case("md") { "text/markdown" } else { "text/plain" };
    Ok(ReadResourceResult::new(vec![ResourceContents::text(found.content, uri).with_mime_type(mime)]))
}
