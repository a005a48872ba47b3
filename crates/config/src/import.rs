//! Imports the configuration of other clients: Claude Desktop, Claude Code, Cursor and VS Code.
//!
//! Start at [`scan`], which does not change anything. Credentials in the files of other clients are not copied into
//! ours: each becomes a reference such as `${GITHUB_TOKEN}`, and its value is returned separately, to be stored in a
//! private `.env` ([`add_variables`](crate::edit::add_variables)).

mod credentials;
mod entry;
mod places;

pub use places::System;

use crate::McpServer;
use crate::reader::{is_foreign, read_text};
use coracle_types::{Secret, ServerName};
use entry::{Context, Inputs};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use places::Place;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// The maximum size of a client's file. Claude Code keeps a history in its file.
const MAX_CLIENT_FILE_BYTES: u64 = 64 << 20;
/// The maximum number of servers from one file.
const MAX_SERVERS: usize = 1_000;

/// The client that a configuration belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// Claude Desktop.
    ClaudeDesktop,
    /// Claude Code.
    ClaudeCode,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    VsCode,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClaudeDesktop => "Claude Desktop",
            Self::ClaudeCode => "Claude Code",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
        })
    }
}

/// Where to look for files.
#[derive(Clone)]
pub struct ImportOptions {
    /// The home folder of the user.
    pub home: PathBuf,
    /// The project folder, if any.
    pub folder: Option<PathBuf>,
    /// The environment, which determines the location of some files.
    pub env: BTreeMap<String, String>,
    /// The operating system, which determines the location of files.
    pub system: System,
}

/// Omits the environment, which may hold credentials.
impl fmt::Debug for ImportOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ImportOptions");
        shown.field("home", &self.home).field("folder", &self.folder).field("system", &self.system);
        shown.finish_non_exhaustive()
    }
}

/// A server in the configuration of another client.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The client.
    pub client: Client,
    /// The file.
    pub path: PathBuf,
    /// The project that the server is for. `None` if it is for all.
    pub project: Option<PathBuf>,
    /// The name in the client's file.
    pub original_name: String,
    /// The name for Coracle. It is unique except for duplicates.
    pub name: ServerName,
    /// The entry for `coracle.yaml`, without credentials.
    pub entry: McpServer,
    /// The variables that the entry refers to for its credentials, with their values.
    pub credentials: BTreeMap<String, Secret>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Why the server cannot be imported, if so.
    pub problem: Option<String>,
    /// Whether the same server was found before, under the same name.
    pub duplicate: bool,
}

/// A file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The client.
    pub client: Client,
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

/// The result of a scan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    /// Servers, in the order of the files.
    pub found: Vec<Found>,
    /// Files that could not be read.
    pub unreadable: Vec<Unreadable>,
}

/// The file with a user's servers.
pub(crate) fn file_of(client: Client, options: &ImportOptions) -> PathBuf {
    let own = places::all(options).into_iter().find(|place| place.client == client && !place.in_folder);
    own.map(|place| place.path).unwrap_or_default()
}

/// Reads the files of all clients.
pub fn scan(options: &ImportOptions) -> Imported {
    scan_places(places::all(options), options)
}

/// Reads the files of one client.
pub fn scan_client(client: Client, options: &ImportOptions) -> Imported {
    let places = places::all(options).into_iter().filter(|place| place.client == client);
    scan_places(places.collect(), options)
}

fn scan_places(places: Vec<Place>, options: &ImportOptions) -> Imported {
    let mut imported = Imported::default();
    for place in places {
        read_place(&place, options, &mut imported);
    }
    make_names_unique(&mut imported.found);
    credentials::make_variables_unique(&mut imported.found);
    imported
}

/// Reads a file that the user has named, whatever client wrote it.
pub fn scan_file(client: Client, path: &Path, options: &ImportOptions) -> Imported {
    let place = Place { client, path: path.to_owned(), in_folder: false };
    let mut imported = scan_places(vec![place], options);
    if imported == Imported::default() && !path.exists() {
        let reason = "there is no such file".to_owned();
        imported.unreadable.push(Unreadable { client, path: path.to_owned(), reason });
    }
    imported
}

/// Replaces probable credentials in an entry with references to variables, and returns the variables with their values.
pub fn extract_credentials(name: &ServerName, entry: &mut McpServer) -> BTreeMap<String, Secret> {
    let mut credentials = credentials::Credentials::new(name.as_str());
    credentials.take(entry);
    credentials.values
}

/// The same for an entry of somebody who may not choose variables: the names begin with `MCP_SERVER_`, so that none is a
/// setting, and none is taken. A name like `OPENAI_API_KEY` would stand for another value, or change a setting.
pub fn extract_credentials_apart(
    name: &ServerName,
    entry: &mut McpServer,
    is_taken: &dyn Fn(&str) -> bool,
) -> BTreeMap<String, Secret> {
    let mut credentials = credentials::Credentials::apart(name.as_str(), is_taken);
    credentials.take(entry);
    credentials.values
}

fn read_place(place: &Place, options: &ImportOptions, imported: &mut Imported) {
    let mut unreadable = |reason: String| {
        imported.unreadable.push(Unreadable { client: place.client, path: place.path.clone(), reason });
    };
    if place.in_folder && is_foreign(&place.path) {
        return unreadable("it belongs to another user".to_owned());
    }
    let root = match read_text(&place.path, MAX_CLIENT_FILE_BYTES) {
        Ok(None) => return,
        Err(reason) => return unreadable(reason),
        Ok(Some(text)) => match parse(&text) {
            Ok(root) => root,
            Err(reason) => return unreadable(reason),
        },
    };
    let project = if place.in_folder { options.folder.clone() } else { None };
    let mut add = |servers: Option<&Value>, inputs: Option<&Value>, project: Option<PathBuf>| {
        let Some(Value::Object(servers)) = servers else { return };
        let context = Context { place, options, project: project.as_deref(), inputs: Inputs::read(inputs) };
        imported
            .found
            .extend(servers.iter().take(MAX_SERVERS).filter_map(|(name, value)| entry::read(name, value, &context)));
    };
    // The clients keep servers under different keys, none of which means anything else to another client.
    let inputs = root.get("inputs");
    add(root.get("mcpServers"), inputs, project.clone());
    if place.client == Client::VsCode {
        add(root.get("servers"), inputs, project.clone());
        add(root.get("mcp.servers"), inputs, project.clone());
        if let Some(Value::Object(mcp)) = root.get("mcp") {
            add(mcp.get("servers"), mcp.get("inputs"), project);
        }
    }
    if let (Client::ClaudeCode, Some(Value::Object(projects))) = (place.client, root.get("projects")) {
        for (folder, settings) in projects {
            add(settings.get("mcpServers"), None, Some(PathBuf::from(folder)));
        }
    }
}

/// Parses JSON with comments and trailing commas.
fn parse(text: &str) -> Result<Map<String, Value>, String> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default());
    // The message contains the position and never the text.
    let parsed = parsed.map_err(|error| {
        let message = error.kind().to_string();
        let mut rest = message.trim_end_matches('.').chars();
        let first: String = rest.next().iter().flat_map(|c| c.to_lowercase()).collect();
        format!("line {}: {first}{}", error.line_display(), rest.as_str())
    })?;
    match parsed.value.map(Value::from) {
        Some(Value::Object(root)) => Ok(root),
        None => Ok(Map::new()),
        Some(_) => Err("it is not a JSON object".to_owned()),
    }
}

/// A valid server name that is as similar as possible to the text.
pub(crate) fn server_name(text: &str) -> String {
    const MOST: usize = 48;
    let mut name = String::new();
    for c in text.trim().chars().take(4 * MOST) {
        if c.is_ascii_alphanumeric() || c == '_' {
            name.push(c);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    let name: String = name.chars().take(MOST).collect();
    let name = name.trim_end_matches('-').to_owned();
    if ServerName::new(&name).is_ok() { name } else { "server".to_owned() }
}

/// Numbers different servers with the same name, and marks identical ones as duplicates.
fn make_names_unique(found: &mut [Found]) {
    for index in 0..found.len() {
        let (before, rest) = found.split_at_mut(index);
        let Some(this) = rest.first_mut() else { return };
        let base = this.name.to_string();
        if let Some(same) = before.iter().find(|other| same_server(other, this)) {
            let note = format!("the same as {} of {} in {}", same.name, same.client, same.path.display());
            this.notes.push(note);
            this.duplicate = true;
        } else if before.iter().any(|other| other.name == this.name) {
            let free = (2..).map(|number| format!("{base}-{number}")).filter_map(|name| ServerName::new(name).ok());
            let free = free.into_iter().find(|name| before.iter().all(|other| other.name != *name));
            if let Some(free) = free {
                let note =
                    format!("renamed from {base} to {free}: another server has that name and different settings");
                this.notes.push(note);
                this.name = free;
            }
        }
    }
}

fn same_server(one: &Found, other: &Found) -> bool {
    one.original_name == other.original_name && one.entry == other.entry && one.credentials == other.credentials
}

#[cfg(test)]
mod tests {
    use super::server_name;
    use coracle_types::ServerName;
    use proptest::prelude::*;

    #[test]
    fn names_stay_as_similar_as_possible() {
        for (text, name) in [
            ("git", "git"),
            ("Sequential Thinking", "Sequential-Thinking"),
            ("@scope/server", "scope-server"),
            ("../../x", "x"),
            ("日本", "server"),
            ("io.github.x/y", "io-github-x-y"),
        ] {
            assert_eq!(server_name(text), name);
        }
    }

    proptest! {
        #[test]
        fn every_name_is_valid(text in "\\PC{0,80}") {
            prop_assert!(ServerName::new(server_name(&text)).is_ok());
        }
    }
}
