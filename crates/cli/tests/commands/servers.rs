//! `coracle servers` in normal use: from adding to removing a real server, and importing from other clients.

use coracle_testing::place::{CANARY, Place, installed, mode};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_help_matches_the_snapshots() {
    let place = Place::new();
    insta::assert_snapshot!("servers_help", place.output(&["servers", "--help"]));
    for command in ["list", "add", "remove", "test", "import", "login", "logout"] {
        insta::assert_snapshot!(format!("servers_{command}_help"), place.output(&["servers", command, "--help"]));
    }
}

#[test]
fn without_servers_there_are_hints() {
    let place = Place::new();
    for arguments in [&["servers", "list"][..], &["servers", "test"]] {
        let said = place.run(arguments);
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{said:?}");
        assert!(said.stderr.contains("`coracle servers add` or `coracle servers import`"), "{said:?}");
    }
    assert_eq!(place.output(&["servers", "list", "--json"]), "[]\n");
    assert_eq!(fs::read_dir(place.home()).unwrap().count(), 0, "listing nothing creates no files");
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

    // Both are started; a broken server does not affect the other.
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
    assert_eq!(fs::read_to_string(&file).unwrap(), SETTINGS, "unchanged, with its comments");
    assert_eq!(place.run(&["servers", "remove", "time"]).code, Some(2));
    place.output(&["servers", "add", "time", "--", &time]);
    let rows = json(&place.output(&["servers", "list", "--json"]));
    assert_eq!(rows[1]["state"], "not_listed", "known tools are removed with the server: {rows}");
}

#[test]
fn invalid_servers_are_refused_and_change_nothing() {
    let place = Place::new();
    let refused: [(&[&str], &str); 10] = [
        (&["a.b", "--", "x"], "server name \"a.b\" is not valid"),
        (&["x"], "--url URL"),
        (&["x", "--url", "https://example.com", "--", "x"], "cannot be used with"),
        (&["x", "--url", "example.com/mcp"], "does not begin with http:// or https://"),
        (&["x", "--url", "https://example.com", "--env", "A=b"], "cannot be used with"),
        (&["x", "--header", "A=b", "--", "x"], "cannot be used with"),
        (&["x", "--url", "https://example.com", "--header", "nothing"], "use NAME=VALUE"),
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
    assert!(said.stderr.contains("only servers with a `url` have sign-ins"), "{said:?}");
}

/// Every run searches the output for the canary.
#[test]
fn credentials_are_stored_in_a_private_file() {
    let place = Place::new();
    let file = place.put("coracle.yaml", "");
    let variables = place.put_below(&place.home(), ".env", "OLD=1\n");
    assert_ne!(mode(&variables), 0o600, "control");
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

/// Copies a folder of client settings from the tests of the config crate. `dot-` stands for a dot.
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
fn servers_of_each_client_are_imported() {
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
        assert!(said.stderr.contains("there is nothing to import"), "{said:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "importing again changes nothing");
    }
}

#[test]
fn nothing_is_imported_without_confirmation() {
    let place = with_clients();
    let said = place.run(&["servers", "import"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stdout.contains("1) ") && said.stdout.contains("skipped: duplicate"), "{said:?}");
    assert!(said.stderr.contains("nothing was changed: cannot prompt"), "{said:?}");
    assert!(said.stderr.contains(".cursor/mcp.json: line 2"), "{said:?}");
    assert_eq!(fs::read_dir(place.home()).unwrap().count(), 0);
    let said = place.run(&["servers", "import", "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let text = fs::read_to_string(place.home().join("coracle.yaml")).unwrap();
    for name in ["filesystem:", "sentry:", "remote:", "perplexity:", "local:"] {
        assert!(text.contains(name), "{name} {text}");
    }
}

#[test]
fn a_single_file_can_be_imported() {
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

/// Server with tool names that are not identifiers, and rules for them.
fn with_rules(place: &Place, rules: &Value) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/bridge/fixtures/plain.py");
    let settings = serde_json::json!({
        "policy": { "tools": rules },
        "mcpServers": { "my-hy": {
            "command": "/usr/bin/python3",
            "args": ["-I", script],
            "env": { "PLAIN_NAMED": "delete-all,Drop.Table,wi\u{200b}pe" },
        } },
    });
    place.put("coracle.yaml", &settings.to_string());
}

#[test]
fn a_rule_matches_both_names_of_a_tool() {
    let place = Place::new();
    let call = |function: &str| {
        let code = format!("from servers.my_hy import {function}; print({function}(text='said'))");
        place.run(&["exec", "-c", &code])
    };
    for pattern in [
        "my_hy.delete_all",
        "my_hy.delete_*",
        "my-hy.delete-all",
        "my-hy.delete_*",
        "MY_HY.Delete_All",
        "my_hy.dele\u{200b}te_all",
    ] {
        with_rules(&place, &serde_json::json!({ pattern: "deny" }));
        let denied = call("delete_all");
        assert!(denied.code == Some(1) && denied.stderr.contains("denied_by_policy"), "{pattern}: {denied:?}");
        let allowed = call("Drop_Table");
        assert_eq!((allowed.code, allowed.stdout.as_str()), (Some(0), "said\n"), "{pattern}: {allowed:?}");
    }
    // The most specific rule wins, in any spelling.
    with_rules(&place, &serde_json::json!({ "my-hy.*": "deny", "my_hy.delete_all": "allow" }));
    assert_eq!(call("delete_all").stdout, "said\n");
    assert_eq!(call("Drop_Table").code, Some(1));
    with_rules(&place, &serde_json::json!({ "my_hy.*": "allow", "my_hy.drop_*": "deny" }));
    assert_eq!(call("Drop_Table").code, Some(1));
    assert_eq!(call("delete_all").stdout, "said\n");
}

#[test]
fn rules_apply_to_the_gateway() {
    use std::io::{BufRead, BufReader, Write};
    let place = Place::new();
    let ask = |tool: &str| {
        let mut command = place.command();
        command.args(["mcp", "--profile", "direct"]).stdin(std::process::Stdio::piped());
        let mut child =
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap();
        let (mut to, mut from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
        for message in [
            serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } }),
            serde_json::json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            serde_json::json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
                "name": tool, "arguments": { "text": "said" } } }),
        ] {
            writeln!(to, "{message}").unwrap();
        }
        let answer = loop {
            let line = json(&from.next().unwrap().unwrap());
            if line["id"] == 2 {
                break line["result"].to_string();
            }
        };
        drop(to);
        child.wait().unwrap();
        answer
    };
    with_rules(&place, &serde_json::json!({ "my_hy.delete_*": "deny" }));
    let denied = ask("delete-all");
    assert!(denied.contains("denied_by_policy") && !denied.contains("\"said\""), "{denied}");
    let allowed = ask("Drop.Table");
    assert!(allowed.contains("\"said\""), "{allowed}");
}

#[test]
fn rules_without_effect_are_reported() {
    let place = Place::new();
    let rules = serde_json::json!({
        "my_hy.delete_all": "ask", "my_hy.delete_al": "deny", "*.erase_*": "deny", "gti.reset": "deny", "my-hy.w*": "deny",
    });
    with_rules(&place, &rules);
    let no_effect = |said: &str| -> Vec<String> {
        let lines = said.lines().filter(|line| line.contains("has no effect"));
        let patterns = lines.map(|line| line.split('"').nth(1).unwrap_or_default().to_owned());
        patterns.collect()
    };
    // Before the server has listed its tools, only unknown servers are reported.
    let said = place.run(&["exec", "-c", "1"]);
    assert_eq!((said.code, no_effect(&said.stderr)), (Some(0), vec!["gti.reset".to_owned()]), "{said:?}");
    let said = place.run(&["servers", "test"]);
    assert_eq!((said.code, no_effect(&said.stdout)), (Some(0), vec!["my_hy.delete_al".to_owned()]), "{said:?}");
    let tested = json(&place.output(&["servers", "test", "my-hy", "--json"]));
    assert_eq!(tested[0]["warnings"].as_array().unwrap().len(), 1, "{tested:#}");
    let all = ["gti.reset", "*.erase_*", "my_hy.delete_al"];
    let said = place.run(&["exec", "-c", "1"]);
    assert_eq!((said.code, no_effect(&said.stderr).len()), (Some(0), 3), "{said:?}");
    assert!(said.stderr.contains("coracle.yaml:1:"), "{said:?}");
    let said = place.run(&["doctor", "--json"]);
    let checks = json(&said.stdout)["policy"].clone();
    let details: Vec<&str> = checks.as_array().unwrap().iter().map(|check| check["detail"].as_str().unwrap()).collect();
    assert!(details.len() == 3 && all.iter().all(|rule| details.iter().any(|it| it.contains(rule))), "{details:?}");
    // Effective rules are not reported.
    with_rules(&place, &serde_json::json!({ "my_hy.delete_all": "ask", "my-hy.w*": "deny" }));
    assert!(!place.run(&["exec", "-c", "1"]).stderr.contains("has no effect"));
    assert!(!place.output(&["servers", "test"]).contains("warning"));
    let checks = json(&place.output(&["doctor", "--json"]))["policy"].clone();
    assert_eq!(
        (checks[0]["outcome"].as_str(), checks[0]["detail"].as_str()),
        (Some("ok"), Some("2 rules")),
        "{checks}"
    );
}

#[test]
fn removing_a_server_removes_its_credentials() {
    let place = Place::new();
    let env = "# mine\nOTHER=kept\nTOKEN=\"canary one\"\nSHARED=canary-two\nURL_KEY=canary-three\n";
    let file = place.put_below(&place.home(), ".env", env);
    let settings = place.put_below(
        &place.home(),
        "coracle.yaml",
        "mcpServers:
  one:
    command: one
    env: { TOKEN: \"${TOKEN}\", BOTH: \"x-${env:SHARED:-y}\", LITERAL: \"$${OTHER}\" }
  two:
    url: https://two.example/mcp?key=${URL_KEY}
    headers: { Authorization: \"Bearer ${SHARED}\" }
",
    );
    let said = place.run(&["servers", "remove", "one"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.contains("TOKEN") && !said.stderr.contains(CANARY), "{said:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "# mine\nOTHER=kept\nSHARED=canary-two\nURL_KEY=canary-three\n");
    assert!(!fs::read_to_string(&settings).unwrap().contains("one"));
    assert_eq!(place.run(&["servers", "remove", "two"]).code, Some(0));
    assert_eq!(fs::read_to_string(&file).unwrap(), "# mine\nOTHER=kept\n");
}
