//! Imports from folders as other clients leave them.

use coracle_config::edit::{Existing, add_server, add_variables};
use coracle_config::import::{
    Client, Found, ImportOptions, Imported, System, extract_credentials, extract_credentials_apart, scan, scan_file,
};
use coracle_config::{McpServer, is_setting};
use coracle_types::{Secret, ServerName};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn fixtures(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config/fixtures").join(name)
}

/// Copies a fixture, so that it belongs to the user who runs the test. `dot-` stands for a dot, because some such
/// folders cannot be checked in.
fn copied(name: &str) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let target = to.join(name.strip_prefix("dot-").map_or(name.clone(), |rest| format!(".{rest}")));
            if entry.file_type().unwrap().is_dir() {
                copy(&entry.path(), &target);
            } else {
                std::fs::write(&target, std::fs::read(entry.path()).unwrap()).unwrap();
            }
        }
    }
    let root = tempfile::tempdir().unwrap();
    copy(&fixtures(name), root.path());
    root
}

fn options(root: &Path, system: System) -> ImportOptions {
    let folder = root.join("project");
    ImportOptions { home: root.join("home"), folder: folder.exists().then_some(folder), env: BTreeMap::new(), system }
}

/// Everything that was found, with credentials by name.
fn rendered(root: &Path, imported: &Imported) -> String {
    let found = |found: &Found| {
        let head =
            format!("{} ({}) from {} in {}", found.name, found.original_name, found.client, found.path.display());
        let mut lines = vec![head, format!("  {}", serde_json::to_string(&found.entry).unwrap())];
        lines.extend(found.project.iter().map(|project| format!("  project: {}", project.display())));
        lines.extend(found.credentials.keys().map(|variable| format!("  credential: {variable}")));
        lines.extend(found.notes.iter().map(|note| format!("  note: {note}")));
        lines.extend(found.problem.iter().map(|problem| format!("  problem: {problem}")));
        lines.join("\n")
    };
    let mut lines: Vec<String> = imported.found.iter().map(found).collect();
    lines.extend(
        imported
            .unreadable
            .iter()
            .map(|file| format!("unreadable: {} {}: {}", file.client, file.path.display(), file.reason)),
    );
    let text = lines.join("\n");
    text.replace(&root.display().to_string(), "ROOT")
}

#[test]
fn every_client_is_read_on_linux() {
    let root = copied("linux");
    let imported = scan(&options(root.path(), System::Linux));
    insta::assert_snapshot!(rendered(root.path(), &imported));
}

#[test]
fn other_systems_keep_their_files_elsewhere() {
    for (name, system) in [("macos", System::MacOs), ("windows", System::Windows)] {
        let root = copied(name);
        let names = |system| -> Vec<String> {
            scan(&options(root.path(), system))
                .found
                .iter()
                .map(|found| format!("{} {}", found.client, found.name))
                .collect()
        };
        assert_eq!(names(system), ["Claude Desktop desktop", "VS Code code"], "{name}");
        assert_eq!(names(System::Linux), Vec::<String>::new(), "{name}");
        let mut moved = options(root.path(), System::Linux);
        let folder = if name == "macos" { "home/Library/Application Support" } else { "home/AppData/Roaming" };
        moved.env.insert("XDG_CONFIG_HOME".to_owned(), root.path().join(folder).display().to_string());
        assert_eq!(scan(&moved).found.len(), 2, "{name}");
    }
}

#[test]
fn credentials_stay_out_of_the_entries_and_of_what_is_printed() {
    let root = copied("linux");
    let imported = scan(&options(root.path(), System::Linux));
    assert!(!format!("{imported:?}").contains("canary"));
    let entries: String = imported.found.iter().map(|found| serde_json::to_string(&found.entry).unwrap()).collect();
    assert!(!entries.contains("canary"), "{entries}");
    let kept: Vec<&str> =
        imported.found.iter().flat_map(|found| found.credentials.values()).map(Secret::expose).collect();
    for value in [
        "ghp_canary",
        "ghp_canary_of_work",
        "canary2",
        "postgresql://u:canary@localhost/db",
        "https://example.com/mcp?key=canary",
    ] {
        assert!(kept.contains(&value), "{value} is not in {kept:?}");
    }
}

/// Imported servers can be written to a file and loaded again.
#[test]
fn imported_servers_can_be_used() {
    let root = copied("linux");
    let imported = scan(&options(root.path(), System::Linux));
    let (mut yaml, mut variables) = (String::new(), String::new());
    for found in imported.found.iter().filter(|found| found.problem.is_none() && !found.duplicate) {
        yaml = add_server(&yaml, &found.name, &found.entry, Existing::Keep).unwrap();
        variables = add_variables(&variables, &found.credentials).unwrap();
    }
    let case = crate::case::Case::new().file(&yaml).dot_env(&variables);
    let loaded = case.load().unwrap();
    let plain = |text: String| text.replace(&root.path().display().to_string(), "ROOT");
    let unusable: Vec<String> = loaded.server_problems.iter().map(|problem| plain(problem.to_string())).collect();
    insta::assert_debug_snapshot!(unusable);
    let text = serde_json::to_string(&loaded.servers).unwrap();
    for value in ["\"ghp_canary\"", "Bearer canary", "https://example.com/mcp?key=canary", "--token=canary2"] {
        assert!(text.contains(value), "{value} is not in {text}");
    }
}

#[test]
fn a_named_file_is_read_and_a_missing_one_reported() {
    let root = copied("linux");
    let options = options(root.path(), System::Linux);
    let imported = scan_file(Client::Cursor, &root.path().join("home/.cursor/mcp.json"), &options);
    assert_eq!(
        imported.found.iter().map(|found| found.name.as_str()).collect::<Vec<_>>(),
        ["filesystem", "remote", "off"]
    );
    let missing = scan_file(Client::Cursor, &root.path().join("none.json"), &options);
    assert_eq!(missing.unreadable.len(), 1);
}

#[test]
fn variables_that_are_kept_apart_collide_with_nothing() {
    let entry = || McpServer {
        url: Some(Secret::new("https://a.example/mcp")),
        headers: [("api-key", "hunter2"), ("server-session-hours", "8000"), ("Accept", "text/plain")]
            .map(|(name, value)| (name.to_owned(), Secret::new(value)))
            .into(),
        ..McpServer::default()
    };
    for (server, taken, expected) in [
        ("openai", "OPENAI_API_KEY", ["MCP_SERVER_OPENAI_API_KEY", "MCP_SERVER_OPENAI_SERVER_SESSION_HOURS"]),
        (
            "coracle",
            "MCP_SERVER_CORACLE_API_KEY",
            ["MCP_SERVER_CORACLE_API_KEY_2", "MCP_SERVER_CORACLE_SERVER_SESSION_HOURS"],
        ),
    ] {
        let mut apart = entry();
        let is_taken = |variable: &str| variable == taken;
        let credentials = extract_credentials_apart(&ServerName::new(server).unwrap(), &mut apart, &is_taken);
        assert_eq!(credentials.keys().collect::<Vec<_>>(), expected);
        assert_eq!(apart.headers["api-key"].expose(), format!("${{{}}}", expected[0]));
        assert!(expected.iter().all(|variable| !is_setting(variable)));
    }
    // The control: whoever writes the settings may choose variables.
    let chosen = extract_credentials(&ServerName::new("openai").unwrap(), &mut entry());
    assert!(chosen.contains_key("OPENAI_API_KEY"));
}

#[test]
fn another_users_project_is_not_read() {
    if !rustix::process::geteuid().is_root() {
        crate::skip::skip("files of another user: only root can change the owner of a file");
        return;
    }
    let root = copied("linux");
    let count = || {
        scan(&options(root.path(), System::Linux))
            .found
            .iter()
            .filter(|found| found.path.ends_with(".mcp.json"))
            .count()
    };
    assert_eq!(count(), 2);
    rustix::fs::chown(root.path().join("project/.mcp.json"), Some(rustix::fs::Uid::from_raw(61_043)), None).unwrap();
    assert_eq!(count(), 0);
}

#[test]
fn a_deep_file_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("x.json");
    std::fs::write(&path, format!("{{\"mcpServers\": {}", "[".repeat(100_000))).unwrap();
    let imported = scan_file(Client::Cursor, &path, &options(root.path(), System::Linux));
    assert_eq!(imported.unreadable.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_entry_causes_a_panic(name in "\\PC{0,20}", text in "\\PC{0,20}(\\$\\{[a-zA-Z:]{0,12}\\}?){0,3}=?\\PC{0,10}") {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x.json");
        let entry = serde_json::json!({
            "command": &text, "args": [&text, "--key", &text], "env": { &name: &text }, "cwd": &text,
        });
        let both = serde_json::json!({ "inputs": [{ "id": &name, "default": &text }], "servers": { &name: entry } });
        std::fs::write(&path, both.to_string()).unwrap();
        let imported = scan_file(Client::VsCode, &path, &options(root.path(), System::Linux));
        prop_assert_eq!(imported.found.len(), 1);
    }
}
