//! `coracle config`, and how commands report settings: their origins, their errors, and never a credential.

use coracle_testing::place::Place;
use serde_json::{Value, json};
use std::fs;

#[test]
fn the_help_matches_the_snapshots() {
    let place = Place::new();
    for (name, arguments) in [
        ("help", &["--help"][..]),
        ("config_help", &["config", "--help"]),
        ("config_show_help", &["config", "show", "--help"]),
    ] {
        insta::assert_snapshot!(name, place.output(arguments));
    }
}

#[test]
fn without_a_file_there_are_defaults_and_nothing_is_created() {
    let place = Place::new();
    let shown = place.output(&["config", "show", "--origin"]);
    assert!(shown.contains("execution.limits.time: 30.0  # default\n"), "{shown}");
    let is_default = |line: &str| {
        let line = line.strip_suffix("; no effect in this version").unwrap_or(line);
        line.ends_with("  # default")
    };
    assert!(shown.lines().all(is_default), "{shown}");
    let said = place.run(&["config", "path"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""));
    assert!(said.stderr.contains("there is no settings file"), "{said:?}");
    assert_eq!(fs::read_dir(place.home()).unwrap().count(), 0);
}

#[test]
fn precedence_is_visible() {
    let mut place = Place::new();
    let time = |place: &Place| {
        let shown = place.output(&["config", "show", "--origin"]);
        let line = shown.lines().find(|line| line.starts_with("execution.limits.time:")).unwrap().to_owned();
        place.redacted(&line)
    };
    place.put_below(&place.home(), "coracle.yaml", "execution:\n  limits:\n    time: 5\n");
    assert_eq!(time(&place), "execution.limits.time: 5.0  # ROOT/home/coracle.yaml:3:5");
    place.put("coracle.yaml", "execution: {limits: {time: 10}}\n");
    assert_eq!(time(&place), "execution.limits.time: 10.0  # ROOT/workspace/coracle.yaml:1:22");
    place.put_below(&place.home(), ".env", "CORACLE_EXECUTION_LIMITS_TIME=20\n");
    let line = "execution.limits.time: 20.0  # ROOT/home/.env:1 (CORACLE_EXECUTION_LIMITS_TIME)";
    assert_eq!(time(&place), line);
    place.put(".env", "# mine\nCORACLE_EXECUTION_LIMITS_TIME=25\n");
    let line = "execution.limits.time: 25.0  # ROOT/workspace/.env:2 (CORACLE_EXECUTION_LIMITS_TIME)";
    assert_eq!(time(&place), line);
    place.set("CORACLE_EXECUTION_LIMITS_TIME", "28");
    let line = "execution.limits.time: 28.0  # environment variable CORACLE_EXECUTION_LIMITS_TIME";
    assert_eq!(time(&place), line);
    let all: Value = serde_json::from_str(&place.output(&["config", "show", "--origin", "--json"])).unwrap();
    let origin = "environment variable CORACLE_EXECUTION_LIMITS_TIME";
    assert_eq!(all["execution.limits.time"], json!({ "value": 28.0, "origin": origin }));
    let all: Value = serde_json::from_str(&place.output(&["config", "show", "--json"])).unwrap();
    assert_eq!(all["execution.limits.time"], 28.0);
}

#[test]
fn the_path_is_printed_with_how_it_was_found() {
    let mut place = Place::new();
    let path = |place: &Place, arguments: &[&str]| {
        let said = place.run(arguments);
        assert_eq!(said.code, Some(0), "{said:?}");
        place.redacted(&(said.stderr + &said.stdout))
    };
    place.put_below(&place.home(), "coracle.yaml", "");
    assert_eq!(path(&place, &["config", "path"]), "found in the data folder:\nROOT/home/coracle.yaml\n");
    place.put("coracle.yaml", "");
    assert_eq!(path(&place, &["config", "path"]), "found in the current folder:\nROOT/workspace/coracle.yaml\n");
    place.put("other.yaml", "");
    place.set("CORACLE_CONFIG", "other.yaml");
    assert_eq!(path(&place, &["config", "path"]), "named by CORACLE_CONFIG:\nROOT/workspace/other.yaml\n");
    place.put("third.yaml", "");
    let said = path(&place, &["config", "path", "--config", "third.yaml"]);
    assert_eq!(said, "named by --config:\nROOT/workspace/third.yaml\n");
}

#[test]
fn errors_in_the_file_end_every_command_with_their_position() {
    let place = Place::new();
    place.put("coracle.yaml", "execution:\n  limts:\n    time: 5\n");
    for arguments in [
        &["exec", "-c", "print(1)"][..],
        &["config", "show"],
        &["servers", "list"],
        &["servers", "add", "x", "--", "x"],
        &["tools", "list"],
    ] {
        let said = place.run(arguments);
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{said:?}");
        let error = "error: ROOT/workspace/coracle.yaml:2:3: `execution.limts` is not a known key\n  \
                     hint: did you mean `limits`?\n";
        assert_eq!(place.redacted(&said.stderr), error, "{arguments:?}");
    }
    place.put("coracle.yaml", "execution:\n  limits:\n    time: 5\n");
    assert_eq!(place.output(&["exec", "-c", "print(1)"]), "1\n");
    for (text, error) in [
        ("a: [", "error: ROOT/workspace/coracle.yaml:1:"),
        ("execution: {limits: {time: soon}}", "must be a number of seconds"),
    ] {
        place.put("coracle.yaml", text);
        let said = place.run(&["exec", "-c", "print(1)"]);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(place.redacted(&said.stderr).contains(error), "{said:?}");
    }
    let said = place.run(&["config", "show", "--config", "missing.yaml"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("there is no such file\nhint: "), "{said:?}");
}

/// Credentials in every possible place, and a server that cannot be used.
const CREDENTIALS: &str = r#"
agent: {azure_openai: {api_key: canary1}, providers: {openai: {api_key: canary1}}}
mcpServers:
  program: {command: "true", args: ["--api-key", canary2, "--token=canary3"], env: {TOKEN: canary4, PLAIN: canary5}}
  address: {url: "https://u:canary6@example.com/mcp?key=canary7", headers: {Authorization: Bearer canary8}}
  unset: {command: "true", env: {TOKEN: "${NOT_SET_ANYWHERE}"}}
"#;

/// Every run searches the output for the canary.
#[test]
fn credentials_are_never_printed() {
    let mut place = Place::new();
    place.put("coracle.yaml", CREDENTIALS);
    place.put(".env", "MSB_API_KEY=canary9\n");
    place.set("CORACLE_LOG", "trace");
    for arguments in [
        &["config", "show"][..],
        &["config", "show", "--origin", "--json"],
        &["servers", "list"],
        &["servers", "list", "--json"],
    ] {
        let shown = place.output(arguments);
        assert!(shown.contains("example.com/mcp") && shown.contains("********"), "{shown}");
    }
    let said = place.run(&["config", "show"]);
    let warning = "warning: ROOT/workspace/coracle.yaml:6:3: server \"unset\" cannot be used: `env.TOKEN` needs the \
                   variable NOT_SET_ANYWHERE, which is not set\n  hint: set NOT_SET_ANYWHERE in the environment";
    assert!(place.redacted(&said.stderr).contains(warning), "{said:?}");
}

#[test]
fn the_schema_matches_the_checked_in_one() {
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/coracle.schema.json");
    assert_eq!(Place::new().output(&["config", "schema"]), fs::read_to_string(schema).unwrap());
}

#[test]
fn servers_of_the_current_folder_are_announced_once() {
    let place = Place::new();
    place.put("coracle.yaml", "mcpServers: {x: {command: /does/not/exist}, y: {url: 'http://127.0.0.1:9/mcp'}}\n");
    let line = "coracle: using the servers of ROOT/workspace/coracle.yaml\n";
    let said = place.run(&["exec", "-c", "print(1)"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "1\n"), "{said:?}");
    assert_eq!(place.redacted(&said.stderr), line);
    let said = place.run(&["servers", "test"]);
    assert_eq!(place.redacted(&said.stderr), line);
    for quiet in
        [&["--config", "coracle.yaml", "exec", "-c", "print(1)"][..], &["servers", "list"], &["config", "show"]]
    {
        let said = place.run(quiet);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
    }
}
