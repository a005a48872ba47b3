use crate::failures::recent;
use crate::flows::labels_of;
use crate::output::{columns, counted, json, plain};
use crate::settings::{load_for_servers, told};
use crate::status::Status;
use crate::wiring::{Purpose, runtime, store, toolbox};
use anyhow::Context;
use clap::Args;
use coracle_config::{Loaded, McpServer, Origin};
use coracle_server::{LabelView, ServerCondition, ServerView};
use coracle_types::{Scope, ServerName, UserId};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Maximum length of a printed transport in characters.
const MAX_TRANSPORT: usize = 100;
/// Maximum length of a printed reason in characters.
const MAX_PROBLEM: usize = 1_000;
/// Maximum length of printed labels in characters.
const MAX_LABELS: usize = 100;
/// Maximum length of a printed name in characters.
const MAX_NAME: usize = 64;

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &ListArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load_for_servers(config, Vec::new())?;
    let listed = if loaded.servers.is_empty() { BTreeMap::new() } else { runtime()?.block_on(listed(&loaded))? };
    let rows: Vec<ServerView> =
        loaded.settings.mcp_servers.iter().map(|(name, entry)| row(name, entry, &loaded, &listed)).collect();
    let text = if arguments.json {
        json(&rows)?
    } else if rows.is_empty() {
        eprintln!("no servers are configured: use `coracle servers add` or `coracle servers import`");
        String::new()
    } else {
        let mut text = columns(rows.iter().map(|row| {
            [
                plain(&row.name, MAX_NAME),
                row.transport.as_ref().map(transport_line).unwrap_or_default(),
                scope(row.scope).to_owned(),
                state(row),
                plain(&labels_line(&row.labels), MAX_LABELS),
            ]
        }));
        for problem in &loaded.server_problems {
            text = text + "\n" + &told(problem) + "\n";
        }
        for row in rows.iter().filter(|row| row.state == ServerCondition::Failed) {
            let (problem, hint) = (row.problem.as_deref().unwrap_or_default(), row.hint.as_deref().unwrap_or_default());
            let told = format!("server {}: {problem}", row.name);
            let _ = write!(text, "\n{}\n  hint: {}\n", plain(&told, MAX_PROBLEM), plain(hint, MAX_PROBLEM));
        }
        text
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Status::Success)
}

/// Number of tools that each server last listed, and when.
async fn listed(loaded: &Loaded) -> anyhow::Result<BTreeMap<ServerName, (usize, SystemTime)>> {
    let toolbox = toolbox(loaded, store().await?, Map::new(), Purpose::Own)?;
    let mut listed = BTreeMap::new();
    for spec in &loaded.servers {
        let last = toolbox
            .last_listed(&UserId::local(), &spec.name)
            .await
            .context("cannot read the known tools of servers")?;
        if let Some(last) = last {
            listed.insert(spec.name.clone(), (last.tools.len(), last.listed_at));
        }
    }
    Ok(listed)
}

fn row(
    name: &str,
    entry: &McpServer,
    loaded: &Loaded,
    listed: &BTreeMap<ServerName, (usize, SystemTime)>,
) -> ServerView {
    let problem = loaded.server_problems.iter().find(|problem| problem.name == name);
    let last = ServerName::new(name).ok().and_then(|name| listed.get(&name));
    let spec = loaded.servers.iter().find(|spec| spec.name.as_str() == name);
    let failure = spec.and_then(recent);
    let state = match (problem, last) {
        _ if entry.disabled => ServerCondition::SwitchedOff,
        (Some(_), _) => ServerCondition::CannotBeUsed,
        (None, _) if failure.is_some() => ServerCondition::Failed,
        (None, Some(_)) => ServerCondition::Listed,
        (None, None) => ServerCondition::NotListed,
    };
    let origin = loaded.origins.get(&format!("mcpServers.{name}")).cloned().unwrap_or_default();
    ServerView {
        name: name.to_owned(),
        transport: Some(transport(entry)),
        scope: entry.scope.unwrap_or(Scope::User),
        can_sign_in: spec.is_some_and(|spec| spec.transport.has_url()),
        can_remove: matches!(loaded.origins.get(&format!("mcpServers.{name}")), Some(Origin::File { .. })),
        origin: Some(origin.to_string()),
        state,
        connection: None,
        tools: last.map(|(count, _)| *count),
        listed_at: last.map(|(_, at)| (*at).into()),
        labels: spec.map(|_| LabelView::all(&labels_of(loaded, name))).unwrap_or_default(),
        hint: problem
            .map(|problem| problem.fault.hint())
            .or_else(|| failure.as_ref().map(|_| format!("`coracle servers test {name}` retries"))),
        problem: problem
            .map(|problem| problem.fault.to_string())
            .or_else(|| failure.map(|(reason, age)| format!("failed to start {}: {reason}", ago(age)))),
    }
}

/// Transport of a server according to its entry, with credentials hidden.
pub(super) fn transport(entry: &McpServer) -> Value {
    ServerView::transport_of(entry)
}

/// Transport on one short line: the command or the URL.
pub(super) fn transport_line(transport: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let words = match (&transport["command"], &transport["url"]) {
        (Value::Null, Value::Null) => "nothing".to_owned(),
        (Value::Null, url) if transport["type"] == "sse" => format!("{} (sse)", text(url)),
        (Value::Null, url) => text(url),
        (command, _) => {
            let arguments = transport["args"].as_array().into_iter().flatten();
            std::iter::once(command).chain(arguments).map(text).collect::<Vec<_>>().join(" ")
        }
    };
    plain(&words, MAX_TRANSPORT)
}

/// The labels of a server on one line.
fn labels_line(labels: &[LabelView]) -> String {
    let label = |view: &LabelView| {
        let guessed = if view.guessed_from.is_some() { "?" } else { "" };
        format!("{}{guessed}", view.label)
    };
    labels.iter().map(label).collect::<Vec<_>>().join(", ")
}

fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::User => "user",
        Scope::Shared => "shared",
    }
}

fn state(row: &ServerView) -> String {
    match row.state {
        ServerCondition::SwitchedOff => "disabled".to_owned(),
        ServerCondition::CannotBeUsed => "cannot be used".to_owned(),
        ServerCondition::NotListed => "tools not listed yet".to_owned(),
        ServerCondition::Failed => "failed to start".to_owned(),
        ServerCondition::Listed => {
            let age = row.listed_at.and_then(|at| SystemTime::from(at).elapsed().ok()).unwrap_or_default();
            format!("{}, listed {}", counted(row.tools.unwrap_or_default(), "tool"), ago(age))
        }
    }
}

fn ago(age: Duration) -> String {
    let (minutes, hours) = (age.as_secs() / 60, age.as_secs() / 3600);
    let whole = |count: u64, thing| counted(usize::try_from(count).unwrap_or(usize::MAX), thing) + " ago";
    match (minutes, hours) {
        (0, _) => "just now".to_owned(),
        (minutes, 0) => whole(minutes, "minute"),
        (_, hours) if hours < 48 => whole(hours, "hour"),
        (_, hours) => whole(hours / 24, "day"),
    }
}

#[cfg(test)]
mod tests {
    use super::ago;
    use std::time::Duration;

    #[test]
    fn ages_are_rounded() {
        let told = [5, 60, 7199, 3600 * 47, 3600 * 72].map(|seconds| ago(Duration::from_secs(seconds)));
        assert_eq!(told, ["just now", "1 minute ago", "1 hour ago", "47 hours ago", "3 days ago"]);
    }
}
