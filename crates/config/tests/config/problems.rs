//! Problems are reported with their location and a suggestion.

use crate::case::Case;
use coracle_types::Decision;
use proptest::prelude::*;

#[test]
fn unknown_keys_are_reported_with_a_suggestion() {
    let case = Case::new().file(
        "\
execution:
  sandbox_typ: native
  memory_mb: 100
  limits: { memory: 100, colour: red }
guardrail: { enabled: true }
mcpservers: {}
mcpServers:
  git: { comand: uvx, arg: [x] }
mcp_servers:
  - { url: 'http://x' }
",
    );
    insta::assert_snapshot!(case.error());
}

#[test]
fn wrong_values_are_reported_together_with_their_lines() {
    let case = Case::new()
        .file(
            "\
execution:
  sandbox_type: dokcer
  allow_network_access: sometimes
  skills_dir: [a]
  limits: { time: 0, memory_mb: 1.5, processes: \"5\", open_files: 3 }
guardrails: on
log: { level: { a: b } }
policy:
  tools: { github: allow, github.x: perhaps, 'a.*': [ask] }
calls: { concurrency: 5000 }
mcpServers:
  a: uvx
  b: { command: [x], args: x, env: { A: [1] }, scope: all, type: grpc, start_timeout: -1 }
  c: { url: 'http://a', serverUrl: 'http://b' }
",
        )
        .dot_env("# x\nCORACLE_CALLS_MAX_RESULT_BYTES=lots\n")
        .env("CORACLE_EXECUTION_REQUIRE_FULL_ISOLATION", "maybe")
        .env("CORACLE_MCP_SERVERS", "{a: [")
        .flag("execution.limits.tmp_mb", "many")
        .flag("execution.limits.tmp", "5");
    insta::assert_snapshot!(case.error());
}

#[test]
fn limits_out_of_range_are_reported_with_their_origin() {
    insta::assert_snapshot!(Case::new().env("CORACLE_EXECUTION_LIMITS_MEMORY_MB", "3").error());
    assert!(Case::new().env("CORACLE_EXECUTION_LIMITS_MEMORY_MB", "32").load().is_ok());
}

#[test]
fn files_that_are_not_settings_are_rejected() {
    let errors: Vec<String> = ["a: [", "a: 1\na: 2", "- a", "text", "a: 1\n---\nb: 2", "a: *b", "\"a", "%YAML 9"]
        .iter()
        .map(|text| format!("== {text}\n{}", Case::new().file(text).error()))
        .collect();
    insta::assert_snapshot!(errors.join("\n"));
    let large = format!("# {}\n", "x".repeat(1 << 20));
    assert_eq!(Case::new().file(&large).load().unwrap_err().code(), "config_unreadable");
    assert!(Case::new().file(&large[large.len() / 2..].replacen('x', "#", 1)).load().is_ok());
    let case = Case::new();
    std::fs::write(case.folder().join("coracle.yaml"), b"a: \xff").unwrap();
    insta::assert_snapshot!(case.error());
    let case = Case::new();
    std::fs::create_dir(case.folder().join("coracle.yaml")).unwrap();
    insta::assert_snapshot!(case.error());
}

#[test]
fn harmless_problems_are_warnings() {
    let case = Case::new()
        .file("mcpServers: { a: { command: x, alwaysAllow: [y], timeout: 5 } }")
        .dot_env("CORACLE_HOME=/x\nthis is nothing\nCORACLE_LOG_LEVL=info\n")
        .env("CORACLE_EXECUTION_SANDBOX_TYP", "native")
        .env("CORACLE_EXECUTION_COLOUR", "red")
        .env("CORACLE_SOMETHING", "else");
    insta::assert_debug_snapshot!(case.warnings());
    case.load().unwrap();
}

#[test]
fn a_protecting_variable_is_never_ignored() {
    let told = |name: &str, value: &str| Case::new().env(name, value).load().unwrap_err().to_string();
    for (name, value) in [
        ("GUARDRAILS_ENABLED", "perhaps"),
        ("GUARDRAILS_STRICT_MODE", "on and off"),
        ("GUARDRAILS_MAX_MEMORY_MB", "lots"),
        ("GUARDRAILS_STRICT", "true"),
        ("guardrails_max_memory_mb", "100"),
        ("CORACLE_GUARDRAILS_STRICTER", "true"),
        ("CORACLE_POLICY_TOLS", "{}"),
    ] {
        assert!(told(name, value).contains(name), "{name}");
    }
    let loaded = Case::new().env("GUARDRAILS_MAX_MEMORY_MB", "100").env("GUARDRAILS_ENABLED", "true").load().unwrap();
    assert_eq!(loaded.settings.guardrails.max_memory_mb, Some(100));
}

#[test]
fn tools_that_an_entry_leaves_out_are_rules() {
    let file = r#"mcpServers: { a: { command: x, excludeTools: [wipe, "w*"], disabledTools: [kept] } }
policy: { tools: { "a.kept": ask } }"#;
    let loaded = Case::new().file(file).load().unwrap();
    let rules: Vec<(&str, Decision)> =
        loaded.settings.policy.tools.iter().map(|(pattern, decision)| (pattern.as_str(), *decision)).collect();
    assert_eq!(rules, [("a.kept", Decision::Ask), (r"a.w\*", Decision::Deny), ("a.wipe", Decision::Deny)]);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let refused = Case::new().file("mcpServers: { a: { command: x, includeTools: [y] } }").load().unwrap_err();
    assert!(refused.to_string().contains("`mcpServers.a.includeTools` has no effect in this version"), "{refused}");
    Case::new().file("mcpServers: { a: { command: x, includeTools: [] } }").load().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// No file causes a panic.
    #[test]
    fn no_file_causes_a_panic(
        words in proptest::collection::vec(
            prop_oneof![
                Just("execution"), Just("limits"), Just("time"), Just("mcpServers"), Just("policy"), Just("tools"), Just(":"), Just(": "),
                Just("\n"), Just("\n  "), Just("\n    "), Just("- "), Just("{"), Just("}"), Just("["), Just("]"), Just(", "), Just("&a "),
                Just("*a"), Just("<<: "), Just("!!int "), Just("|\n"), Just("'"), Just("\""), Just("1e999"), Just(".nan"), Just("0x"),
                Just("# "), Just("é"), Just("\t"), Just("---\n"), Just("${"), Just("~"),
            ],
            0..40,
        ),
        dot_env in "[A-C=\"'\\\\# \n$\\{}x]{0,60}",
    ) {
        let text = words.concat();
        let _ = Case::new().file(&text).dot_env(&dot_env).env("CORACLE_MCP_SERVERS", &text).load();
    }
}
