//! `coracle self`: what is installed, and commands for removing it that really do.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[expect(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#[path = "support/harness.rs"]
mod harness;
#[expect(dead_code, reason = "each test program uses a part of it")]
#[path = "support/place.rs"]
mod place;

use place::Place;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

fn told(place: &Place) -> Value {
    serde_json::from_str(&place.output(&["self", "--json"])).unwrap()
}

#[test]
fn the_help_is_what_it_was() {
    insta::assert_snapshot!("self_help", Place::new().output(&["self", "--help"]));
}

#[test]
fn it_names_version_build_program_and_data() {
    let place = Place::new();
    let file = place.put_below(&place.home(), "coracle.yaml", "execution: {limits: {time: 5}}\n");
    place.put_below(&place.home(), "some/file", &"x".repeat(5_000));
    let told = told(&place);
    let bytes = 5_000 + fs::metadata(&file).unwrap().len();
    assert_eq!(told["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(told["installation"], json!({ "method": "file" }));
    assert_eq!(told["data"], json!([{ "path": place.home(), "exists": true, "bytes": bytes }]));
    assert_eq!(told["settings"], json!([file]));
    assert_eq!(told["clients"], json!([]));

    let text = place.output(&["self"]);
    for part in [
        format!("version   {}\n", env!("CARGO_PKG_VERSION")),
        format!("data      {} (5 kB)\n", place.home().display()),
        format!("settings  {}\n", file.display()),
        "\nTo remove Coracle and its data:\n".to_owned(),
    ] {
        assert!(text.contains(&part), "{part:?} in {text}");
    }
}

#[test]
fn the_commands_remove_everything() {
    let place = Place::new();
    place.output(&["mcp", "--install", "cursor", "--keep-servers", "--yes"]);
    let client = place.user().join(".cursor/mcp.json");
    assert!(client.exists() && place.home().join("clients").exists());
    let told = told(&place);
    assert_eq!(told["clients"], json!(["cursor"]));
    let commands: Vec<&str> = told["remove"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert_eq!(commands[0], "coracle mcp --uninstall cursor");
    // The last one is for the program, which other tests still need. The first would ask, and here is no terminal.
    let program = told["program"].as_str().unwrap();
    assert_eq!(commands.last(), Some(&format!("rm {program}").as_str()));
    place.output(&["mcp", "--uninstall", "cursor", "--yes"]);
    for command in &commands[1..commands.len() - 1] {
        assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
    }
    assert!(!client.exists() && !place.home().exists(), "{commands:?}");
}

#[test]
fn damaged_settings_do_not_keep_anybody_from_removing_it() {
    let place = Place::new();
    place.put_below(&place.home(), "coracle.yaml", "execution: [");
    let said = place.run(&["self"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.starts_with("warning: "), "{said:?}");
    assert!(said.stdout.contains(&format!("rm -rf {}\n", place.home().display())), "{said:?}");
}

#[test]
fn a_client_starts_a_cached_program_by_the_command_that_fetches_it() {
    let place = Place::new();
    let cache = tempfile::tempdir().unwrap();
    let program = cache.path().join("_npx/0123/node_modules/coracle-mcp-linux-x64/bin/coracle");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_coracle"), &program).unwrap();
    let cached = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(place.folder());
        let output = command.env("HOME", place.user()).env("CORACLE_HOME", place.home()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let told: Value = serde_json::from_str(&cached(&["self", "--json"])).unwrap();
    assert_eq!(told["installation"], json!({ "method": "npx" }));
    cached(&["mcp", "--install", "cursor", "--keep-servers", "--yes"]);
    let client = fs::read_to_string(place.user().join(".cursor/mcp.json")).unwrap();
    let client: Value = serde_json::from_str(&client).unwrap();
    let entry = &client["mcpServers"]["coracle"];
    assert_eq!((&entry["command"], &entry["args"]), (&json!("npx"), &json!(["--yes", "coracle-mcp", "mcp"])));
    // It is still known for what it is: a Coracle among its own servers would start itself without end.
    cached(&["servers", "import", "--from", "cursor", "--yes"]);
    assert_eq!(cached(&["servers", "list", "--json"]).trim(), "[]");
}
