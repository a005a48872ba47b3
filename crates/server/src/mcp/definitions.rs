//! Definitions of Coracle's own tools. Every word here costs tokens in every conversation.

use crate::profile::Profile;
use coracle_types::Limits;
use rmcp::model::{Tool, ToolAnnotations};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Side effects of a tool, for its annotations.
#[derive(Clone, Copy, Debug)]
enum Effect {
    /// The tool changes nothing.
    Reads,
    /// The tool may do anything.
    Anything,
    /// The tool replaces files in the workspace.
    Writes,
}

/// Definition of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) name: &'static str,
    description: &'static str,
    input: Value,
    output: Option<Value>,
    effect: Effect,
}

/// Tools of the profile `code`.
const CODE: [&str; 3] = ["execute_code", "search_tools", "get_tool_definition"];

/// Returns the tools of a profile, or exactly the wanted ones.
///
/// # Errors
/// Returns the wanted names that do not exist.
pub(crate) fn chosen(profile: Profile, wanted: Option<&[String]>) -> Result<Vec<Definition>, Vec<String>> {
    let all = all(profile);
    if let Some(wanted) = wanted {
        let missing: Vec<String> =
            wanted.iter().filter(|name| all.iter().all(|tool| tool.name != **name)).cloned().collect();
        // The gateway can be restricted to tools of other servers, which are not known yet.
        if !missing.is_empty() && profile != Profile::Direct {
            return Err(missing);
        }
        return Ok(all.into_iter().filter(|tool| wanted.iter().any(|name| name == tool.name)).collect());
    }
    Ok(match profile {
        Profile::Code => all.into_iter().filter(|tool| CODE.contains(&tool.name)).collect(),
        Profile::Direct => Vec::new(),
        Profile::Full => all,
    })
}

/// Tool as it is presented to a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfferedTool {
    /// Name of the tool.
    pub name: &'static str,
    /// Description of the tool.
    pub description: &'static str,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
}

/// Coracle's own tools in a profile.
pub fn offered(profile: Profile) -> Vec<OfferedTool> {
    let chosen = chosen(profile, None).unwrap_or_default().into_iter();
    let told =
        chosen.map(|tool| OfferedTool { name: tool.name, description: tool.description, input_schema: tool.input });
    told.collect()
}

/// Names of all of Coracle's own tools.
pub fn names() -> Vec<&'static str> {
    all(Profile::Full).iter().map(|tool| tool.name).collect()
}

impl Definition {
    /// Converts the definition for the protocol.
    pub(crate) fn tool(&self) -> Tool {
        let object = |value: &Value| Arc::new(value.as_object().cloned().unwrap_or_default());
        let mut tool = Tool::new(self.name, self.description, object(&self.input));
        tool.output_schema = self.output.as_ref().map(object);
        tool.annotations = Some(match self.effect {
            Effect::Reads => ToolAnnotations::new().read_only(true),
            // The defaults of the protocol: the tool may be destructive and have an open world.
            Effect::Anything => ToolAnnotations::new().open_world(true),
            Effect::Writes => ToolAnnotations::new().open_world(false),
        });
        tool
    }
}

/// Name of the tool that runs code.
pub(crate) const EXECUTE_CODE: &str = "execute_code";

const HOW_TO_EXECUTE: &str = "Run a program in a sandbox. It calls tools as functions and passes results between them; \
only what it prints and `result` (or the last expression) comes back, so filter and loop in code.\n\
python: from servers.git import git_log; git_log(repo_path='.') (or await git_log.aio(...))\n\
typescript: import { git_log } from \"servers/git\"; await git_log({...})\n\
bash: tool git git_log --repo_path .\n\
No network. Files: /workspace (kept), /artifacts (shown to the user).";

/// JSON Schema of a type.
fn typed(kind: &str) -> Value {
    json!({ "type": kind })
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

/// Changes the input schema of `execute_code` for callers whose executions cannot be resumed.
pub(crate) fn leave_out_resume(schema: &mut Value) {
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.remove("resume");
    }
    schema["required"] = json!(["code"]);
}

fn execute_code(profile: Profile) -> Definition {
    let defaults = Limits::default();
    let mut input = object(
        &json!({
            "code": typed("string"),
            "language": { "enum": ["python", "typescript", "bash"], "default": "python" },
            "context_vars": { "type": "object", "description": "variables to set" },
            "timeout_seconds": { "type": "number", "default": defaults.wall_ms / 1000 },
            "memory_mb": { "type": "integer", "default": defaults.memory_mb },
            "session": { "type": "string", "description": "any name: keeps variables for the next call" },
            "description": typed("string"),
            "resume": { "type": "string", "description": "ID of a failed execution: runs it, or `code`, again without repeating its calls" },
        }),
        &[],
    );
    if profile == Profile::Full {
        input["properties"]["mode"] = json!({
            "enum": ["run", "plan"], "default": "run",
            "description": "plan: makes reads only, and lists all other effects for approval",
        });
    }
    let output = match profile {
        Profile::Full => json!({
            "type": "object",
            "properties": {
                "execution_id": typed("string"),
                "session": { "type": ["string", "null"] },
                "language": typed("string"),
                "success": typed("boolean"),
                "result": {},
                "output": { "type": "array", "items": typed("string") },
                "stdout": typed("string"),
                "stderr": typed("string"),
                "exit_code": typed("integer"),
                "error": typed("string"),
                "error_code": typed("string"),
                "traceback": typed("string"),
                "hint": typed("string"),
                "execution_time_ms": typed("number"),
                "truncated": typed("boolean"),
                "output_file": { "type": ["string", "null"] },
                "calls": { "type": "array", "items": typed("object") },
                "artifacts": { "type": "array", "items": typed("object") },
                "plan": typed("object"),
                "limits": typed("object"),
            },
            "required": ["execution_id", "success"],
        }),
        Profile::Code | Profile::Direct => json!({
            "type": "object",
            "properties": { "success": typed("boolean"), "result": {}, "stdout": typed("string"), "error": typed("string") },
        }),
    };
    Definition {
        name: EXECUTE_CODE,
        description: HOW_TO_EXECUTE,
        input,
        output: Some(output),
        effect: Effect::Anything,
    }
}

fn all(profile: Profile) -> Vec<Definition> {
    let mut all = vec![execute_code(profile)];
    all.extend(finding());
    all.extend(servers());
    all.extend(files());
    all.extend(skills());
    all.extend(workspace());
    all.extend(personal());
    all.extend(tasks());
    all.push(Definition {
        name: "execute_bash",
        description: "Run a bash command in the sandbox, in /workspace. `tool SERVER TOOL --argument value` calls a tool.",
        input: object(
            &json!({ "command": typed("string"), "timeout": { "type": "number", "default": Limits::default().wall_ms / 1000 } }),
            &["command"],
        ),
        output: Some(object(
            &json!({ "exit_code": typed("integer"), "stdout": typed("string"), "stderr": typed("string") }),
            &["exit_code", "stdout", "stderr"],
        )),
        effect: Effect::Anything,
    });
    all.push(Definition {
        name: "run_plan",
        description: "Run a plan that execute_code made with mode=plan. The user is shown its effects and has to approve.",
        input: object(
            &json!({
                "plan_id": typed("string"),
                "effects": { "type": "array", "items": typed("integer"), "description": "numbers; default: all" },
            }),
            &["plan_id"],
        ),
        output: None,
        effect: Effect::Anything,
    });
    all.push(reads("get_version", "Get the version of Coracle.", &json!({}), &[]));
    all.push(reads(
        "get_execution_stats",
        "Show the workspace, tools, capabilities and limits of code.",
        &json!({}),
        &[],
    ));
    all
}

fn reads(name: &'static str, description: &'static str, properties: &Value, required: &[&str]) -> Definition {
    Definition { name, description, input: object(properties, required), output: None, effect: Effect::Reads }
}

fn tasks() -> [Definition; 6] {
    let task = json!({ "task_description": typed("string"), "verbose": { "type": "boolean", "default": false } });
    let id = json!({ "task_id": typed("string") });
    let acts = |name: &'static str, description: &'static str, input: Value| Definition {
        name,
        description,
        input,
        output: None,
        effect: Effect::Anything,
    };
    [
        acts(
            "execute_task",
            "Give a task in plain words to Coracle's own agent, and wait for its result. `verbose` adds the tools that \
             were selected and the code.",
            object(&task, &["task_description"]),
        ),
        acts(
            "dispatch_background_task",
            "Give a task to Coracle's own agent, which works on it in the background.",
            object(&task, &["task_description"]),
        ),
        reads("get_background_task_status", "Get the state of a background task, and its result.", &id, &["task_id"]),
        reads(
            "wait_for_background_task",
            "Wait until a background task has ended, and get its result.",
            &json!({ "task_id": typed("string"), "timeout": { "type": "number", "default": 300 } }),
            &["task_id"],
        ),
        reads("list_background_tasks", "List background tasks, newest first.", &json!({}), &[]),
        acts("cancel_background_task", "Stop a background task.", object(&id, &["task_id"])),
    ]
}

fn finding() -> [Definition; 4] {
    let levels = ["name", "summary", "full", "python", "typescript"];
    [
        reads(
            "search_tools",
            "Find tools that code can call, by words; an empty query lists all.",
            &json!({
                "query": typed("string"),
                "category": typed("string"),
                "server": typed("string"),
                "detail_level": { "enum": levels, "default": "summary" },
                "limit": { "type": "integer", "default": 10 },
                "max_tokens": { "type": "integer" },
            }),
            &["query"],
        ),
        reads(
            "get_tool_definition",
            "Get the signature and documentation of one tool, by `server.tool`.",
            &json!({
                "tool_name": typed("string"),
                "category": typed("string"),
                "detail_level": { "enum": &levels[2..], "default": "python" },
            }),
            &["tool_name"],
        ),
        reads("list_tool_categories", "List tool categories and the number of tools in each.", &json!({}), &[]),
        reads(
            "list_available_tools",
            "List all tools with a one-line description each.",
            &json!({ "category": typed("string") }),
            &[],
        ),
    ]
}

fn servers() -> [Definition; 2] {
    [
        reads("list_servers", "List the servers whose tools can be called, and their status.", &json!({}), &[]),
        reads(
            "get_server_tools",
            "List the tools of one server.",
            &json!({ "server_name": typed("string"), "detail_level": { "type": "string", "default": "summary" } }),
            &["server_name"],
        ),
    ]
}

fn files() -> [Definition; 3] {
    [
        reads(
            "read_file",
            "Read a text file in the sandbox; relative paths are below /workspace.",
            &json!({
                "file_path": typed("string"),
                "offset": { "type": "integer", "default": 0, "description": "lines to skip" },
                "line_count": { "type": ["integer", "null"], "default": null },
            }),
            &["file_path"],
        ),
        Definition {
            name: "write_file",
            description: "Write a text file in /workspace, creating folders as needed; replaces an existing file.",
            input: object(
                &json!({ "file_path": typed("string"), "content": typed("string") }),
                &["file_path", "content"],
            ),
            output: None,
            effect: Effect::Writes,
        },
        reads(
            "read_docstring",
            "Get the docstring of a function or class in a Python file; empty if the file does not exist.",
            &json!({ "file_path": typed("string"), "function_name": typed("string") }),
            &["file_path", "function_name"],
        ),
    ]
}

fn skills() -> [Definition; 6] {
    let name = json!({ "name": typed("string") });
    [
        Definition {
            name: "save_skill",
            description: "Save code that works, so that later programs import it: `from skills.NAME import f`. \
                `example` is a program that uses it and is run first: if it fails, nothing is saved.",
            input: object(
                &json!({
                    "name": typed("string"),
                    "code": typed("string"),
                    "description": { "type": "string", "default": "" },
                    "tags": { "type": "string", "default": "", "description": "with commas between them" },
                    "language": { "enum": ["python", "typescript"], "default": "python" },
                    "example": typed("string"),
                    "tools": { "type": "array", "items": typed("string"), "description": "`server.tool`, if imports do not say" },
                    "author": typed("string"),
                }),
                &["name", "code"],
            ),
            output: None,
            effect: Effect::Writes,
        },
        reads(
            "load_skill",
            "Get the code and metadata of a saved skill.",
            &json!({ "name": typed("string"), "version": { "type": "integer" } }),
            &["name"],
        ),
        reads(
            "list_skills",
            "List saved skills, with a note if their tools have changed, and skills with instructions.",
            &json!({}),
            &[],
        ),
        reads(
            "search_skills",
            "Search skills by description.",
            &json!({ "query": typed("string"), "limit": { "type": "integer", "default": 10 } }),
            &["query"],
        ),
        Definition {
            name: "delete_skill",
            description: "Delete a saved skill and all its versions.",
            input: object(&name, &["name"]),
            output: None,
            effect: Effect::Writes,
        },
        reads(
            "get_skill",
            "Get the instructions of a skill (SKILL.md) or another of its files; for a saved skill, its code.",
            &json!({ "name": typed("string"), "path": typed("string") }),
            &["name"],
        ),
    ]
}

fn writes(name: &'static str, description: &'static str, properties: &Value, required: &[&str]) -> Definition {
    Definition { effect: Effect::Writes, ..reads(name, description, properties, required) }
}

/// Tools for the workspace that do not start a sandbox.
fn workspace() -> [Definition; 5] {
    [
        writes(
            "write_workspace_file",
            "Write a text file in the workspace; replaces an existing file.",
            &json!({ "filename": typed("string"), "content": typed("string") }),
            &["filename", "content"],
        ),
        reads(
            "read_workspace_file",
            "Read a text file from the workspace.",
            &json!({ "filename": typed("string") }),
            &["filename"],
        ),
        reads(
            "list_workspace_files",
            "List files in the workspace or one of its folders, including subfolders.",
            &json!({
                "subpath": { "type": "string", "default": "." },
                "recursive": { "type": "boolean", "default": true },
            }),
            &[],
        ),
        reads(
            "get_state",
            "Get a value saved with save_state, by its key or its workspace file.",
            &json!({ "key": { "type": "string", "default": "state" }, "state_file": typed("string") }),
            &[],
        ),
        writes(
            "save_state",
            "Save a JSON value for later sessions: `value` in /workspace/state/KEY.json, or `state_data` in the file of \
             the workspace that `state_file` names.",
            &json!({
                "key": { "type": "string", "default": "state" },
                "value": {},
                "state_data": {},
                "state_file": { "type": "string", "description": "state.json, if `state_data` is given without it" },
            }),
            &[],
        ),
    ]
}

/// Tools for personal data.
fn personal() -> [Definition; 2] {
    let text = json!({ "text": typed("string") });
    [
        reads(
            "sanitize_pii",
            "Replace personal data in a text by tokens such as [EMAIL_3f9a1c0d5e7b2a64].",
            &text,
            &["text"],
        ),
        reads(
            "restore_pii",
            "Replace tokens by what they stand for. Not needed to pass them to tools, which get the values.",
            &text,
            &["text"],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::{chosen, names};
    use crate::mcp::count_tokens;
    use crate::profile::Profile;

    fn tokens(profile: Profile) -> usize {
        let tools: Vec<_> = chosen(profile, None).unwrap().iter().map(super::Definition::tool).collect();
        count_tokens(&serde_json::to_string(&tools).unwrap())
    }

    #[test]
    fn the_three_tools_cost_at_most_500_tokens() {
        let tokens = tokens(Profile::Code);
        println!("profile code: {tokens} tokens, profile full: {} tokens", self::tokens(Profile::Full));
        assert!((200..=500).contains(&tokens), "{tokens}");
    }

    #[test]
    fn exactly_the_wanted_tools_are_offered() {
        let wanted = ["read_file".to_owned(), "execute_code".to_owned()];
        let chosen_names =
            |profile| -> Vec<&str> { chosen(profile, Some(&wanted)).unwrap().iter().map(|tool| tool.name).collect() };
        assert_eq!(chosen_names(Profile::Code), ["execute_code", "read_file"]);
        assert_eq!(chosen_names(Profile::Full), ["execute_code", "read_file"]);
        let wrong = ["execute_code".to_owned(), "exec".to_owned()];
        assert_eq!(chosen(Profile::Code, Some(&wrong)).unwrap_err(), ["exec"]);
    }

    #[test]
    fn each_profile_has_its_tools() {
        let names_of = |profile| -> Vec<&str> { chosen(profile, None).unwrap().iter().map(|tool| tool.name).collect() };
        assert_eq!(names_of(Profile::Code), ["execute_code", "search_tools", "get_tool_definition"]);
        assert!(names_of(Profile::Direct).is_empty());
        assert_eq!(names_of(Profile::Full), names());
        assert_eq!(names().len(), 33);
    }
}
