use crate::output::plain;
use crate::policies::policy;
use crate::settings::load;
use crate::status::Status;
use coracle_config::Loaded;
use coracle_policy::{CedarPolicies, CheckSpec, LimitSpec, Policy};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Maximum length of a line in characters.
const MAX_LINE: usize = 4_000;

pub(super) fn run(config: Option<&Path>) -> anyhow::Result<Status> {
    let loaded = load(config, Vec::new())?;
    let policy = policy(&loaded)?;
    for warning in policy.cedar().into_iter().flat_map(CedarPolicies::warnings) {
        eprintln!("warning: {}", plain(warning, MAX_LINE));
    }
    std::io::stdout().write_all(text(&policy, &loaded).as_bytes())?;
    Ok(Status::Success)
}

/// The policy as text in Cedar. What Cedar cannot express is in comments.
fn text(policy: &Policy, loaded: &Loaded) -> String {
    let mut text = String::from("// Rules of policy.tools, and the default\n");
    text.push_str(&lines(&policy.rules().to_cedar()));
    for cedar in policy.cedar().into_iter().flat_map(CedarPolicies::iter) {
        let _ = write!(text, "\n// {}\n{}\n", plain(&cedar.origin, MAX_LINE), lines(cedar.text.trim_end()).trim_end());
    }
    for CheckSpec { name, origin, is_about_executions, tools, when, require, asks, .. } in policy.checks().iter() {
        let of = if *is_about_executions { "executions" } else { tools.as_ref().map_or("*", |tools| &tools.text) };
        let when = when.as_ref().map(|when| format!(" when {}", when.text)).unwrap_or_default();
        let otherwise = if *asks { "ask" } else { "deny" };
        let line = format!("condition {name:?} ({origin}): {of}{when}: {}, otherwise {otherwise}", require.text);
        let _ = writeln!(text, "\n// {}", plain(&line, MAX_LINE));
    }
    for LimitSpec { name, origin, tools, per, window, calls, amount, max } in policy.limits().iter() {
        let tools = tools.as_ref().map_or("*", |tools| &tools.text);
        let calls = calls.map(|calls| format!("{calls} calls"));
        let amount = amount.as_ref().zip(*max).map(|(amount, max)| format!("{max} of {}", amount.text));
        let most = calls.into_iter().chain(amount).collect::<Vec<_>>().join(" and ");
        let per: Vec<String> = per.iter().map(|per| format!(" per {}", format!("{per:?}").to_lowercase())).collect();
        let line = format!("limit {name:?} ({origin}): {tools}: {most} in {}{}", window.text, per.concat());
        let _ = writeln!(text, "\n// {}", plain(&line, MAX_LINE));
    }
    let settings = &loaded.settings.policy;
    for (number, flow) in settings.flows.iter().enumerate() {
        let origin = loaded.origins.get(&format!("policy.flows[{number}]")).cloned().unwrap_or_default();
        let _ = writeln!(text, "\n// {}", plain(&format!("flow {flow:?} ({origin})"), MAX_LINE));
    }
    for (pattern, approvers) in &settings.approvers {
        let origin = loaded.origins.get(&format!("policy.approvers.{pattern}")).cloned().unwrap_or_default();
        let groups = if approvers.groups.is_empty() { "none".to_owned() } else { approvers.groups.join(" or ") };
        let line = format!("approvers {pattern:?} ({origin}): {} of {groups}", approvers.count);
        let _ = writeln!(text, "\n// {}", plain(&line, MAX_LINE));
    }
    text
}

/// The same lines, with nothing that a terminal interprets.
fn lines(text: &str) -> String {
    text.lines().map(|line| plain(line, MAX_LINE) + "\n").collect()
}
