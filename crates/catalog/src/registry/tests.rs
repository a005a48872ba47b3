use super::Registry;
use crate::{Catalog, Level, Query, ServerTools};
use coracle_types::{Schema, ServerName, Tool, ToolHints};
use serde_json::json;
use std::fs;
use std::path::Path;

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn connected() -> ServerTools {
    let name = ServerName::new("git").unwrap();
    let tool = Tool {
        server: name.clone(),
        name: "git_log".to_owned(),
        title: None,
        description: "Shows the commit logs".to_owned(),
        input_schema: Schema::default(),
        output_schema: None,
        category: None,
        hints: ToolHints::default(),
    };
    ServerTools::new(name, vec![tool])
}

fn catalog(folder: &Path) -> (Catalog, Vec<String>) {
    let registry = Registry::read(folder);
    let warnings = registry.warnings().to_vec();
    let mut servers = vec![connected()];
    registry.describe(&mut servers, |name| (name.as_str() == "sick").then(|| "it does not start".to_owned()));
    (Catalog::new(servers), warnings)
}

#[test]
fn tools_of_servers_that_are_not_connected_are_found_and_say_how_to_connect() {
    let folder = tempfile::tempdir().unwrap();
    let jira = json!({
        "name": "jira_issues", "server": "jira", "description": "Works with tickets of a tracker",
        "functions": ["close_ticket", { "name": "open_ticket", "description": "Files a new ticket" }],
        "use_cases": ["report a defect"], "command": "uvx", "args": ["mcp-jira"],
    });
    write(folder.path(), "tracking/jira.json", &jira.to_string());
    write(folder.path(), "other.json", &json!([{ "name": "sick", "description": "Does not start" }]).to_string());
    let (catalog, warnings) = catalog(folder.path());
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(catalog.len(), 1, "only tools that can be called count");
    assert_eq!(catalog.servers().len(), 1);
    let hits = catalog.search(&Query::new("report a defect"), 3);
    assert_eq!(hits[0].entry.server, "jira");
    let open = catalog.show("jira", "open_ticket", Level::Summary).unwrap();
    assert_eq!(open, "jira.open_ticket: Files a new ticket (not connected: coracle servers add jira -- uvx mcp-jira)");
    assert_eq!(catalog.show("jira", "open_ticket", Level::Python).unwrap(), open);
    assert!(catalog.show("sick", "sick", Level::Summary).unwrap().ends_with("(not connected: it does not start)"));
    assert!(catalog.find("jira", "open_ticket").is_none(), "it cannot be called");
    assert!(!catalog.tree().files().any(|(path, _)| path.contains("jira")), "it cannot be imported");
    let in_tracking = Query { category: Some("Tracking"), ..Query::default() };
    assert_eq!(catalog.search(&in_tracking, 10).len(), 2);
}

#[test]
fn connected_tools_get_a_category_and_a_description() {
    let folder = tempfile::tempdir().unwrap();
    let history =
        json!({ "name": "history", "server": "git", "functions": ["git_log"], "use_cases": ["blame somebody"] });
    write(folder.path(), "versions/git.json", &history.to_string());
    let (catalog, _) = catalog(folder.path());
    let (entry, _) = catalog.find("git", "git_log").unwrap();
    assert_eq!(catalog.category(entry), "versions");
    assert_eq!(catalog.search(&Query::new("blame"), 1)[0].entry.name, "git_log");
    assert_eq!(catalog.len(), 1);
}

#[test]
fn invalid_files_are_left_out_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a/broken.json", "{");
    write(folder.path(), "a/number.json", "7");
    write(folder.path(), "a/huge.json", &format!("[{}7]", " ".repeat(8 << 20)));
    write(folder.path(), "a/name.json", &json!({ "name": "x", "server": "../etc" }).to_string());
    write(folder.path(), "a/good.json", &json!({ "name": "x", "server": "fine" }).to_string());
    write(folder.path(), "a/twice.json", &json!({ "name": "x", "server": "fine" }).to_string());
    write(folder.path(), "a/readme.txt", "not looked at");
    let (catalog, warnings) = catalog(folder.path());
    let of = |name: &str| warnings.iter().filter(|warning| warning.contains(name)).count();
    assert_eq!(["broken", "number", "huge", "name.json", "twice"].map(of), [1; 5], "{warnings:?}");
    assert_eq!(warnings.len(), 5);
    assert!(catalog.show("fine", "x", Level::Summary).unwrap().contains("coracle servers add fine"));
    assert_eq!(Registry::read(&folder.path().join("none")), Registry::default());
}

/// A file with many tools, the format of an earlier tool.
#[test]
fn one_file_may_hold_many_definitions() {
    let folder = tempfile::tempdir().unwrap();
    let all = json!({
        "version": "1.0",
        "categories": {
            "security": { "description": "Scanning", "tools": {
                "web_scanner": {
                    "name": "web_scanner", "mcp_server": "web-scanner", "description": "Scans pages",
                    "functions": ["check_headers", "check_tls"], "use_cases": ["audit a page"],
                },
            } },
            "memory": { "tools": [{ "name": "notes", "server": "notes", "functions": ["remember"] }] },
        },
    });
    write(folder.path(), "full_catalog.json", &all.to_string());
    let one = json!({ "name": "web_scanner", "functions": ["check_tls", "check_cookies"], "usage": "like this" });
    write(folder.path(), "security/web_scanner.json", &one.to_string());
    let listed = json!({ "tools": [{ "name": "draw", "description": "Draws" }, 7, { "no": "name" }] });
    write(folder.path(), "media/all.json", &listed.to_string());
    let of_server = json!({ "server": "maps", "tools": [{ "name": "route", "description": "Finds a way" }] });
    write(folder.path(), "travel/maps.json", &of_server.to_string());
    let registry = Registry::read(folder.path());
    assert_eq!(registry.warnings().len(), 2, "{:?}", registry.warnings());
    assert!(registry.warnings().iter().all(|warning| warning.contains("media/all.json")), "{:?}", registry.warnings());
    let mut servers = vec![connected()];
    let words = registry.describe(&mut servers, |_| None);
    let catalog = Catalog::new(servers);
    assert_eq!(words.categories, [("security".to_owned(), "Scanning".to_owned())].into());
    let scanner = words.find("Web-Scanner", Some("Security")).unwrap();
    assert_eq!(scanner.functions, ["check_headers", "check_tls", "check_cookies"]);
    assert_eq!((scanner.server.as_str(), scanner.usage.as_deref()), ("web-scanner", Some("like this")));
    assert!(scanner.connect.as_ref().unwrap().contains("coracle servers add web-scanner"), "{scanner:?}");
    assert_eq!(words.find("check_headers", None), Some(scanner), "by one of its functions");
    assert_eq!(words.find("web_scanner", Some("memory")), None);
    assert_eq!(words.find("git", None), None);
    for (server, tool) in [("web-scanner", "check_cookies"), ("notes", "remember"), ("draw", "draw"), ("maps", "route")]
    {
        assert!(catalog.show(server, tool, Level::Summary).is_some(), "{server}.{tool}");
    }
    let all: Vec<(String, usize)> = catalog.categories().into_iter().map(|one| (one.name, one.tools)).collect();
    for category in [("memory", 1), ("security", 3), ("travel", 1)] {
        assert!(all.contains(&(category.0.to_owned(), category.1)), "{all:?}");
    }
}
