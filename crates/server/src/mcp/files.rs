//! The workspace as tools and resources: files and state, without a sandbox.

use super::budget::Budget;
use super::{arguments, refusal, render, token_count};
use crate::mcp::Frontend;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_engine::{Existing, FileError, FileInfo, FileKind, Listed, WorkspaceFiles};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, ReadResourceResult, Resource, ResourceContents,
};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// Maximum size of a file that is returned in one piece, in bytes.
const MAX_READ: u64 = 4 << 20;
/// Maximum size of a file that is read as a resource, in bytes.
const MAX_RESOURCE: u64 = 16 << 20;
/// Maximum number of workspace files that are listed as resources.
const MAX_RESOURCES: usize = 200;
/// Prefix of resource URIs of workspace files.
pub(crate) const SCHEME: &str = "coracle://workspace/";
/// Folder of state files in the workspace.
const STATE: &str = "state";
/// Default of `state_file`.
const STATE_FILE: &str = "state.json";
/// Maximum length of a key in bytes.
const MAX_KEY: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Write {
    filename: String,
    content: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    filename: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    subpath: Option<String>,
    #[serde(default)]
    recursive: Option<bool>,
}

/// `filename` is the name of the key in earlier tools of this kind, with its extension. Others name a workspace file in
/// `state_file` instead.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GetState {
    #[serde(default, alias = "filename")]
    key: Option<String>,
    #[serde(default)]
    state_file: Option<String>,
}

/// See [`GetState`]. Earlier tools call the value `state`, or `state_data` together with `state_file`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaveState {
    #[serde(default, alias = "filename")]
    key: Option<String>,
    #[serde(default, alias = "state", deserialize_with = "given")]
    value: Option<Value>,
    #[serde(default)]
    state_file: Option<String>,
    #[serde(default, deserialize_with = "given")]
    state_data: Option<Value>,
}

/// Accepts `null` as a value.
fn given<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// File that holds a state.
struct StateFile {
    /// Key, if the file is in [`STATE`].
    key: Option<String>,
    path: String,
}

impl StateFile {
    fn of_key(key: Option<String>) -> Result<Self, String> {
        let key = key.unwrap_or_else(|| "state".to_owned());
        let key = key.strip_suffix(".json").unwrap_or(&key).to_owned();
        let valid = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
        if key.is_empty() || key.len() > MAX_KEY || key.starts_with('.') || !key.chars().all(valid) {
            return Err(format!(
                "{:?} is not a valid key: use 1 to {MAX_KEY} letters, digits, '-', '_', '.' or blanks, not starting with '.'",
                key.chars().take(MAX_KEY).collect::<String>()
            ));
        }
        let path = format!("{STATE}/{key}.json");
        Ok(Self { key: Some(key), path })
    }

    /// Uses a file of the workspace. The path is checked when the file is opened.
    fn at(path: Option<String>) -> Self {
        Self { key: None, path: path.unwrap_or_else(|| STATE_FILE.to_owned()) }
    }

    /// Fields that both forms have in their result.
    fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("success".to_owned(), true.into());
        if let Some(key) = &self.key {
            fields.insert("key".to_owned(), key.as_str().into());
        }
        fields.insert("path".to_owned(), self.path.as_str().into());
        fields
    }

    fn name(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.path)
    }
}

/// Accesses the caller's workspace on a blocking thread.
pub(crate) async fn with_files<T: Send + 'static>(
    frontend: &Frontend,
    work: impl FnOnce(&WorkspaceFiles) -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    let frontend = frontend.clone();
    let done = tokio::task::spawn_blocking(move || {
        let files =
            frontend.engine.files(&frontend.user(), frontend.workspace(), &frontend.options.settings.limits())?;
        work(&files)
    });
    match done.await {
        Ok(outcome) => outcome,
        Err(error) => Err(FileError::Failed { path: ".".to_owned(), doing: "used", reason: error.to_string() }),
    }
}

/// Tool result that also reports the failure in its fields.
fn failed(error: &FileError) -> CallToolResult {
    let error = match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    };
    let fields = json!({ "success": false, "error": error });
    render::answer(vec![ContentBlock::text(error)], fields, true)
}

fn succeeded(text: String, fields: Value) -> CallToolResult {
    render::answer(vec![ContentBlock::text(text)], fields, false)
}

pub(crate) async fn write_workspace_file(
    frontend: &Frontend,
    request: &CallToolRequestParams,
) -> Result<CallToolResult, String> {
    let Write { filename, content } = arguments(request)?;
    let wrote = with_files(frontend, {
        let filename = filename.clone();
        move |files| files.write(&filename, content.as_bytes(), Existing::Replace)
    });
    Ok(match wrote.await {
        Ok(info) => succeeded(
            format!("Successfully wrote {} bytes to {filename}", info.bytes),
            json!({ "success": true, "filename": filename, "path": WorkspaceFiles::seen_at(&info.path), "size": info.bytes }),
        ),
        Err(error) => failed(&error),
    })
}

pub(crate) async fn read_workspace_file(
    frontend: &Frontend,
    request: &CallToolRequestParams,
) -> Result<CallToolResult, String> {
    let Read { filename } = arguments(request)?;
    let wanted = filename.clone();
    let (info, bytes) = match with_files(frontend, move |files| files.read(&wanted, MAX_READ)).await {
        Ok(read) => read,
        Err(error) => return Ok(failed(&error)),
    };
    let Ok(content) = String::from_utf8(bytes) else {
        return Ok(refusal(format!("{filename} is not text: process it with execute_code")));
    };
    let budget = Budget::of(&frontend.options.settings.limits()).whole;
    let mut fields = json!({ "success": true, "filename": filename, "content": content, "size": info.bytes });
    if token_count::fits(&content, budget) {
        return Ok(succeeded(content, fields));
    }
    let head = token_count::head(&content, budget);
    fields["content"] = head.into();
    fields["truncated"] = true.into();
    let text =
        format!("{head}\n… cut: the file has {} bytes; read the rest with read_file or execute_code", info.bytes);
    Ok(succeeded(text, fields))
}

pub(crate) async fn list_workspace_files(
    frontend: &Frontend,
    request: &CallToolRequestParams,
) -> Result<CallToolResult, String> {
    /// Maximum number of lines of text.
    const MAX_LINES: usize = 200;
    let List { subpath, recursive } = arguments(request)?;
    let wanted = subpath.unwrap_or_else(|| ".".to_owned());
    let listed = if recursive.unwrap_or(true) { Listed::Below } else { Listed::Here };
    let mut list = match with_files(frontend, move |files| files.list(&wanted, listed)).await {
        Ok(list) => list,
        Err(error) => return Ok(failed(&error)),
    };
    // Skips the links to modules, which are not the user's files.
    list.files.retain(|file| file.kind != FileKind::Link || !["servers", "skills"].contains(&file.path.as_str()));
    let entry = |file: &FileInfo| {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        json!({ "name": name, "path": file.path, "type": kind(file.kind), "size": file.bytes, "modified_ms": file.modified_ms })
    };
    // Folders are listed only if their contents are not.
    let parents: HashSet<&str> =
        list.files.iter().filter_map(|file| file.path.rsplit_once('/').map(|(folder, _)| folder)).collect();
    let is_told = |file: &&FileInfo| file.kind != FileKind::Folder || !parents.contains(file.path.as_str());
    let mut lines: Vec<String> = list
        .files
        .iter()
        .filter(is_told)
        .take(MAX_LINES)
        .map(|file| match file.kind {
            FileKind::Folder => format!("{}/", plain(&file.path)),
            FileKind::File => format!("{} ({} bytes)", plain(&file.path), file.bytes),
            FileKind::Link | FileKind::Other => format!("{} ({})", plain(&file.path), kind(file.kind)),
        })
        .collect();
    if list.truncated || list.files.len() > MAX_LINES {
        lines.push("… and more".to_owned());
    }
    if lines.is_empty() {
        lines.push(format!("{} is empty", plain(&list.path)));
    }
    let (folders, files): (Vec<&FileInfo>, Vec<&FileInfo>) =
        list.files.iter().take(MAX_LINES).partition(|file| file.kind == FileKind::Folder);
    let directories: Vec<&str> = folders.iter().map(|folder| folder.path.as_str()).collect();
    let files: Vec<Value> = files.into_iter().map(entry).collect();
    let fields = json!({
        "success": true, "path": list.path, "count": files.len(), "files": files, "directories": directories,
        "truncated": list.truncated || list.files.len() > MAX_LINES,
    });
    Ok(succeeded(lines.join("\n"), fields))
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Folder => "folder",
        FileKind::Link => "link",
        FileKind::Other => "other",
    }
}

/// Replaces characters that could move the cursor, start a line or change the text direction.
fn plain(name: &str) -> String {
    name.chars().map(|c| if coracle_types::is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

pub(crate) async fn get_state(frontend: &Frontend, request: &CallToolRequestParams) -> Result<CallToolResult, String> {
    let GetState { key, state_file } = arguments(request)?;
    let file = match (key, state_file) {
        (Some(_), Some(_)) => return Err("give either `key` or `state_file`, not both".to_owned()),
        (None, None) => default_state(frontend).await?,
        (None, state_file) => StateFile::at(state_file),
        (key, None) => StateFile::of_key(key)?,
    };
    let is_named = request.arguments.as_ref().is_some_and(|arguments| !arguments.is_empty());
    let mut fields = file.fields();
    let mut tell = |exists: bool, value: Value, none: Value| {
        fields.insert("exists".to_owned(), exists.into());
        // Without arguments the result has both fields.
        if file.key.is_none() || !is_named {
            fields.insert("data".to_owned(), if exists { value.clone() } else { none });
        }
        if file.key.is_some() || !is_named {
            fields.insert("value".to_owned(), value);
        }
        Value::Object(std::mem::take(&mut fields))
    };
    let wanted = file.path.clone();
    let bytes = match with_files(frontend, move |files| files.read(&wanted, MAX_READ)).await {
        Ok((_, bytes)) => bytes,
        Err(FileError::Missing { .. }) => {
            let text = format!("there is no saved state {}", plain(file.name()));
            return Ok(succeeded(text, tell(false, Value::Null, json!({}))));
        }
        Err(error) => return Ok(failed(&error)),
    };
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| format!("{} is not valid JSON ({error}): save_state replaces it", plain(&file.path)))?;
    let text = value.to_string();
    let budget = Budget::of(&frontend.options.settings.limits()).whole;
    if !token_count::fits(&text, budget) {
        return Err(format!(
            "the state {} has {} bytes and is too large to return: read {} with execute_code",
            plain(file.name()),
            bytes.len(),
            WorkspaceFiles::seen_at(&plain(&file.path))
        ));
    }
    Ok(succeeded(text, tell(true, value, Value::Null)))
}

/// Default state: the more recent of the two default files.
async fn default_state(frontend: &Frontend) -> Result<StateFile, String> {
    let ours = StateFile::of_key(None)?;
    let path = ours.path.clone();
    let written = with_files(frontend, move |files| {
        let time = |path: &str| files.stat(path).map_or(0, |info| info.modified_ms);
        Ok((time(&path), time(STATE_FILE)))
    });
    Ok(match written.await {
        Ok((own, other)) if other > own => StateFile::at(None),
        _ => ours,
    })
}

pub(crate) async fn save_state(frontend: &Frontend, request: &CallToolRequestParams) -> Result<CallToolResult, String> {
    let SaveState { key, value, state_file, state_data } = arguments(request)?;
    let (file, value) = match (value, state_data) {
        (Some(_), Some(_)) => return Err("give either `value` or `state_data`, not both".to_owned()),
        (None, None) => return Err("invalid arguments: missing field `value`".to_owned()),
        (Some(value), None) if state_file.is_none() => (StateFile::of_key(key)?, value),
        (Some(value), None) | (None, Some(value)) if key.is_none() => (StateFile::at(state_file), value),
        (None, Some(value)) if state_file.is_none() => (StateFile::of_key(key)?, value),
        (Some(_), None) | (None, Some(_)) => return Err("give either `key` or `state_file`, not both".to_owned()),
    };
    let mut bytes =
        serde_json::to_vec_pretty(&value).map_err(|error| format!("the value is not valid JSON: {error}"))?;
    bytes.push(b'\n');
    let wanted = file.path.clone();
    Ok(match with_files(frontend, move |files| files.write(&wanted, &bytes, Existing::Replace)).await {
        Ok(info) => {
            let mut fields = file.fields();
            fields.insert("size".to_owned(), info.bytes.into());
            let seen_at = WorkspaceFiles::seen_at(&info.path);
            fields.insert("file".to_owned(), seen_at.as_str().into());
            let text = format!("saved {} as {seen_at} ({} bytes)", plain(file.name()), info.bytes);
            succeeded(text, Value::Object(fields))
        }
        Err(error) => failed(&error),
    })
}

/// Statistics of the workspace for `get_execution_stats`.
pub(crate) async fn stats(frontend: &Frontend) -> Value {
    let user = frontend.user();
    match with_files(frontend, |files| Ok((files.usage()?, files.quota()))).await {
        Ok((usage, quota)) => json!({
            "path": "/workspace", "user": user.as_str(), "bytes": usage.bytes, "files": usage.files,
            "quota": { "bytes": quota.bytes, "files": quota.files },
        }),
        Err(error) => json!({ "path": "/workspace", "user": user.as_str(), "error": error.to_string() }),
    }
}

/// Lists files of the workspace as resources, without hidden ones.
pub(crate) async fn resources(frontend: &Frontend) -> Vec<Resource> {
    let listed = with_files(frontend, |files| files.list(".", Listed::Below)).await;
    let files = listed.map(|list| list.files).unwrap_or_default();
    let hidden = |path: &str| path.split('/').any(|name| name.starts_with('.'));
    files
        .into_iter()
        .filter(|file| file.kind == FileKind::File && !hidden(&file.path))
        .take(MAX_RESOURCES)
        .map(|file| Resource::new(format!("{SCHEME}{}", encoded(&file.path)), file.path).with_size(file.bytes))
        .collect()
}

/// Reads a file of the workspace as a resource.
pub(crate) async fn resource(frontend: &Frontend, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let shown: String = uri.chars().take(300).collect();
    let missing = || ErrorData::resource_not_found(format!("there is no {shown}"), None);
    let path = uri.strip_prefix(SCHEME).and_then(coracle_engine::percent_decoded).ok_or_else(missing)?;
    let read = with_files(frontend, move |files| files.read(&path, MAX_RESOURCE)).await;
    let (_, bytes) = read.map_err(|error| match error {
        FileError::Missing { .. } => missing(),
        error => ErrorData::invalid_params(error.to_string(), None),
    })?;
    let contents = match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(text, uri).with_mime_type("text/plain"),
        Err(bytes) => {
            ResourceContents::blob(STANDARD.encode(bytes.as_bytes()), uri).with_mime_type("application/octet-stream")
        }
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

fn encoded(path: &str) -> String {
    coracle_engine::percent_encoded(path)
}
