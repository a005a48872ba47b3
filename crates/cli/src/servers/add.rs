use super::candidate::Candidate;
use super::list::{transport, transport_line};
use super::not_changed;
use crate::settings::{file_to_edit, load_for_servers, told};
use crate::status::{Mistake, Status};
use clap::{Args, ValueEnum};
use coracle_config::edit::Existing;
use coracle_config::import::extract_credentials;
use coracle_config::{ConnectionType, McpServer, ServerSandbox};
use coracle_types::{Scope, Secret, ServerName};
use std::path::Path;

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct AddArguments {
    /// Server name; code imports its tools with `from servers.NAME import …`.
    #[arg(value_name = "NAME", value_parser = |name: &str| ServerName::new(name))]
    name: ServerName,

    /// URL of the server, instead of a command.
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "env", "cwd", "sandbox"])]
    url: Option<String>,

    /// HTTP header to send with each request; can be repeated.
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "command", value_parser = header)]
    header: Vec<(String, String)>,

    /// Use the older HTTP+SSE transport instead of streamable HTTP.
    #[arg(long, conflicts_with = "command")]
    sse: bool,

    /// Environment variable for the command; can be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,

    /// Working directory of the command.
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,

    /// Start the command in a sandbox, where it sees only system folders and those of --read and --write.
    #[arg(long)]
    sandbox: bool,

    /// Folder that the command may read in its sandbox; can be repeated.
    #[arg(long, value_name = "DIR", requires = "sandbox")]
    read: Vec<String>,

    /// Folder that the command may read and write in its sandbox; can be repeated.
    #[arg(long, value_name = "DIR", requires = "sandbox")]
    write: Vec<String>,

    /// Scope of the server: one process or connection per user, or one shared by all users [default: user].
    #[arg(long, value_name = "SCOPE")]
    scope: Option<ScopeName>,

    /// Short description of the server.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Replace an existing server with the same name.
    #[arg(long)]
    replace: bool,

    /// Command without `--` before it; rejected with the corrected command line.
    #[arg(hide = true, value_name = "WORD", num_args = 0.., allow_hyphen_values = true)]
    misplaced: Vec<String>,

    /// Command that starts the server, with its arguments, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const AFTER_HELP: &str = "\
Credentials are not written to the settings file: each one is stored as a variable in .env in the data folder, which
only you can read. ${VAR} is expanded when the server starts.

Examples:
  coracle servers add git -- uvx mcp-server-git
  coracle servers add files --cwd ~/notes -- npx -y @modelcontextprotocol/server-filesystem .
  coracle servers add notes --sandbox --read ~/notes -- notes-server ~/notes
  coracle servers add github --env 'GITHUB_TOKEN=${GITHUB_TOKEN}' -- github-mcp-server stdio
  coracle servers add docs --url https://example.com/mcp --header 'Authorization=Bearer ${DOCS_TOKEN}'";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScopeName {
    User,
    Shared,
}

/// Parses a header as NAME=VALUE or NAME: VALUE.
fn header(text: &str) -> Result<(String, String), String> {
    pair(text, &['=', ':'])
}

fn variable(text: &str) -> Result<(String, String), String> {
    pair(text, &['='])
}

/// Parses a pair. The value may be a credential, so messages do not include it.
fn pair(text: &str, between: &[char]) -> Result<(String, String), String> {
    let (name, value) = text.split_once(between).ok_or("use NAME=VALUE")?;
    let name = name.trim();
    if name.is_empty() {
        Err("the name is missing: use NAME=VALUE".to_owned())
    } else {
        Ok((name.to_owned(), value.trim().to_owned()))
    }
}

/// Checks for a missing or misplaced command, with the corrected command line.
fn check(arguments: &AddArguments) -> Result<(), Mistake> {
    let name = &arguments.name;
    if let Some(flag) = arguments.misplaced.first().filter(|word| word.starts_with('-')) {
        let hint = "`coracle servers add --help` lists the options; the command of a server comes after `--`";
        return Err(Mistake::new(format!("unexpected argument '{flag}' found"), Some(hint)));
    }
    if !arguments.misplaced.is_empty() {
        let words: Vec<String> = arguments.misplaced.iter().map(|word| shell_word(word)).collect();
        let hint = format!("coracle servers add {name} -- {}", words.join(" "));
        return Err(Mistake::new("the command of a server comes after `--`", Some(hint)));
    }
    if arguments.url.is_none() && arguments.command.is_empty() {
        let hint = format!(
            "coracle servers add {name} -- COMMAND [ARGUMENT…] for a program, or coracle servers add {name} --url URL"
        );
        return Err(Mistake::new(format!("{name} needs a command or a URL"), Some(hint)));
    }
    Ok(())
}

/// Quotes a word for a shell.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

pub(super) fn run(arguments: AddArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    check(&arguments)?;
    let loaded = load_for_servers(config, Vec::new())?;
    let name = arguments.name.clone();
    let existing = if arguments.replace { Existing::Replace } else { Existing::Keep };
    if existing == Existing::Keep && loaded.settings.mcp_servers.contains_key(name.as_str()) {
        let origin = loaded.origins.get(&format!("mcpServers.{name}")).cloned().unwrap_or_default();
        let hint = "choose another name, or use --replace";
        return Err(Mistake::new(format!("there is already a server {name} ({origin})"), Some(hint)).into());
    }
    let mut entry = entry(arguments);
    let credentials = extract_credentials(&name, &mut entry);
    let mut candidate = Candidate::read(file_to_edit(&loaded)?)?;
    candidate.add(&name, &entry, &credentials, existing).map_err(|error| not_changed(&error))?;
    candidate.check(&name)?;
    candidate.write()?;
    eprintln!("added {name} to {}: {}", candidate.file().display(), transport_line(&transport(&entry)));
    for variable in credentials.keys() {
        eprintln!("a credential was stored as the variable {variable} in {}", candidate.variables_file().display());
    }
    let now = load_for_servers(config, Vec::new())?;
    match now.server_problems.iter().find(|problem| problem.name == name.as_str()) {
        Some(problem) => eprintln!("warning: {}", told(problem)),
        None => eprintln!("try it with `coracle servers test {name}`"),
    }
    Ok(Status::Success)
}

/// A folder as the settings need it, whose paths are relative to the file.
fn absolute(folder: &str) -> String {
    if folder.starts_with("~/") || folder.contains("${") {
        return folder.to_owned();
    }
    std::path::absolute(folder).map_or_else(|_| folder.to_owned(), |path| path.display().to_string())
}

fn entry(arguments: AddArguments) -> McpServer {
    let secrets =
        |pairs: Vec<(String, String)>| pairs.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
    let mut words = arguments.command.into_iter();
    McpServer {
        connection: arguments.sse.then_some(ConnectionType::Sse),
        command: words.next(),
        args: words.map(Secret::new).collect(),
        env: secrets(arguments.env),
        cwd: arguments.cwd,
        sandbox: arguments.sandbox.then_some(ServerSandbox::Native),
        sandbox_read: arguments.read.iter().map(|folder| absolute(folder)).collect(),
        sandbox_write: arguments.write.iter().map(|folder| absolute(folder)).collect(),
        url: arguments.url.map(Secret::new),
        headers: secrets(arguments.header),
        scope: arguments.scope.map(|scope| match scope {
            ScopeName::User => Scope::User,
            ScopeName::Shared => Scope::Shared,
        }),
        description: arguments.description,
        ..McpServer::default()
    }
}
