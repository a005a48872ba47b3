//! The labels of servers: those of the configuration, or guesses.
//!
//! Guesses are words: those of the command, of the package, of the URL and of the name of a server are compared with the
//! table in `labels/words.rs`. Tools of servers without labels add to them by what they declare (`openWorldHint`).

mod words;

use coracle_types::{Secret, ServerLabel, ServerName, ServerSpec, ToolHints, Transport};
use std::collections::{BTreeMap, BTreeSet};
use words::{SILENT, WORDS};

/// The maximum length of an argument or a URL that is searched for words.
const MAX_SEARCHED: usize = 4 << 10;

/// A label that was guessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guess {
    /// The label.
    pub label: ServerLabel,
    /// What it was guessed from. Completes the sentence "guessed from …".
    pub reason: String,
    /// Whether tools that only read do not count: data leaves only if something is written. Others reach any address.
    pub only_writes: bool,
}

/// The labels of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Labels {
    /// The configuration has them, or says that there are none.
    Configured(BTreeSet<ServerLabel>),
    /// The configuration does not say.
    Guessed(Vec<Guess>),
}

impl Labels {
    /// The labels of a server: `configured`, or guesses if there is no such list and `guess` is set.
    pub fn of(configured: Option<&[ServerLabel]>, spec: Option<&ServerSpec>, guess: bool) -> Self {
        match (configured, spec) {
            (Some(configured), _) => Self::Configured(configured.iter().copied().collect()),
            (None, Some(spec)) if guess => Self::Guessed(guesses(spec)),
            (None, _) => Self::Guessed(Vec::new()),
        }
    }

    /// The labels, without reasons.
    pub fn set(&self) -> BTreeSet<ServerLabel> {
        match self {
            Self::Configured(labels) => labels.clone(),
            Self::Guessed(guesses) => guesses.iter().map(|guess| guess.label).collect(),
        }
    }

    /// Whether the configuration has them.
    pub fn is_configured(&self) -> bool {
        matches!(self, Self::Configured(_))
    }

    /// Each label, with the reason if it was guessed.
    pub fn reasons(&self) -> Vec<(ServerLabel, Option<&str>)> {
        match self {
            Self::Configured(labels) => labels.iter().map(|label| (*label, None)).collect(),
            Self::Guessed(guesses) => guesses.iter().map(|guess| (guess.label, Some(guess.reason.as_str()))).collect(),
        }
    }
}

/// The labels of all servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerLabels {
    by_server: BTreeMap<ServerName, Labels>,
    /// Whether tools of servers without labels add guesses.
    guess: bool,
}

impl ServerLabels {
    /// Collects the labels of servers.
    pub fn new(by_server: BTreeMap<ServerName, Labels>, guess: bool) -> Self {
        Self { by_server, guess }
    }

    /// The labels of a server; `None` if it is not configured.
    pub fn of(&self, server: &ServerName) -> Option<&Labels> {
        self.by_server.get(server)
    }

    /// The servers and their labels.
    pub fn servers(&self) -> impl Iterator<Item = (&ServerName, &Labels)> {
        self.by_server.iter()
    }

    /// The labels of a server in view of one of its tools.
    pub fn of_tool(&self, server: &ServerName, hints: ToolHints) -> BTreeSet<ServerLabel> {
        match self.of(server) {
            Some(Labels::Configured(labels)) => labels.clone(),
            Some(Labels::Guessed(guesses)) if !guesses.is_empty() => {
                let only_reads = hints.read_only == Some(true);
                let counted = guesses.iter().filter(|guess| !(only_reads && guess.only_writes));
                counted.map(|guess| guess.label).collect()
            }
            _ if self.guess => guessed_from(hints).collect(),
            _ => BTreeSet::new(),
        }
    }

    /// Whether the configuration has the labels of a server.
    pub fn is_configured(&self, server: &ServerName) -> bool {
        self.of(server).is_some_and(Labels::is_configured)
    }

    /// The labels of a server from which something was read that had the labels `then`: those of the configuration, or
    /// the guesses of now and of then.
    pub fn of_source(&self, server: &ServerName, then: &BTreeSet<ServerLabel>) -> BTreeSet<ServerLabel> {
        match self.of(server) {
            Some(Labels::Configured(labels)) => labels.clone(),
            Some(guessed) if self.guess => guessed.set().union(then).copied().collect(),
            Some(_) => BTreeSet::new(),
            // It is not configured any more.
            None => then.clone(),
        }
    }
}

/// What a tool declares about itself: one that reaches beyond the data of its server returns what strangers write, and
/// sends its arguments away.
pub fn guessed_from(hints: ToolHints) -> impl Iterator<Item = ServerLabel> {
    let reaches_out = hints.open_world == Some(true);
    [ServerLabel::Untrusted, ServerLabel::Exfil].into_iter().filter(move |_| reaches_out)
}

/// The labels that a server probably has.
pub fn guesses(spec: &ServerSpec) -> Vec<Guess> {
    let mut guesses: BTreeMap<ServerLabel, Guess> = BTreeMap::new();
    for (place, text) in places(spec) {
        if text.len() > MAX_SEARCHED {
            continue;
        }
        for word in words_of(&text) {
            let Some((_, labels)) = WORDS.iter().find(|(known, _)| **known == *word) else { continue };
            let has_own_data = labels.contains(&ServerLabel::Private);
            for label in labels.iter().copied() {
                let only_writes = label == ServerLabel::Exfil && has_own_data;
                let guess = || Guess { label, reason: format!("{word:?} in its {place}"), only_writes };
                guesses.entry(label).or_insert_with(guess).only_writes &= only_writes;
            }
        }
    }
    guesses.into_values().collect()
}

/// What says something about a server, the most telling first. Arguments may hold credentials: only words of the table
/// are ever repeated.
fn places(spec: &ServerSpec) -> Vec<(&'static str, String)> {
    let mut places = Vec::new();
    match &spec.transport {
        Transport::Stdio { command, args, .. } => {
            let program = command.rsplit(['/', '\\']).next().unwrap_or(command);
            places.push(("command", program.to_owned()));
            // The program that runs a package (`npx`, `uvx`, `docker run`) is followed by its name.
            let plain = args.iter().map(Secret::expose).filter(|arg| !arg.starts_with('-'));
            places.extend(plain.filter(|arg| is_package(arg)).map(|arg| ("arguments", arg.to_owned())));
        }
        Transport::Http { url, .. } | Transport::Sse { url, .. } => {
            let rest = url.expose().split_once("://").map_or("", |(_, rest)| rest);
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let host = host.rsplit('@').next().unwrap_or_default();
            places.push(("URL", host.to_owned()));
        }
    }
    places.push(("name", spec.name.to_string()));
    places.extend(spec.category.iter().map(|category| ("category", category.clone())));
    places
}

/// Whether an argument looks like the name of a package or an image, and not like a path, a URL or an assignment.
fn is_package(arg: &str) -> bool {
    let is_plain = arg.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '@' | '/' | '-' | '_' | '.' | ':'));
    let is_path = arg.starts_with(['/', '.']) || arg.contains("://");
    is_plain && !is_path
}

/// The words of a text, in lower case: `@modelcontextprotocol/server-postgres` has `postgres`, and `google-maps` also
/// has `googlemaps`.
fn words_of(text: &str) -> Vec<String> {
    let lower = text.to_ascii_lowercase();
    let single: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty() && !SILENT.contains(word))
        .collect();
    let pairs = single.windows(2).map(<[&str]>::concat);
    pairs.chain(single.iter().map(|word| (*word).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_types::Scope;
    use std::time::Duration;

    fn spec(name: &str, transport: Transport) -> ServerSpec {
        ServerSpec {
            name: ServerName::new(name).unwrap(),
            transport,
            scope: Scope::User,
            description: None,
            category: None,
            client: None,
            start_timeout: Duration::from_secs(1),
            call_timeout: Duration::from_secs(1),
        }
    }

    fn program(name: &str, command: &str, args: &[&str]) -> ServerSpec {
        let args = args.iter().map(|arg| Secret::new(*arg)).collect();
        spec(name, Transport::Stdio { command: command.to_owned(), args, env: BTreeMap::new(), cwd: None })
    }

    fn labels(spec: &ServerSpec) -> Vec<&'static str> {
        guesses(spec).iter().map(|guess| guess.label.as_str()).collect()
    }

    #[test]
    fn well_known_servers_get_labels_and_others_none() {
        let postgres = program("db", "npx", &["-y", "@modelcontextprotocol/server-postgres", "postgres://x:y@h/d"]);
        assert_eq!(labels(&postgres), ["private"]);
        assert_eq!(guesses(&postgres)[0].reason, "\"postgres\" in its arguments");
        assert_eq!(labels(&program("web", "uvx", &["mcp-server-fetch"])), ["untrusted", "exfil"]);
        assert_eq!(labels(&program("x", "/opt/gmail-mcp", &[])), ["private", "untrusted", "exfil"]);
        assert_eq!(labels(&program("time", "uvx", &["mcp-server-time", "--local-timezone", "UTC"])), [""; 0]);
        let url =
            Transport::Http { url: Secret::new("https://mcp.notion.com/mcp?key=slack"), headers: BTreeMap::new() };
        assert_eq!(labels(&spec("n", url)), ["private"]);
        assert_eq!(labels(&program("crm", "python3", &["server.py"])), ["private"]);
    }

    #[test]
    fn paths_and_assignments_say_nothing() {
        let quiet =
            program("x", "python3", &["/home/ann/gmail/server.py", "token=slack", "--fetch", "https://gmail.com"]);
        assert_eq!(labels(&quiet), [""; 0]);
    }

    #[test]
    fn configured_labels_replace_guesses() {
        let fetch = program("web", "uvx", &["mcp-server-fetch"]);
        let guessed = Labels::of(None, Some(&fetch), true);
        assert_eq!(guessed.set(), BTreeSet::from([ServerLabel::Untrusted, ServerLabel::Exfil]));
        assert_eq!(Labels::of(None, Some(&fetch), false).set(), BTreeSet::new());
        assert_eq!(Labels::of(Some(&[]), Some(&fetch), true).set(), BTreeSet::new());
        let private = Labels::of(Some(&[ServerLabel::Private]), Some(&fetch), true);
        assert_eq!(private.reasons(), [(ServerLabel::Private, None)]);
    }

    #[test]
    fn a_tool_that_reaches_out_adds_guesses_where_there_are_no_labels() {
        let name = |name: &str| ServerName::new(name).unwrap();
        let (plain, set) = (Labels::Guessed(Vec::new()), Labels::Configured(BTreeSet::new()));
        let all = BTreeMap::from([(name("plain"), plain), (name("set"), set)]);
        let open = ToolHints { open_world: Some(true), ..ToolHints::default() };
        let labels = ServerLabels::new(all.clone(), true);
        assert_eq!(labels.of_tool(&name("plain"), open).len(), 2);
        assert_eq!(labels.of_tool(&name("plain"), ToolHints::default()).len(), 0);
        assert_eq!(labels.of_tool(&name("set"), open).len(), 0);
        assert_eq!(ServerLabels::new(all, false).of_tool(&name("plain"), open).len(), 0);
    }
}
