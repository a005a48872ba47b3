use super::*;
use crate::metadata::Dependency;

fn package(name: &str, dependencies: &[(&str, Option<DependencyKind>)]) -> Package {
    Package {
        id: format!("path+{name}"),
        name: name.to_owned(),
        version: "0.1.0".to_owned(),
        license: None,
        dependencies: dependencies
            .iter()
            .map(|(name, kind)| Dependency { name: (*name).to_owned(), kind: *kind })
            .collect(),
    }
}

fn violations(name: &str, dependencies: &[(&str, Option<DependencyKind>)]) -> Vec<String> {
    let packages = vec![package(name, dependencies)];
    direction_violations(&Metadata {
        workspace_members: packages.iter().map(|package| package.id.clone()).collect(),
        packages,
        target_directory: "target".into(),
    })
}

#[track_caller]
fn denied(from: &str, to: &str) {
    let found = violations(from, &[(to, None)]);
    assert_eq!(found.len(), 1, "{from} -> {to}: {found:?}");
    assert!(found[0].starts_with(&format!("`{from}` must not depend on `{to}`: ")), "{found:?}");
}

#[track_caller]
fn allowed(from: &str, to: &str) {
    assert_eq!(violations(from, &[(to, None)]), Vec::<String>::new(), "{from} -> {to}");
}

const BRACES: [&str; 5] =
    ["coracle-sandbox", "coracle-upstream", "coracle-catalog", "coracle-privacy", "coracle-policy"];

#[test]
fn a_crate_must_be_in_the_table() {
    assert_eq!(
        violations("coracle-novelty", &[]),
        ["`coracle-novelty` is not in the table of xtask/src/directions.rs: add a row that says what it may know"]
    );
}

#[test]
fn third_party_packages_are_ignored() {
    let stranger = package("stranger", &[("coracle-cli", None)]);
    let metadata =
        Metadata { packages: vec![stranger], workspace_members: Vec::new(), target_directory: "target".into() };
    assert_eq!(direction_violations(&metadata), Vec::<String>::new());
}

#[test]
fn crates_on_one_level_do_not_depend_on_each_other() {
    for from in BRACES {
        for to in BRACES {
            denied(from, to);
        }
        allowed(from, "coracle-store");
        allowed(from, "coracle-types");
        allowed("coracle-engine", from);
        denied(from, "coracle-engine");
    }
}

#[test]
fn only_cli_server_and_bench_depend_on_config() {
    for row in TABLE {
        match row.name {
            "coracle-cli" | "coracle-bench" | "coracle-server" => allowed(row.name, "coracle-config"),
            name => denied(name, "coracle-config"),
        }
    }
}

#[test]
fn nothing_depends_on_cli_testing_or_xtask() {
    for row in TABLE {
        denied(row.name, "coracle-cli");
        denied(row.name, "coracle-testing");
        denied(row.name, "xtask");
    }
    allowed("coracle-cli", "coracle-sandbox");
}

#[test]
fn the_scripted_model_shares_no_code_with_clients() {
    for row in TABLE {
        match row.name {
            "coracle-cli" | "coracle-bench" => allowed(row.name, "coracle-scripted-model"),
            name => denied(name, "coracle-scripted-model"),
        }
    }
    denied("coracle-scripted-model", "coracle-agent");
    denied("coracle-scripted-model", "reqwest");
    allowed("coracle-scripted-model", "coracle-types");
    allowed("coracle-scripted-model", "axum");
}

#[test]
fn only_cli_and_bench_depend_on_server() {
    for row in TABLE {
        match row.name {
            "coracle-cli" | "coracle-bench" => allowed(row.name, "coracle-server"),
            name => denied(name, "coracle-server"),
        }
    }
}

#[test]
fn agent_and_workflow_depend_on_engine_and_not_on_each_other() {
    denied("coracle-agent", "coracle-workflow");
    denied("coracle-workflow", "coracle-agent");
    for name in ["coracle-agent", "coracle-workflow", "coracle-server"] {
        for below in ENGINE_AND_BELOW {
            allowed(name, below);
        }
        denied("coracle-engine", name);
    }
}

#[test]
fn only_sandbox_and_cli_depend_on_guest() {
    for row in TABLE {
        match row.name {
            "coracle-cli" | "coracle-sandbox" => allowed(row.name, "coracle-guest"),
            name => denied(name, "coracle-guest"),
        }
    }
}

#[test]
fn guest_protocol_and_store_depend_only_on_lower_crates() {
    allowed("coracle-guest", "coracle-protocol");
    allowed("coracle-guest", "coracle-types");
    denied("coracle-guest", "coracle-sandbox");
    denied("coracle-guest", "coracle-store");
    allowed("coracle-protocol", "coracle-types");
    allowed("coracle-protocol", "tokio");
    denied("coracle-protocol", "coracle-store");
    allowed("coracle-store", "coracle-types");
    denied("coracle-store", "coracle-protocol");
}

#[test]
fn types_are_plain_data() {
    for plain in ["serde", "serde_json", "thiserror"] {
        allowed("coracle-types", plain);
    }
    denied("coracle-types", "tokio");
    denied("coracle-types", "serde_yaml");
    denied("coracle-types", "coracle-protocol");
}

#[test]
fn sandbox_does_not_depend_on_tools() {
    denied("coracle-sandbox", "rmcp");
    denied("coracle-sandbox", "rmcp-macros");
    allowed("coracle-sandbox", "tokio");
    allowed("coracle-upstream", "rmcp");
}

#[test]
fn only_cli_server_and_bench_depend_on_accounts() {
    for row in TABLE {
        match row.name {
            "coracle-cli" | "coracle-bench" | "coracle-server" => allowed(row.name, "coracle-accounts"),
            name => denied(name, "coracle-accounts"),
        }
    }
}

#[test]
fn only_cli_and_bench_depend_on_environments() {
    for row in TABLE {
        match row.name {
            "coracle-cli" | "coracle-bench" => allowed(row.name, "coracle-environments"),
            name => denied(name, "coracle-environments"),
        }
    }
    denied("coracle-environments", "coracle-engine");
}

#[test]
fn only_cli_depends_on_bench() {
    for row in TABLE {
        match row.name {
            "coracle-cli" => allowed(row.name, "coracle-bench"),
            name => denied(name, "coracle-bench"),
        }
    }
}

#[test]
fn libraries_have_error_enums() {
    for row in TABLE {
        match row.name {
            "coracle-cli" | "coracle-bench" | "xtask" => allowed(row.name, "anyhow"),
            name => denied(name, "anyhow"),
        }
    }
}

#[test]
fn engine_and_accounts_do_not_depend_on_http() {
    for http in ["axum", "axum-extra", "hyper", "hyper-util", "reqwest"] {
        denied("coracle-engine", http);
        denied("coracle-accounts", http);
        allowed("coracle-server", http);
    }
    allowed("coracle-engine", "hyperloglog");
}

#[test]
fn dev_dependencies_are_not_checked_but_build_dependencies_are() {
    let dev = [("coracle-engine", Some(DependencyKind::Dev)), ("tokio", Some(DependencyKind::Dev))];
    assert_eq!(violations("coracle-types", &dev), Vec::<String>::new());
    let build = [("coracle-engine", Some(DependencyKind::Build)), ("tokio", Some(DependencyKind::Build))];
    assert_eq!(violations("coracle-types", &build).len(), 2);
}

#[test]
fn every_allowed_name_has_a_row() {
    for row in TABLE {
        if let Ours::These(names) = row.ours {
            for name in names {
                assert!(TABLE.iter().any(|row| row.name == *name), "{name} in the row of {}", row.name);
            }
        }
    }
}
