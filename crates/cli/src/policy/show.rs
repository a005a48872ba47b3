use crate::output::plain;
use crate::policies::policy;
use crate::settings::load;
use crate::status::Status;
use coracle_config::Loaded;
use coracle_policy::{CheckSpec, LimitSpec, Policy};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Maximum length of a line in characters.
const MAX_LINE: usize = 4_000;

pub(super) fn run(config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load(config, Vec::new())?;
    std::io::stdout().write_all(text(&policy(&loaded)?, &loaded).as_bytes())?;
    Ok(Status::Success)
}

/// One line for each part of the policy.
fn text(policy: &Policy, loaded: &Loaded) -> String {
    let mut text = String::new();
    for (pattern, decision) in &loaded.settings.policy.tools {
        let origin = loaded.origins.get(&format!("policy.tools.{pattern}")).cloned().unwrap_or_default();
        let decision = format!("{decision:?}").to_lowercase();
        let _ = writeln!(text, "{}", plain(&format!("tools {pattern}: {decision} ({origin})"), MAX_LINE));
    }
    text.push_str("default: ask about tools that are marked as destructive and not as read-only, allow all others\n");
    for CheckSpec { name, origin, is_about_executions, tools, when, require, asks, .. } in policy.checks().iter() {
        let of = if *is_about_executions { "executions" } else { tools.as_ref().map_or("*", |tools| &tools.text) };
        let when = when.as_ref().map(|when| format!(" when {}", when.text)).unwrap_or_default();
        let otherwise = if *asks { "ask" } else { "deny" };
        let line = format!("condition {name}: {of}{when}: {}, otherwise {otherwise} ({origin})", require.text);
        let _ = writeln!(text, "{}", plain(&line, MAX_LINE));
    }
    for LimitSpec { name, origin, tools, per, window, calls, amount, max } in policy.limits().iter() {
        let tools = tools.as_ref().map_or("*", |tools| &tools.text);
        let calls = calls.map(|calls| format!("{calls} calls"));
        let amount = amount.as_ref().zip(*max).map(|(amount, max)| format!("{max} of {}", amount.text));
        let most = calls.into_iter().chain(amount).collect::<Vec<_>>().join(" and ");
        let per: Vec<String> = per.iter().map(|per| format!(" per {}", format!("{per:?}").to_lowercase())).collect();
        let line = format!("limit {name}: {tools}: {most} in {}{} ({origin})", window.text, per.concat());
        let _ = writeln!(text, "{}", plain(&line, MAX_LINE));
    }
    text
}
