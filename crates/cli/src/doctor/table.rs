//! The diagnosis as a table.

use super::report::{Check, Diagnosis, StartTimes, Tier};
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use std::fmt::Write;

/// Width at which details are wrapped.
const DETAIL_WIDTH: usize = 90;

pub(super) fn render(diagnosis: &Diagnosis) -> String {
    let machine = &diagnosis.machine;
    let system = machine.system.as_deref().unwrap_or("Linux");
    let mut text = format!(
        "Coracle {} on {system}, Linux {} {}, as user {}\n",
        diagnosis.version, machine.kernel, machine.architecture, machine.uid
    );
    for tier in &diagnosis.tiers {
        render_tier(tier, &mut text);
    }
    if !diagnosis.policy.is_empty() {
        text.push_str("\npolicy\n");
        render_checks(&diagnosis.policy, None, &mut text);
    }
    if !diagnosis.data.is_empty() {
        text.push_str("\ndata\n");
        render_checks(&diagnosis.data, None, &mut text);
    }
    text
}

fn render_tier(tier: &Tier, text: &mut String) {
    let _ = writeln!(text, "\n{}: {}", tier.name, tier.verdict.phrase());
    render_checks(&tier.checks, tier.start, text);
}

fn render_checks(checks: &[Check], start: Option<StartTimes>, text: &mut String) {
    let mut table = Table::new();
    table.load_style(NOTHING);
    for check in checks {
        table.add_row([check.outcome.mark().to_owned(), check.name.clone(), wrapped(&check.detail)]);
    }
    if let Some(start) = start {
        let cold = start.cold_ms.map_or("not measured".to_owned(), |cold| format!("{cold:.0} ms"));
        let detail = format!("warm {:.2} ms, cold {cold} (medians)", start.warm_ms);
        table.add_row(["✓".to_owned(), "start".to_owned(), detail]);
    }
    for line in table.lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for check in checks.iter().filter(|check| !check.fix.is_empty()) {
        let _ = writeln!(text, "\nTo fix {}:", check.name);
        for line in &check.fix {
            let _ = writeln!(text, "  {line}");
        }
    }
}

/// Wraps a text at [`DETAIL_WIDTH`] between words.
fn wrapped(detail: &str) -> String {
    let mut lines = vec![String::new()];
    for word in detail.split_whitespace() {
        let full = lines
            .last()
            .is_some_and(|line| !line.is_empty() && line.chars().count() + 1 + word.chars().count() > DETAIL_WIDTH);
        if full {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}
