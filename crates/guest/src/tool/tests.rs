use super::arguments::{Asked, parse};
use super::catalogue::{Catalogue, Server};
use super::{ToolError, help, run, search, unpacked};
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

fn server() -> Server {
    serde_json::from_value(json!({
        "server": "github",
        "tools": [
            {
                "module": "list_issues", "name": "list-issues", "summary": "Lists issues.",
                "description": "Lists issues.\n\nNewest first.",
                "input_schema": {
                    "type": "object",
                    "required": ["owner"],
                    "properties": {
                        "owner": { "type": "string", "description": "Who has it." },
                        "limit": { "type": "integer", "default": 10 },
                        "labels": { "type": "array", "items": { "type": "string" } },
                        "numbers": { "type": "array", "items": { "type": "number" } },
                        "dryRun": { "type": "boolean" },
                        "state": { "enum": ["open", "closed"] },
                        "filter": { "$ref": "#/$defs/filter" },
                        "since": { "type": ["string", "null"] },
                        "id": { "anyOf": [{ "type": "integer" }, { "type": "string" }] },
                        "anything": {}
                    },
                    "$defs": { "filter": { "type": "object" } }
                }
            },
            { "name": "ping" }
        ]
    }))
    .unwrap()
}

fn call(words: &[&str]) -> Result<Value, String> {
    let server = server();
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    match parse(&server, server.tool("list_issues").unwrap(), &words) {
        Ok(Asked::Call(arguments)) => Ok(arguments.into()),
        Ok(Asked::Help) => Err("help".to_owned()),
        Err(ToolError::Usage { message, hint }) => Err(format!("{message} | {}", hint.unwrap_or_default())),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn flags_are_converted_according_to_the_schema() {
    let cases: [(&[&str], Value); 14] = [
        (&["--owner", "5"], json!({"owner": "5"})),
        (&["--owner=a=b"], json!({"owner": "a=b"})),
        (&["--owner", "x", "--limit", "3"], json!({"owner": "x", "limit": 3})),
        (&["--owner", "x", "--labels", "a", "--labels", "b"], json!({"owner": "x", "labels": ["a", "b"]})),
        (&["--owner", "x", "--labels", "[\"a\"]"], json!({"owner": "x", "labels": ["a"]})),
        (&["--owner", "x", "--labels", "7"], json!({"owner": "x", "labels": ["7"]})),
        (&["--owner", "x", "--numbers", "1.5", "--numbers", "2"], json!({"owner": "x", "numbers": [1.5, 2]})),
        (&["--owner", "x", "--dry-run"], json!({"owner": "x", "dryRun": true})),
        (&["--dry_run", "--owner", "x"], json!({"owner": "x", "dryRun": true})),
        (&["--no-dry-run", "--owner", "x"], json!({"owner": "x", "dryRun": false})),
        (&["--dryRun", "false", "--owner", "x"], json!({"owner": "x", "dryRun": false})),
        (
            &["--owner", "x", "--filter", "{\"a\": 1}", "--since", "null"],
            json!({"owner": "x", "filter": {"a": 1}, "since": null}),
        ),
        (&["--json", "{\"owner\": \"y\", \"limit\": 1}", "--limit", "2"], json!({"owner": "y", "limit": 2})),
        (
            &["--owner", "x", "--id", "7", "--anything", "{\"a\":1}", "--state", "open"],
            json!({"owner": "x", "id": 7, "anything": {"a": 1}, "state": "open"}),
        ),
    ];
    for (words, expected) in cases {
        assert_eq!(call(words), Ok(expected), "{words:?}");
    }
}

#[test]
fn errors_are_reported_before_anything_is_called() {
    let cases: [(&[&str], &str); 8] = [
        (&[], "github.list-issues: missing: --owner | `tool github list-issues --help` shows the parameters"),
        (&["--ownr", "x"], "github.list-issues: there is no parameter --ownr | did you mean --owner?"),
        (&["--owner"], "github.list-issues: --owner needs a value | it takes: string"),
        (&["x"], "github.list-issues: unexpected argument \"x\" | arguments have names: --NAME VALUE"),
        (
            &["--limit", "many"],
            "github.list-issues: --limit takes integer, not \"many\" | `tool github list-issues --help` shows the parameters",
        ),
        (
            &["--limit", "1.5"],
            "github.list-issues: --limit takes integer, not \"1.5\" | `tool github list-issues --help` shows the parameters",
        ),
        (
            &["--json", "[1]"],
            "github.list-issues: the arguments must be a JSON object | `tool github list-issues --help` shows the parameters",
        ),
        (&["--owner", "x", "--help"], "help"),
    ];
    for (words, expected) in cases {
        assert_eq!(call(words), Err(expected.to_owned()), "{words:?}");
    }
}

#[test]
fn help_lists_servers_and_tools() {
    let server = server();
    insta::assert_snapshot!("usage", help::USAGE);
    insta::assert_snapshot!("tools", help::tools(&server));
    insta::assert_snapshot!("tool", help::tool(&server, server.tool("list-issues").unwrap()));
    assert_eq!(help::tool(&server, server.tool("ping").unwrap()), "tool github ping\n\nIt takes no arguments.\n");
}

#[test]
fn servers_are_found_only_by_name() {
    let folder = TempDir::new().unwrap();
    let catalogue = Catalogue::at(&folder.path().join("servers"));
    assert_eq!(run(&[], &catalogue).unwrap(), "no server is configured\n");
    fs::create_dir_all(folder.path().join("servers/github")).unwrap();
    fs::write(folder.path().join("servers/github/tools.json"), r#"{"server": "github", "tools": []}"#).unwrap();
    fs::create_dir(folder.path().join("outside")).unwrap();
    fs::write(folder.path().join("outside/tools.json"), r#"{"server": "outside", "tools": []}"#).unwrap();
    let catalogue_says = |word: &str| run(&[word.to_owned()], &catalogue).map_err(|error| error.to_string());
    assert_eq!(catalogue_says("github").unwrap(), "github has no tools\n");
    assert_eq!(catalogue_says("githup").unwrap_err(), "there is no server \"githup\"");
    assert_eq!(catalogue_says("../outside").unwrap_err(), "there is no server \"../outside\"");
    assert_eq!(run(&[], &catalogue).unwrap(), "github\n");
}

#[test]
fn a_value_without_media_is_unchanged() {
    assert_eq!(unpacked(json!({"value": {"$media": 0}, "media": []})).unwrap(), json!({"$media": 0}));
    assert_eq!(unpacked(json!({"value": [1, {"$media": 7}]})).unwrap(), json!([1, {"$media": 7}]));
    assert_eq!(unpacked(json!({"value": "text"})).unwrap(), json!("text"));
}

#[test]
fn a_search_takes_words_and_a_few_flags() {
    let parsed = |words: &str| {
        let words: Vec<String> = words.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        match search::parse(&words) {
            Ok(Some(params)) => Ok(params.into()),
            Ok(None) => Err("help".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    };
    let cases = [
        ("send a message", Ok(json!({"query": "send a message"}))),
        (
            "send --limit 3 a --server=chat message --category Communication",
            Ok(json!({"query": "send a message", "limit": 3, "server": "chat", "category": "Communication"})),
        ),
        ("", Ok(json!({"query": ""}))),
        ("x --limit many", Err("search: --limit takes a number, not \"many\"".to_owned())),
        ("x --server", Err("search: --server needs a value".to_owned())),
        ("x --colour red", Err("search: there is no --colour".to_owned())),
        ("x --help", Err("help".to_owned())),
    ];
    for (words, expected) in cases {
        assert_eq!(parsed(words), expected, "{words}");
    }
    let found = json!([
        {"name": "chat.send", "summary": "Sends a\nmessage.", "also": ["mail.send"]},
        {"name": "fax.send", "summary": "Sends a fax.", "connect": "add it"},
    ]);
    let expected = "chat.send: Sends a message. (also mail.send)\nfax.send: Sends a fax. (not connected: add it)\n";
    assert_eq!(search::lines(&found), expected);
    assert_eq!(search::lines(&json!([])), "no matching tools\n");
}

#[test]
fn a_server_may_be_named_search() {
    let folder = TempDir::new().unwrap();
    let catalogue = Catalogue::at(folder.path());
    let says = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        run(&words, &catalogue).unwrap_or_else(|error| error.to_string())
    };
    assert_eq!(says(&["search", "--help"]), help::USAGE);
    fs::create_dir(folder.path().join("search")).unwrap();
    fs::write(folder.path().join("search/tools.json"), r#"{"server": "search", "tools": []}"#).unwrap();
    assert_eq!(says(&["search", "--help"]), "search has no tools\n");
    assert_eq!(says(&["--search", "--help"]), help::USAGE);
}
