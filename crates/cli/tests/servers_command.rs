//! `coracle servers` as a person uses it: from the first server to its removal, with a real one, and what other clients
//! have.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[expect(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#[path = "support/harness.rs"]
mod harness;
#[expect(dead_code, reason = "each test program uses a part of it")]
#[path = "support/place.rs"]
mod place;

use place::{CANARY, Place, installed, mode};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_help_is_what_it_was() {
    let place = Place::new();
    insta::assert_snapshot!("servers_help", place.output(&["servers", "--help"]));
    for command in ["list", "add", "remove", "test", "import", "login", "logout"] {
        insta::assert_snapshot!(format!("servers_{command}_help"), place.output(&["servers", command, "--help"]));
    }
}

#[test]
fn without_servers_there_is_a_way_to_some() {
    let place = Place::new();
    for arguments in [&["servers", "list"][..], &["servers", "test"]] {
        let said = place.run(arguments);
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{said:?}");
        assert!(said.stderr.contains("`coracle servers add` or `coracle servers import`"), "{said:?}");
    }
    assert_eq!(place.output(&["servers", "list", "--json"]), "[]\n");
    assert_eq!(fs::read_dir(place.home()).unwrap().count(), 0, "nothing is made to say that there is nothing");
}

const SETTINGS: &str = "\
# what I like
execution:
  limits: {time: 20} # seconds

mcpServers:
  # mine
  broken: # it never worked
    command: /does/not/exist
";

#[test]
fn a_server_is_added_tested_listed_and_removed() {
    let place = Place::new();
    let file = place.put("coracle.yaml", SETTINGS);
    let time = installed("venv/bin/mcp-server-time");
    let said = place.run(&["servers", "add", "time", "--description", "what time it is", "--", &time]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.contains("try it with `coracle servers test time`"), "{said:?}");
    let listed = place.output(&["servers", "list"]);
    assert!(
        listed.lines().any(|line| line.starts_with("time ") && line.ends_with("user  tools not listed yet")),
        "{listed}"
    );

    // One start for both: a broken one does not hinder the other.
    let said = place.run(&["servers", "test"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert!(lines[0].starts_with("✗ broken: failed after ") && lines[0].contains("/does/not/exist"), "{said:?}");
    let good = lines.iter().find(|line| line.starts_with("✓ time: 2 tools after ")).unwrap();
    assert!(good.contains(" s, protocol 20") && good.contains(", mcp-time "), "{good}");

    let rows = json(&place.output(&["servers", "list", "--json"]));
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "time").unwrap();
    assert_eq!((&row["state"], &row["tools"], &row["scope"]), (&"listed".into(), &2.into(), &"user".into()));
    assert!(place.output(&["servers", "list"]).contains("2 tools, listed just now"));

    let said = place.run(&["servers", "remove", "time"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), SETTINGS, "as it was, with its comments");
    assert_eq!(place.run(&["servers", "remove", "time"]).code, Some(2));
    place.output(&["servers", "add", "time", "--", &time]);
    let rows = json(&place.output(&["servers", "list", "--json"]));
    assert_eq!(rows[1]["state"], "not_listed", "what was known of it went with it: {rows}");
}

#[test]
fn what_makes_no_server_is_refused_and_changes_nothing() {
    let place = Place::new();
    let refused: [(&[&str], &str); 10] = [
        (&["a.b", "--", "x"], "server name \"a.b\" is not valid"),
        (&["x"], "--url <URL>"),
        (&["x", "--url", "https://example.com", "--", "x"], "cannot be used with"),
        (&["x", "--url", "example.com/mcp"], "does not begin with http:// or https://"),
        (&["x", "--url", "https://example.com", "--env", "A=b"], "cannot be used with"),
        (&["x", "--header", "A=b", "--", "x"], "cannot be used with"),
        (&["x", "--url", "https://example.com", "--header", "nothing"], "write NAME=VALUE"),
        (&["x", "--url", "https://example.com", "--header", "A b=c"], "cannot be sent"),
        (&["x", "--scope", "all", "--", "x"], "invalid value 'all'"),
        (&["x", "--", ""], "neither `command` nor `url`"),
    ];
    for (arguments, because) in refused {
        let said = place.run(&[&["servers", "add"], arguments].concat());
        assert_eq!(said.code, Some(2), "{arguments:?}: {said:?}");
        assert!(said.stderr.contains(because), "{arguments:?}: {said:?}");
    }
    assert_eq!(fs::read_dir(place.home()).unwrap().count(), 0);

    place.output(&["servers", "add", "x", "--scope", "shared", "--", "true", "--flag"]);
    let said = place.run(&["servers", "add", "x", "--", "false"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("there is already a server x") && said.stderr.contains("--replace"), "{said:?}");
    let text = fs::read_to_string(place.home().join("coracle.yaml")).unwrap();
    assert!(text.contains("shared") && text.contains("--flag"), "{text}");
    place.output(&["servers", "add", "x", "--replace", "--", "false"]);
    let text = fs::read_to_string(place.home().join("coracle.yaml")).unwrap();
    assert!(text.contains("false") && !text.contains("shared"), "{text}");

    for arguments in [&["servers", "test", "y"][..], &["servers", "login", "y"], &["servers", "logout", "y"]] {
        let said = place.run(arguments);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains("there is no server \"y\"\nhint: there are: x"), "{said:?}");
    }
    let said = place.run(&["servers", "login", "x"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stderr.contains("only servers on the web have sign-ins"), "{said:?}");
}

/// Every run looks for the canary in what was said.
#[test]
fn credentials_that_are_typed_go_into_a_private_file() {
    let place = Place::new();
    let file = place.put("coracle.yaml", "");
    let variables = place.put_below(&place.home(), ".env", "OLD=1\n");
    assert_ne!(mode(&variables), 0o600, "a control");
    place.output(&["servers", "add", "a", "--env", "A_TOKEN=canary1", "--env", "LEVEL=3", "--", "x", "--key=canary2"]);
    let header = "Authorization: Bearer canary3";
    place.output(&["servers", "add", "b", "--url", "https://example.com/mcp", "--header", header]);
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains(CANARY) && text.contains("${A_TOKEN}") && text.contains("Bearer ${"), "{text}");
    assert!(text.contains("LEVEL"), "{text}");
    let kept = fs::read_to_string(&variables).unwrap();
    assert!(
        kept.starts_with("OLD=1\n") && ["canary1", "canary2", "canary3"].iter().all(|value| kept.contains(value)),
        "{kept}"
    );
    assert_eq!(mode(&variables), 0o600);
    let rows = json(&place.output(&["servers", "list", "--json"]));
    assert_eq!(
        (&rows[0]["state"], &rows[1]["state"]),
        (&"not_listed".into(), &"not_listed".into()),
        "they can be used"
    );
    let said = place.run(&["servers", "add", "c", "--env", "T=${NOT_SET_ANYWHERE}", "--", "x"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.contains("NOT_SET_ANYWHERE, which is not set\n  hint: "), "{said:?}");
}

/// A folder of other clients, as the tests of the settings have it. `dot-` stands for a dot.
fn copy(place: &Place, from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let target = to.join(name.strip_prefix("dot-").map_or(name.clone(), |rest| format!(".{rest}")));
        if entry.file_type().unwrap().is_dir() {
            copy(place, &entry.path(), &target);
        } else {
            place.put_below(
                to,
                target.file_name().unwrap().to_str().unwrap(),
                &fs::read_to_string(entry.path()).unwrap(),
            );
        }
    }
}

fn with_clients() -> Place {
    let place = Place::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/tests/config/fixtures/linux");
    copy(&place, &fixtures.join("home"), &place.user());
    copy(&place, &fixtures.join("project"), &place.folder());
    place
}

#[test]
fn each_client_is_taken_over() {
    for client in ["claude-desktop", "claude-code", "cursor", "vscode"] {
        let place = with_clients();
        let said = place.run(&["servers", "import", "--from", client, "--yes"]);
        assert_eq!(said.code, Some(0), "{said:?}");
        let file = place.home().join("coracle.yaml");
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains(CANARY), "{text}");
        insta::assert_snapshot!(format!("import_{client}"), place.redacted(&format!("{}---\n{text}", said.stdout)));
        assert_eq!(mode(&file), 0o600);
        let variables = place.home().join(".env");
        if client == "vscode" {
            assert!(!variables.exists(), "VS Code asks for its credentials");
        } else {
            assert!(fs::read_to_string(&variables).unwrap().contains(CANARY));
            assert_eq!(mode(&variables), 0o600);
        }
        let rows = json(&place.output(&["servers", "list", "--json"]));
        assert!(rows.as_array().unwrap().len() >= 2, "{rows}");

        let said = place.run(&["servers", "import", "--from", client, "--yes"]);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.stderr.contains("there is nothing to take over"), "{said:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "the second time changes nothing");
    }
}

#[test]
fn nothing_is_taken_over_without_a_yes() {
    let place = with_clients();
    let said = place.run(&["servers", "import"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stdout.contains("1) ") && said.stdout.contains("skipped: it is there a second time"), "{said:?}");
    assert!(said.stderr.contains("nothing was changed: there is no terminal to ask at"), "{said:?}");
    assert!(said.stderr.contains(".cursor/mcp.json is not read: line 2"), "{said:?}");
    assert_eq!(fs::read_dir(place.home()).unwrap().count(), 0);
    let said = place.run(&["servers", "import", "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let text = fs::read_to_string(place.home().join("coracle.yaml")).unwrap();
    for name in ["filesystem:", "sentry:", "remote:", "perplexity:", "local:"] {
        assert!(text.contains(name), "{name} {text}");
    }
}

#[test]
fn one_file_can_be_named() {
    let place = Place::new();
    place.put(
        "theirs.json",
        r#"{"servers": {"one": {"command": "x"}, "odd name": {"url": "https://example.com/mcp"}}}"#,
    );
    let said = place.run(&["servers", "import", "--from", "theirs.json", "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let rows = json(&place.output(&["servers", "list", "--json"]));
    let names: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["odd-name", "one"]);
    let said = place.run(&["servers", "import", "--from", "missing.json", "--yes"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("there is no such file"), "{said:?}");
    let said = place.run(&["servers", "import"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{said:?}");
    assert!(said.stderr.contains("no servers of other clients were found"), "{said:?}");
}
