//! `coracle bench`: the format of the output. Times are never judged by a test.

use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use serde_json::Value;
use std::path::{Path, PathBuf};

const OWN_ROWS: [&str; 5] = ["fresh", "on_demand", "session", "cold", "floor"];

each_user!(a_quick_run_has_all_results);
fn a_quick_run_has_all_results(who: As) {
    let coracle = Coracle::new(who);
    let output = coracle.command().args(["bench", "sandbox", "--quick", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "as {who:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names[..OWN_ROWS.len()], OWN_ROWS, "as {who:?}: {report:#}");
    for row in rows {
        let keys: Vec<&String> = row.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["name", "p50_ms", "p99_ms", "runs"], "{row:#}");
        assert!(
            row["p50_ms"].as_f64().unwrap() > 0.0 && row["p99_ms"].is_f64() && row["runs"].as_u64().unwrap() > 0,
            "{row:#}"
        );
    }
    for at_once in ["2", "8", "32"] {
        assert!(report["per_second"][at_once].as_f64().unwrap() > 0.0, "as {who:?}: {report:#}");
    }
    assert!(report["floor_per_second"]["8"].as_f64().unwrap() > 0.0, "{report:#}");
    let weighed: Vec<&String> = report["pss_mib"].as_object().unwrap().keys().collect();
    assert_eq!(weighed, ["prepared_4", "prepared_8", "session_2", "session_4"], "as {who:?}: {report:#}");
    // Every peer is measured, or skipped with a reason.
    for peer in ["bwrap", "docker_run", "docker_exec", "podman_run", "runsc"] {
        assert!(names.contains(&peer) != report["skipped"][peer].is_string(), "{peer} in {report:#}");
    }
    if let Some(reason) = report["skipped"]["bwrap"].as_str() {
        coracle_testing::skip::skip(&format!("the comparison with bubblewrap: {reason}"));
    }
    let left: Vec<_> =
        std::fs::read_dir(coracle.home().join("run")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".lock"], "as {who:?}");
}

each_user!(a_single_part_can_be_measured);
fn a_single_part_can_be_measured(who: As) {
    let coracle = Coracle::new(who);
    let output = coracle.command().args(["bench", "sandbox", "--quick", "--only", "session,floor"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("session") && text.contains("floor") && !text.contains("bwrap"), "as {who:?}: {text}");
    let unknown = coracle.command().args(["bench", "sandbox", "--only", "nothing"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
}

#[test]
fn a_missing_image_is_named() {
    let coracle = Coracle::new(As::current());
    for by_option in [true, false] {
        let mut command = coracle.command();
        command.args(["bench", "sandbox", "--quick", "--json", "--only", "docker_run,podman_run"]);
        if by_option {
            command.args(["--image", "no-such-image"]);
        } else {
            command.env("CORACLE_BENCH_IMAGE", "no-such-image");
        }
        let output = command.output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        for (name, engine) in [("docker_run", "docker"), ("podman_run", "podman")] {
            let reason = report["skipped"][name].as_str().unwrap();
            let absent = format!("{engine} is not on PATH");
            assert!(reason.contains("the image no-such-image of --image") || reason == absent, "{reason}");
        }
    }
}

each_user!(without_a_sandbox_the_error_says_so);
fn without_a_sandbox_the_error_says_so(who: As) {
    let coracle = Coracle::new(who);
    let output =
        coracle.command().env("CORACLE_PYTHON", "/nonexistent").args(["bench", "sandbox", "--quick"]).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(125) && words.contains("/nonexistent"), "as {who:?}: {output:?}");
}

const CALLS_WITHOUT_SERVERS: [&str; 10] = [
    "host",
    "in_process",
    "in_process_32",
    "in_process_typescript",
    "decision_200",
    "decision_cedar_200",
    "print_customers",
    "print_model_customers",
    "print_log",
    "print_model_log",
];
const CALLS_OF_SERVERS: [&str; 25] = [
    "stdio",
    "stdio_typescript",
    "direct",
    "stdio_32",
    "stdio_typescript_32",
    "direct_32",
    "nap",
    "nap_32",
    "nap_typescript_32",
    "mcp_stdio",
    "plain_stdio",
    "mcp_http",
    "plain_http",
    "mcp_stdio_hasty",
    "plain_stdio_hasty",
    "mcp_http_hasty",
    "plain_http_hasty",
    "session_http",
    "session_http_hasty",
    "mcp_first",
    "mcp_first_50",
    "off_customers",
    "strict_customers",
    "off_log",
    "strict_log",
];

each_user!(a_server_with_many_users_is_measured);
fn a_server_with_many_users_is_measured(who: As) {
    let coracle = Coracle::new(who);
    let words = ["bench", "server", "--users", "6", "--at-once", "3", "--seconds", "2", "--json"];
    let output = coracle.command().args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "as {who:?}: {output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = &report["rows"][0];
    assert_eq!((&row["name"], &row["failed"]), (&"coracle".into(), &0.into()), "{report:#}");
    assert!(row["executions"].as_u64().unwrap() > 6 && row["p99_ms"].as_f64().unwrap() > 0.0, "{report:#}");
    assert_eq!((&report["live_sessions"], &report["errors"]), (&6.into(), &serde_json::json!([])), "{report:#}");
    assert!(report["memory_mib"].as_array().unwrap().iter().all(|mib| mib.as_f64().unwrap() > 1.0), "{report:#}");
}

/// Folder of the test servers that `cargo xtask needs` installs.
fn servers() -> PathBuf {
    let folder = match std::env::var_os("CORACLE_TEST_SERVERS") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("test-servers"),
    };
    assert!(folder.join("venv/bin/python").exists(), "run `cargo xtask needs` to install the servers");
    folder
}

fn calls_of_tools(coracle: &Coracle, servers: &Path) -> Value {
    let output =
        coracle.command().args(["bench", "tools", "--quick", "--json", "--servers"]).arg(servers).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "as {:?}: {output:?}", coracle.who);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn names(report: &Value) -> Vec<&str> {
    report["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect()
}

/// As one user, because it is slow. What differs between users is in the rows without servers.
#[test]
fn tool_calls_are_measured_in_every_way() {
    let coracle = Coracle::new(As::current());
    let report = calls_of_tools(&coracle, &servers());
    let expected = [&CALLS_WITHOUT_SERVERS[..6], &CALLS_OF_SERVERS, &CALLS_WITHOUT_SERVERS[6..]].concat();
    assert_eq!(names(&report), expected, "{report:#}");
    for figure in ["strict_customers", "strict_log", "print_model_customers", "print_model_log"] {
        assert!(report["figures"]["private_of_off"][figure].as_f64().unwrap() > 0.1, "{report:#}");
    }
    assert_eq!(report["skipped"], serde_json::json!({}));
    for row in report["rows"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        let calls = if name.starts_with("mcp_first") { 2 } else { 10 };
        assert!(row["per_call_us"].as_f64().unwrap() > 0.0 && row["calls"] == calls, "{row:#}");
        let has_clock = !name.contains("typescript");
        assert_eq!((row["p50_us"].is_f64(), row["p99_us"].is_f64()), (has_clock, has_clock), "{row:#}");
    }
    let figures = &report["figures"];
    assert!(figures["round_trip_us"].is_f64() && figures["in_broker_us"].is_f64(), "{figures:#}");
    assert!(figures["of_direct"]["stdio_32"].is_f64() && figures["at_once_faster"].is_f64(), "{figures:#}");
    assert!(figures["over_stdio_ms"].is_f64() && figures["over_http_ms"].is_f64(), "{figures:#}");
    assert!(figures["session_of_fresh"].is_f64() && figures["first_with_servers_ms"].is_f64(), "{figures:#}");
    let left: Vec<_> =
        std::fs::read_dir(coracle.home().join("run")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".lock"]);
}

each_user!(without_servers_their_rows_are_skipped_with_a_reason);
fn without_servers_their_rows_are_skipped_with_a_reason(who: As) {
    let coracle = Coracle::new(who);
    let report = calls_of_tools(&coracle, &coracle.workspace());
    assert_eq!(names(&report), CALLS_WITHOUT_SERVERS, "as {who:?}: {report:#}");
    for row in CALLS_OF_SERVERS {
        assert!(report["skipped"][row].as_str().unwrap().contains("venv/bin/python"), "{row}: {report:#}");
    }
    let output = coracle.command().args(["bench", "tools", "--quick", "--servers", "/nowhere"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("in_process_32") && text.contains("skipped nap_32: there is no /nowhere"), "{text}");
}

#[test]
fn sets_with_known_answers_are_searched() {
    let coracle = Coracle::new(As::current());
    let set = coracle.workspace().join("small");
    std::fs::create_dir(&set).unwrap();
    let tools = [
        r#"{"id": "a/send", "server": "A (mail)", "name": "sendMail", "description": "Sends a letter", "input_schema": {}}"#,
        r#"{"id": "b/send", "server": "A (mail)", "name": "sendMail", "description": "Reads the weather", "input_schema": null}"#,
        r#"{"id": "c", "name": "git_log", "description": "Shows commits"}"#,
    ];
    let queries = [
        r#"{"id": 1, "query": "mail a letter", "relevant": ["a/send"]}"#,
        r#"{"id": "two", "query": "temperature outside", "relevant": ["b/send"]}"#,
        r#"{"id": 3, "query": "commits", "relevant": ["c", "not there"]}"#,
    ];
    std::fs::write(set.join("tools.jsonl"), tools.join("\n")).unwrap();
    std::fs::write(set.join("queries.jsonl"), queries.join("\n")).unwrap();
    let search = |arguments: &[&str]| coracle.command().args(["bench", "search"]).args(arguments).output().unwrap();
    let (folder, rankings) = (set.display().to_string(), set.join("rankings").display().to_string());
    let output = search(&["--set", &folder, "--rankings", &rankings]);
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap();
    assert_eq!(last, "recall@1 0.833  recall@5 0.833  recall@10 0.833  MRR 1.000  (3 queries, 3 tools)", "{text}");
    let first = std::fs::read_to_string(&rankings).unwrap().lines().next().unwrap().to_owned();
    assert!(first.starts_with(r#"{"id":1,"ranking":["a/send""#), "{first}");

    let made = search(&["--quick", "--json"]);
    let report: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!((&report["rows"][0]["tools"], &report["rows"][0]["mrr"]), (&1000.into(), &1.0.into()), "{report:#}");

    let nothing = search(&["--set", "/nowhere"]);
    let said = String::from_utf8_lossy(&nothing.stderr).into_owned();
    assert!(!nothing.status.success() && said.contains("read /nowhere/queries.jsonl"), "{said}");
    std::fs::write(set.join("tools.jsonl"), "{\"id\": 5}").unwrap();
    let said = String::from_utf8_lossy(&search(&["--set", &folder]).stderr).into_owned();
    assert!(said.contains("tools.jsonl, line 1"), "{said}");
}

#[test]
fn the_help_lists_what_can_be_measured() {
    let coracle = Coracle::new(As::current());
    let help = |arguments: &[&str]| {
        String::from_utf8(coracle.command().args(arguments).arg("--help").output().unwrap().stdout).unwrap()
    };
    let parts = [help(&["bench"]), help(&["bench", "tools"]), help(&["bench", "search"]), help(&["bench", "tokens"])];
    insta::assert_snapshot!("help", parts.join("\n"));
}
