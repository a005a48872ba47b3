//! Adds the entry that starts Coracle to the files of other clients, as text, so that everything else is preserved.

use crate::import::{ImportOptions, System};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml_edit::{DocumentMut, Item, Table, value};

/// The name of the entry.
pub const NAME: &str = "coracle";

/// The client whose file is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Claude Code, for all projects.
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Cursor, for all projects.
    Cursor,
    /// Visual Studio Code, for all projects.
    VsCode,
    /// Codex.
    Codex,
}

/// The command that starts Coracle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The program.
    pub command: String,
    /// The arguments.
    pub arguments: Vec<String>,
    /// The environment variables.
    pub environment: BTreeMap<String, String>,
}

/// Why a file was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// The file cannot be parsed.
    #[error("it cannot be parsed: {0}")]
    Syntax(String),
    /// The section of servers has another type.
    #[error("`{0}` is not a table of servers")]
    Shape(&'static str),
}

impl InstallError {
    /// The stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Syntax(_) => "client_syntax",
            Self::Shape(_) => "client_shape",
        }
    }
}

impl Target {
    /// The file, according to the environment. `None` if there is no home folder.
    pub fn file(self, env: &BTreeMap<String, String>) -> Option<PathBuf> {
        let set = |name: &str| env.get(name).filter(|text| !text.is_empty()).map(PathBuf::from);
        let home = set("HOME").or_else(|| set("USERPROFILE")).filter(|home| home.is_absolute())?;
        if self == Self::Codex {
            return Some(set("CODEX_HOME").unwrap_or_else(|| home.join(".codex")).join("config.toml"));
        }
        let options = ImportOptions { home, folder: None, env: env.clone(), system: System::current() };
        Some(crate::import::file_of(self.client()?, &options))
    }

    /// The client whose servers can be imported from the same file, if Coracle can read them.
    pub fn client(self) -> Option<crate::import::Client> {
        use crate::import::Client;
        match self {
            Self::ClaudeCode => Some(Client::ClaudeCode),
            Self::ClaudeDesktop => Some(Client::ClaudeDesktop),
            Self::Cursor => Some(Client::Cursor),
            Self::VsCode => Some(Client::VsCode),
            Self::Codex => None,
        }
    }

    /// The section with the servers.
    fn section(self) -> &'static str {
        match self {
            Self::ClaudeCode | Self::ClaudeDesktop | Self::Cursor => "mcpServers",
            Self::VsCode => "servers",
            Self::Codex => "mcp_servers",
        }
    }

    /// The entry on one line, to be added by hand.
    pub fn by_hand(self, entry: &Entry) -> String {
        let mut fields = json!({ "command": entry.command, "args": entry.arguments });
        if !entry.environment.is_empty() {
            fields["env"] = json!(entry.environment);
        }
        json!({ self.section(): { NAME: fields } }).to_string()
    }
}

/// Adds the entry to the text of a file, or replaces an earlier one.
pub fn install(target: Target, text: &str, entry: &Entry) -> Result<String, InstallError> {
    match target {
        Target::Codex => into_toml(text, entry),
        _ => into_json(target, text, entry),
    }
}

/// Removes these servers from the text. Returns the text and the entries as JSON. Unknown names are ignored.
pub fn take_out(
    target: Target,
    text: &str,
    names: &[String],
) -> Result<(String, BTreeMap<String, Value>), InstallError> {
    let mut taken = BTreeMap::new();
    if text.trim().is_empty() {
        return Ok((text.to_owned(), taken));
    }
    let section = target.section();
    if target == Target::Codex {
        let mut document = parse_toml(text)?;
        if let Some(servers) = document.get_mut(section) {
            let servers = servers.as_table_like_mut().ok_or(InstallError::Shape(section))?;
            for name in names {
                if servers.remove(name).is_some() {
                    taken.insert(name.clone(), Value::Null);
                }
            }
        }
        return Ok((document.to_string(), taken));
    }
    let root = parse_json(text)?;
    let top = root.object_value().ok_or_else(|| InstallError::Syntax("it is not an object".to_owned()))?;
    if top.get(section).is_none() {
        return Ok((text.to_owned(), taken));
    }
    let servers = top.object_value(section).ok_or(InstallError::Shape(section))?;
    for name in names {
        if let Some(found) = servers.get(name) {
            taken.insert(name.clone(), found.value().and_then(|value| value.to_serde_value()).unwrap_or_default());
            found.remove();
        }
    }
    Ok((root.to_string(), taken))
}

/// Adds these entries to the text again. Existing entries are left unchanged. Only for clients whose servers can be
/// imported.
pub fn put_back(target: Target, text: &str, entries: &BTreeMap<String, Value>) -> Result<String, InstallError> {
    if target == Target::Codex || entries.is_empty() {
        return Ok(text.to_owned());
    }
    let root = parse_json(if text.trim().is_empty() { "{}\n" } else { text })?;
    let top = root.object_value().ok_or_else(|| InstallError::Syntax("it is not an object".to_owned()))?;
    let section = target.section();
    let servers = top.object_value_or_create(section).ok_or(InstallError::Shape(section))?;
    for (name, value) in entries {
        if servers.get(name).is_none() {
            servers.append(name, input(value));
        }
    }
    Ok(root.to_string())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => {
            CstInputValue::Object(fields.iter().map(|(name, value)| (name.clone(), input(value))).collect())
        }
    }
}

fn parse_json(text: &str) -> Result<CstRootNode, InstallError> {
    CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| InstallError::Syntax(error.to_string()))
}

fn parse_toml(text: &str) -> Result<DocumentMut, InstallError> {
    text.parse().map_err(|error: toml_edit::TomlError| InstallError::Syntax(error.message().to_owned()))
}

fn into_json(target: Target, text: &str, entry: &Entry) -> Result<String, InstallError> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root = parse_json(text)?;
    let Some(top) = root.object_value() else { return Err(InstallError::Syntax("it is not an object".to_owned())) };
    let section = target.section();
    let servers = top.object_value_or_create(section).ok_or(InstallError::Shape(section))?;
    let texts = |items: &[String]| CstInputValue::Array(items.iter().cloned().map(CstInputValue::String).collect());
    let mut fields = Vec::new();
    if matches!(target, Target::VsCode | Target::ClaudeCode) {
        fields.push(("type".to_owned(), CstInputValue::String("stdio".to_owned())));
    }
    fields.push(("command".to_owned(), CstInputValue::String(entry.command.clone())));
    fields.push(("args".to_owned(), texts(&entry.arguments)));
    if !entry.environment.is_empty() {
        let variables =
            entry.environment.iter().map(|(name, value)| (name.clone(), CstInputValue::String(value.clone())));
        fields.push(("env".to_owned(), CstInputValue::Object(variables.collect())));
    }
    let fresh = CstInputValue::Object(fields);
    match servers.get(NAME) {
        Some(earlier) => earlier.set_value(fresh),
        None => drop(servers.append(NAME, fresh)),
    }
    Ok(root.to_string())
}

fn into_toml(text: &str, entry: &Entry) -> Result<String, InstallError> {
    let section = Target::Codex.section();
    let mut document = parse_toml(text)?;
    let servers = document.entry(section).or_insert_with(|| {
        let mut servers = Table::new();
        servers.set_implicit(true);
        Item::Table(servers)
    });
    let servers = servers.as_table_like_mut().ok_or(InstallError::Shape(section))?;
    let mut fields = Table::new();
    fields.insert("command", value(entry.command.as_str()));
    fields.insert("args", value(entry.arguments.iter().collect::<toml_edit::Array>()));
    if !entry.environment.is_empty() {
        let variables: toml_edit::InlineTable = entry
            .environment
            .iter()
            .map(|(name, text)| (name.as_str(), toml_edit::Value::from(text.as_str())))
            .collect();
        fields.insert("env", value(variables));
    }
    servers.insert(NAME, Item::Table(fields));
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::{Entry, InstallError, NAME, Target, install, put_back, take_out};
    use serde_json::Value;
    use std::collections::BTreeMap;
    use std::path::Path;

    fn entry() -> Entry {
        Entry { command: "/opt/coracle".to_owned(), arguments: vec!["mcp".to_owned()], environment: BTreeMap::new() }
    }

    #[test]
    fn a_new_file_has_the_entry_and_nothing_else() {
        for target in [Target::ClaudeCode, Target::ClaudeDesktop, Target::Cursor, Target::VsCode] {
            let text = install(target, "", &entry()).unwrap();
            let value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value[target.section()]["coracle"]["command"], "/opt/coracle", "{text}");
            assert_eq!(install(target, &text, &entry()).unwrap(), text, "a second time changes nothing");
        }
        let text = install(Target::Codex, "", &entry()).unwrap();
        assert_eq!(text, "[mcp_servers.coracle]\ncommand = \"/opt/coracle\"\nargs = [\"mcp\"]\n");
        assert_eq!(install(Target::Codex, &text, &entry()).unwrap(), text);
    }

    #[test]
    fn existing_text_is_preserved() {
        let old = "{\n  // mine\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"git\": { \"command\": \"uvx\" }, // keep\n    \"coracle\": { \"command\": \"old\" }\n  }\n}\n";
        let new = install(Target::Cursor, old, &entry()).unwrap();
        for kept in ["// mine", "\"theme\": \"dark\"", "\"git\": { \"command\": \"uvx\" }", "// keep"] {
            assert!(new.contains(kept), "{new}");
        }
        assert!(new.contains("/opt/coracle") && !new.contains("\"old\""), "{new}");
        let old = "# mine\nmodel = \"x\" # keep\n\n[mcp_servers.git]\ncommand = \"uvx\"\n";
        let new = install(Target::Codex, old, &entry()).unwrap();
        assert!(new.starts_with(old) && new.contains("[mcp_servers.coracle]"), "{new}");
    }

    #[test]
    fn servers_are_taken_out_and_put_back() {
        let old = "{\n  // mine\n  \"mcpServers\": {\n    \"git\": { \"command\": \"uvx\" },\n    \"web\": { \"url\": \"x\" }\n  },\n  \"n\": 1\n}\n";
        let (without, taken) = take_out(Target::Cursor, old, &["git".to_owned(), "none".to_owned()]).unwrap();
        assert!(without.contains("// mine") && without.contains("\"web\"") && !without.contains("git"), "{without}");
        assert_eq!(taken.keys().collect::<Vec<_>>(), ["git"]);
        let installed = install(Target::Cursor, &without, &entry()).unwrap();
        let (gone, _) = take_out(Target::Cursor, &installed, &[NAME.to_owned()]).unwrap();
        let back: Value =
            serde_json::from_str(&put_back(Target::Cursor, &gone, &taken).unwrap().replace("// mine", "")).unwrap();
        assert_eq!(back, serde_json::from_str::<Value>(&old.replace("// mine", "")).unwrap());
        assert_eq!(take_out(Target::Cursor, "", &["git".to_owned()]).unwrap().0, "");
        let codex = "a = 1\n\n[mcp_servers.coracle]\ncommand = \"x\"\n";
        assert_eq!(take_out(Target::Codex, codex, &[NAME.to_owned()]).unwrap().0, "a = 1\n");
    }

    #[test]
    fn a_file_that_cannot_be_parsed_is_not_changed() {
        assert!(matches!(install(Target::Cursor, "{ nonsense", &entry()), Err(InstallError::Syntax(_))));
        assert!(matches!(install(Target::Cursor, "[]", &entry()), Err(InstallError::Syntax(_))));
        assert_eq!(install(Target::Cursor, "{\"mcpServers\": 3}", &entry()), Err(InstallError::Shape("mcpServers")));
        assert!(matches!(install(Target::Codex, "a = ", &entry()), Err(InstallError::Syntax(_))));
        assert_eq!(install(Target::Codex, "mcp_servers = 3", &entry()), Err(InstallError::Shape("mcp_servers")));
    }

    #[test]
    fn files_are_in_the_clients_locations() {
        let env: BTreeMap<String, String> = [("HOME".to_owned(), "/home/ann".to_owned())].into();
        let file = |target: Target| target.file(&env).unwrap();
        assert_eq!(file(Target::ClaudeCode), Path::new("/home/ann/.claude.json"));
        assert_eq!(file(Target::Cursor), Path::new("/home/ann/.cursor/mcp.json"));
        assert_eq!(file(Target::Codex), Path::new("/home/ann/.codex/config.toml"));
        #[cfg(target_os = "linux")]
        assert_eq!(file(Target::VsCode), Path::new("/home/ann/.config/Code/User/mcp.json"));
        assert_eq!(Target::Cursor.file(&BTreeMap::new()), None);
    }
}
