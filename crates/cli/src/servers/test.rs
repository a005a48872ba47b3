use super::configured;
use crate::flows::labels_of;
use crate::output::{counted, json, plain};
use crate::settings::{announce, load_for_servers};
use crate::status::Status;
use crate::wiring::{Purpose, cancellable, store, toolbox};
use anyhow::Context;
use clap::Args;
use coracle_config::Loaded;
use coracle_engine::without_effect;
use coracle_server::{LabelView, ServerTestView};
use coracle_types::{ServerName, UserId};
use coracle_upstream::PassedEnvironment;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use serde_json::Map;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Maximum length of a server's description of itself, in characters.
const MAX_WORDS: usize = 80;
/// Maximum length of a reason in characters.
const MAX_REASON: usize = 2_000;
/// Interval of the spinner.
const TICK: Duration = Duration::from_millis(120);

#[derive(Debug, Args)]
pub(super) struct TestArguments {
    /// Names of the servers to test [default: all].
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Records the environment that the server got.
fn passed(outcome: &mut ServerTestView, environment: PassedEnvironment) {
    outcome.warnings.extend(environment.hint());
    (outcome.environment, outcome.withheld) = (environment.passed, environment.withheld);
}

pub(super) fn run(arguments: &TestArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let mut loaded = load_for_servers(config, Vec::new())?;
    let mut outcomes: BTreeMap<String, ServerTestView> = BTreeMap::new();
    for problem in &loaded.server_problems {
        let (name, fault) = (problem.name.clone(), &problem.fault);
        if arguments.names.is_empty() || arguments.names.contains(&name) {
            outcomes.insert(
                name.clone(),
                ServerTestView::failed(name, Duration::ZERO, fault.code(), fault.to_string(), Some(fault.hint())),
            );
        }
    }
    for name in arguments.names.iter().filter(|name| !outcomes.contains_key(*name)) {
        configured(&loaded, name)?;
    }
    if !arguments.names.is_empty() {
        loaded.servers.retain(|spec| arguments.names.iter().any(|name| name == spec.name.as_str()));
    }
    if loaded.servers.is_empty() && outcomes.is_empty() {
        eprintln!("no servers are configured: use `coracle servers add` or `coracle servers import`");
    }
    if !loaded.servers.is_empty() {
        announce(&loaded);
        let tested = cancellable(test_all(&loaded))?;
        outcomes.extend(tested.into_iter().map(|outcome| (outcome.name.clone(), outcome)));
    }
    let outcomes: Vec<ServerTestView> = outcomes.into_values().collect();
    let text = if arguments.json { json(&outcomes)? } else { render(&outcomes) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if outcomes.iter().all(|outcome| outcome.ok) { Status::Success } else { Status::Failed })
}

/// Tests all servers in parallel.
async fn test_all(loaded: &Loaded) -> anyhow::Result<Vec<ServerTestView>> {
    let toolbox = toolbox(loaded, store().await?, Map::new(), Purpose::Test)?;
    let mut waiting: Vec<ServerName> = loaded.servers.iter().map(|spec| spec.name.clone()).collect();
    let mut tests = JoinSet::new();
    for name in waiting.clone() {
        let toolbox = Arc::clone(&toolbox);
        tests.spawn(async move { ServerTestView::of(&toolbox, &UserId::local(), &name).await });
    }
    let progress = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
    let progress = progress.with_style(ProgressStyle::with_template("{spinner} {wide_msg}")?);
    progress.enable_steady_tick(TICK);
    let mut outcomes = Vec::new();
    loop {
        let names: Vec<&str> = waiting.iter().map(ServerName::as_str).collect();
        progress.set_message(format!("waiting for {}", names.join(", ")));
        let Some(outcome) = tests.join_next().await else { break };
        let mut outcome = outcome.context("cannot test a server")?;
        if let Some(spec) = loaded.servers.iter().find(|spec| spec.name.as_str() == outcome.name) {
            passed(&mut outcome, PassedEnvironment::of(spec));
            outcome.labels = LabelView::all(&labels_of(loaded, spec.name.as_str()));
        }
        waiting.retain(|name| name.as_str() != outcome.name);
        outcomes.push(outcome);
    }
    progress.finish_and_clear();
    for outcome in outcomes.iter_mut().filter(|outcome| outcome.ok) {
        let Ok(name) = ServerName::new(&outcome.name) else { continue };
        outcome.warnings.extend(toolbox.rules_without_effect_on(&name).iter().map(without_effect));
    }
    toolbox.upstream().shutdown().await;
    Ok(outcomes)
}

fn render(outcomes: &[ServerTestView]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let (mark, name) = (if outcome.ok { "✓" } else { "✗" }, plain(&outcome.name, MAX_WORDS));
        let seconds = Duration::from_millis(outcome.ms).as_secs_f64();
        if outcome.ok {
            let tools = counted(outcome.tools.unwrap_or_default(), "tool");
            let protocol = plain(outcome.protocol.as_deref().unwrap_or_default(), MAX_WORDS);
            let _ = write!(text, "{mark} {name}: {tools} after {seconds:.1} s, protocol {protocol}");
            if let Some(server) = &outcome.server {
                let _ = write!(text, ", {}", plain(server, MAX_WORDS));
            }
            text.push('\n');
        } else {
            let reason = plain(outcome.reason.as_deref().unwrap_or_default(), MAX_REASON);
            let _ = writeln!(text, "{mark} {name}: failed after {seconds:.1} s: {reason}");
        }
        if !outcome.environment.is_empty() {
            let names = plain(&outcome.environment.join(", "), MAX_REASON);
            let _ = writeln!(text, "  inherited environment variables: {names}");
        }
        for LabelView { label, guessed_from } in &outcome.labels {
            let told = match guessed_from {
                Some(reason) => format!("label: {label}, guessed from {reason}"),
                None => format!("label: {label}"),
            };
            let _ = writeln!(text, "  {}", plain(&told, MAX_REASON));
        }
        for warning in &outcome.warnings {
            let _ = writeln!(text, "  warning: {}", plain(warning, MAX_REASON));
        }
        if let Some(hint) = &outcome.hint {
            let _ = writeln!(text, "  hint: {}", plain(hint, MAX_REASON));
        }
    }
    text
}
