//! Generated catalogs of any size, always with the same contents.

use super::query_set::{Definition, Query, Set};
use serde_json::json;

const VERBS: [&str; 20] = [
    "create", "list", "update", "delete", "search", "export", "import", "archive", "approve", "assign", "cancel",
    "compare", "convert", "count", "download", "filter", "merge", "notify", "publish", "validate",
];
const THINGS: [&str; 50] = [
    "invoice",
    "calendar event",
    "issue",
    "pull request",
    "customer",
    "payment",
    "subscription",
    "document",
    "spreadsheet",
    "message",
    "channel",
    "repository",
    "branch",
    "deployment",
    "container",
    "database",
    "table",
    "dashboard",
    "alert",
    "incident",
    "ticket",
    "contact",
    "campaign",
    "product",
    "order",
    "shipment",
    "warehouse",
    "employee",
    "payroll",
    "contract",
    "photo",
    "video",
    "playlist",
    "recipe",
    "flight",
    "hotel booking",
    "weather report",
    "stock quote",
    "news article",
    "translation",
    "survey",
    "form",
    "certificate",
    "domain",
    "firewall rule",
    "backup",
    "log entry",
    "metric",
    "user account",
    "permission",
];
const PLACES: [&str; 20] = [
    "acme", "borealis", "cobalt", "delta", "ember", "falcon", "granite", "harbor", "indigo", "juniper", "kestrel",
    "lumen", "meridian", "nimbus", "orchid", "pioneer", "quartz", "raven", "saffron", "tundra",
];
const REASONS: [&str; 10] = [
    "and returns its identifier",
    "with optional paging",
    "as JSON or CSV",
    "and tells everybody who follows it",
    "unless it is locked",
    "within the given dates",
    "for the signed-in user",
    "after checking permissions",
    "including everything that belongs to it",
    "in the default region",
];

/// Number of tools per server.
const PER_SERVER: usize = 100;
/// Number of queries.
const QUERIES: usize = 500;

pub(super) fn set(size: usize) -> anyhow::Result<Set> {
    let tools: Vec<Definition> = (0..size).map(definition).collect();
    let queries = (0..QUERIES)
        .map(|number| {
            // A large prime visits all tools.
            let at = number * 7_919 % size;
            let (verb, thing, place) = words(at);
            let text = format!("{verb} the {thing} in {place} number {}", at / PER_SERVER);
            Query { id: number.into(), text, relevant: vec![id(at)] }
        })
        .collect();
    Set::new(format!("{size} made"), tools, queries)
}

fn words(at: usize) -> (&'static str, &'static str, &'static str) {
    let server = at / PER_SERVER;
    // Each server has tools for five things.
    let thing = THINGS[(server * 7 + at % PER_SERVER / VERBS.len()) % THINGS.len()];
    (VERBS[at % VERBS.len()], thing, PLACES[server % PLACES.len()])
}

fn id(at: usize) -> String {
    format!("tool-{at}")
}

fn definition(at: usize) -> Definition {
    let (verb, thing, place) = words(at);
    let server = at / PER_SERVER;
    let schema = json!({
        "type": "object",
        "properties": {
            format!("{}_id", thing.replace(' ', "_")): { "type": "string", "description": format!("Which {thing}") },
            "limit": { "type": "integer", "description": "How many at most" },
            "state": { "type": "string", "enum": ["open", "closed", "all"], "description": "Only those in this state" },
        },
    });
    Definition {
        id: id(at),
        server: Some(format!("{place}-{server}")),
        name: format!("{verb}_{}", thing.replace(' ', "_")),
        description: format!(
            "Can {verb} a {thing} of {place} {}. Use it when somebody asks to {verb} one {thing} or several.",
            REASONS[at % REASONS.len()]
        ),
        input_schema: schema.as_object().cloned(),
    }
}
