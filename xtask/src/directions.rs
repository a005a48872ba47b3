//! Permitted dependencies between crates: the arrows of `ARCHITECTURE.md` as a table.

use crate::metadata::{DependencyKind, Metadata, Package};

/// Crates of this repository that a crate may depend on.
#[derive(Clone, Copy)]
enum Ours {
    /// All crates, except those that nothing may depend on.
    Any,
    These(&'static [&'static str]),
}

/// Third-party crates that a crate may depend on.
#[derive(Clone, Copy)]
enum Theirs {
    Any,
    /// All crates except these and their families: `hyper` also excludes `hyper-util`.
    Without(&'static [&'static str]),
    Only(&'static [&'static str]),
}

struct Row {
    name: &'static str,
    ours: Ours,
    theirs: Theirs,
}

const BELOW_ENGINE: &[&str] = &[
    "coracle-audit",
    "coracle-egress",
    "coracle-sandbox",
    "coracle-upstream",
    "coracle-catalog",
    "coracle-privacy",
    "coracle-policy",
    "coracle-guardrails",
    "coracle-store",
    "coracle-protocol",
    "coracle-types",
];

const ENGINE_AND_BELOW: &[&str] = &[
    "coracle-models",
    "coracle-engine",
    "coracle-sandbox",
    "coracle-upstream",
    "coracle-catalog",
    "coracle-privacy",
    "coracle-policy",
    "coracle-store",
    "coracle-protocol",
    "coracle-types",
];

const STORE_AND_TYPES: &[&str] = &["coracle-store", "coracle-types"];

/// All crates of the workspace, from top to bottom.
const TABLE: &[Row] = &[
    Row { name: "coracle-cli", ours: Ours::Any, theirs: Theirs::Any },
    Row {
        name: "coracle-bench",
        ours: Ours::These(&[
            "coracle-accounts",
            "coracle-config",
            "coracle-environments",
            "coracle-scripted-model",
            "coracle-server",
            "coracle-engine",
            "coracle-sandbox",
            "coracle-upstream",
            "coracle-catalog",
            "coracle-policy",
            "coracle-privacy",
            "coracle-store",
            "coracle-types",
        ]),
        theirs: Theirs::Any,
    },
    Row {
        name: "coracle-server",
        ours: Ours::These(&[
            "coracle-accounts",
            "coracle-audit",
            "coracle-runs",
            "coracle-agent",
            "coracle-models",
            "coracle-workflow",
            "coracle-config",
            "coracle-page",
            "coracle-engine",
            "coracle-sandbox",
            "coracle-upstream",
            "coracle-catalog",
            "coracle-privacy",
            "coracle-policy",
            "coracle-store",
            "coracle-protocol",
            "coracle-types",
        ]),
        theirs: Theirs::Any,
    },
    // Files, and a build script that makes them.
    Row { name: "coracle-page", ours: Ours::These(&[]), theirs: Theirs::Only(&["flate2", "hex", "sha2"]) },
    Row {
        name: "coracle-accounts",
        ours: Ours::These(&["coracle-audit", "coracle-store", "coracle-types"]),
        theirs: Theirs::Without(&["axum", "hyper", "reqwest"]),
    },
    Row {
        name: "coracle-environments",
        ours: Ours::These(&["coracle-sandbox", "coracle-store", "coracle-types"]),
        theirs: Theirs::Any,
    },
    Row { name: "coracle-config", ours: Ours::These(&["coracle-types"]), theirs: Theirs::Any },
    // Runs know neither HTTP nor MCP: the server tells clients about them.
    Row {
        name: "coracle-runs",
        ours: Ours::These(&[
            "coracle-agent",
            "coracle-models",
            "coracle-engine",
            "coracle-policy",
            "coracle-store",
            "coracle-types",
        ]),
        theirs: Theirs::Without(&["axum", "rmcp"]),
    },
    Row { name: "coracle-agent", ours: Ours::These(ENGINE_AND_BELOW), theirs: Theirs::Any },
    Row { name: "coracle-workflow", ours: Ours::These(ENGINE_AND_BELOW), theirs: Theirs::Any },
    Row {
        name: "coracle-engine",
        ours: Ours::These(BELOW_ENGINE),
        theirs: Theirs::Without(&["axum", "hyper", "reqwest"]),
    },
    Row {
        name: "coracle-sandbox",
        ours: Ours::These(&[
            // `coracle-sandbox` contains the guest's files and mounts them.
            "coracle-guest",
            "coracle-protocol",
            "coracle-store",
            "coracle-types",
        ]),
        theirs: Theirs::Without(&["rmcp"]),
    },
    Row { name: "coracle-upstream", ours: Ours::These(STORE_AND_TYPES), theirs: Theirs::Any },
    Row { name: "coracle-catalog", ours: Ours::These(STORE_AND_TYPES), theirs: Theirs::Any },
    Row { name: "coracle-privacy", ours: Ours::These(STORE_AND_TYPES), theirs: Theirs::Any },
    // Below everything that records something.
    Row {
        name: "coracle-audit",
        ours: Ours::These(STORE_AND_TYPES),
        theirs: Theirs::Without(&["axum", "hyper", "reqwest", "sqlx"]),
    },
    Row { name: "coracle-policy", ours: Ours::These(STORE_AND_TYPES), theirs: Theirs::Any },
    Row { name: "coracle-guardrails", ours: Ours::These(&["coracle-types"]), theirs: Theirs::Any },
    Row { name: "coracle-guest", ours: Ours::These(&["coracle-protocol", "coracle-types"]), theirs: Theirs::Any },
    Row { name: "coracle-protocol", ours: Ours::These(&["coracle-types"]), theirs: Theirs::Any },
    Row { name: "coracle-store", ours: Ours::These(&["coracle-types"]), theirs: Theirs::Any },
    // A proxy: it knows neither tools nor sandboxes, and its caller decides about each request.
    Row { name: "coracle-egress", ours: Ours::These(&[]), theirs: Theirs::Without(&["axum", "reqwest", "rmcp"]) },
    Row { name: "coracle-models", ours: Ours::These(&["coracle-types"]), theirs: Theirs::Without(&["axum", "rmcp"]) },
    Row { name: "coracle-types", ours: Ours::These(&[]), theirs: Theirs::Only(&["serde", "serde_json", "thiserror"]) },
    // An implementation of its own of what `coracle-agent` and others speak: it may know none of them.
    Row {
        name: "coracle-scripted-model",
        ours: Ours::These(&["coracle-types"]),
        theirs: Theirs::Without(&["reqwest"]),
    },
    // Only a dev-dependency, see `NOBODY_KNOWS`.
    Row {
        name: "coracle-testing",
        ours: Ours::These(&["coracle-engine", "coracle-sandbox", "coracle-store", "coracle-protocol", "coracle-types"]),
        theirs: Theirs::Any,
    },
    Row { name: "xtask", ours: Ours::These(&[]), theirs: Theirs::Any },
];

/// Crates that nothing may depend on, whatever its row says.
const NOBODY_KNOWS: &[&str] = &["coracle-cli", "coracle-testing", "xtask"];

/// Programs, and parts of them that only print their errors. All other crates are libraries, whose callers tell errors
/// apart, so they have enums instead of `anyhow`.
const PROGRAMS: &[&str] = &["coracle-cli", "coracle-bench", "xtask"];

/// Returns one sentence for each forbidden dependency. Dev-dependencies are not checked.
pub fn direction_violations(metadata: &Metadata) -> Vec<String> {
    let members: Vec<&str> = metadata.members().map(|package| package.name.as_str()).collect();
    let mut violations = Vec::new();
    for package in metadata.members() {
        match TABLE.iter().find(|row| row.name == package.name) {
            Some(row) => violations.extend(package_violations(row, package, &members)),
            None => violations.push(format!(
                "`{}` is not in the table of xtask/src/directions.rs: add a row that says what it may know",
                package.name
            )),
        }
    }
    violations
}

fn package_violations(row: &Row, package: &Package, members: &[&str]) -> Vec<String> {
    let mut violations = Vec::new();
    let counted = package.dependencies.iter().filter(|dependency| dependency.kind != Some(DependencyKind::Dev));
    for dependency in counted {
        let name = dependency.name.as_str();
        let is_ours = members.contains(&name) || TABLE.iter().any(|row| row.name == name);
        let reason = if is_ours { our_reason(row.ours, name) } else { their_reason(row, name) };
        if let Some(reason) = reason {
            violations.push(format!("`{}` must not depend on `{name}`: {reason}", row.name));
        }
    }
    violations
}

fn our_reason(ours: Ours, name: &str) -> Option<String> {
    if NOBODY_KNOWS.contains(&name) {
        return Some("nothing may depend on it".to_owned());
    }
    match ours {
        Ours::Any => None,
        Ours::These(allowed) if allowed.contains(&name) => None,
        Ours::These([]) => Some("it may know no crate of ours".to_owned()),
        Ours::These(allowed) => Some(format!("of ours it may know only {}", allowed.join(", "))),
    }
}

fn their_reason(row: &Row, name: &str) -> Option<String> {
    if name == "anyhow" && !PROGRAMS.contains(&row.name) {
        return Some("a library has error enums, made with thiserror".to_owned());
    }
    match row.theirs {
        Theirs::Any => None,
        Theirs::Only(allowed) if allowed.contains(&name) => None,
        Theirs::Only(allowed) => Some(format!("it may use only {}", allowed.join(", "))),
        Theirs::Without(families) => families
            .iter()
            .find(|family| is_of_family(name, family))
            .map(|family| format!("it must know nothing of {family}")),
    }
}

fn is_of_family(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

#[cfg(test)]
mod tests;
