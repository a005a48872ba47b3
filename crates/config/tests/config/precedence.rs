//! Precedence of sources, and the reported origins.

use crate::case::Case;
use coracle_config::{Origin, SandboxType, Way};
use proptest::prelude::*;
use std::path::PathBuf;

const KEY: &str = "execution.limits.processes";
const VARIABLE: &str = "CORACLE_EXECUTION_LIMITS_PROCESSES";

/// The sources from weak to strong, each with a different value.
fn with_sides(sides: [bool; 5]) -> Case {
    let mut case = Case::new();
    let [file, home, dot_env, env, flag] = sides;
    if file {
        case = case.file("# mine\nexecution:\n  limits:\n    processes: 11\n");
    }
    if home {
        case = case.put("../home/.env", &format!("{VARIABLE}=12\n"));
    }
    if dot_env {
        case = case.dot_env(&format!("# mine\n{VARIABLE}=13\n"));
    }
    if env {
        case = case.env(VARIABLE, "14");
    }
    if flag {
        case = case.flag(KEY, "15");
    }
    case
}

fn expected(case: &Case, sides: [bool; 5]) -> (u64, Option<Origin>) {
    let dot_env = |path: PathBuf, line| Origin::DotEnv { path, line, name: VARIABLE.to_owned() };
    match sides {
        [.., true] => (15, Some(Origin::Flag { name: "--processes".to_owned() })),
        [.., true, _] => (14, Some(Origin::Env { name: VARIABLE.to_owned() })),
        [_, _, true, ..] => (13, Some(dot_env(case.folder().join(".env"), 2))),
        [_, true, ..] => (12, Some(dot_env(case.home().join(".env"), 1))),
        [true, ..] => (11, Some(Origin::File { path: case.folder().join("coracle.yaml"), line: 4, column: 5 })),
        _ => (64, None),
    }
}

/// Each line of `policy.approvers` has its own origin, and a variable replaces the lines with the same patterns.
#[test]
fn approvers_are_read_line_by_line() {
    let file = "\
policy:
  groups: { finance: [ann, kim], legal: [mia] }
  approvers:
    'bank.*': finance
    'bank.close': [finance, legal]
    'bank.get_*': none
    'bank.wire': { group: finance, count: 2 }
";
    let variable = "{'bank.close': {group: legal}, 'mail.*': legal}";
    let loaded = Case::new().file(file).env("CORACLE_POLICY_APPROVERS", variable).load().unwrap();
    let policy = &loaded.settings.policy;
    assert_eq!(policy.groups["finance"], ["ann", "kim"]);
    let read: Vec<_> =
        policy.approvers.iter().map(|(pattern, one)| (&**pattern, one.groups.join(" "), one.count)).collect();
    let expected = [
        ("bank.*", "finance", 1),
        ("bank.close", "legal", 1),
        ("bank.get_*", "", 1),
        ("bank.wire", "finance", 2),
        ("mail.*", "legal", 1),
    ];
    assert_eq!(read, expected.map(|(pattern, groups, count)| (pattern, groups.to_owned(), count)));
    let origin = |pattern: &str| loaded.origins[&format!("policy.approvers.{pattern}")].to_string();
    assert!(origin("bank.wire").contains("coracle.yaml:7"), "{}", origin("bank.wire"));
    assert!(origin("mail.*").contains("CORACLE_POLICY_APPROVERS"), "{}", origin("mail.*"));
    assert!(loaded.show().iter().any(|row| row.key == "policy.approvers.bank.wire"));
}

#[test]
fn every_combination_has_the_right_winner() {
    for bits in 0..32_u32 {
        let sides = [0, 1, 2, 3, 4].map(|bit| bits >> bit & 1 == 1);
        let case = with_sides(sides);
        let loaded = case.load().unwrap();
        let (value, origin) = expected(&case, sides);
        assert_eq!(loaded.settings.execution.limits.processes, value, "{sides:?}");
        assert_eq!(loaded.origins.get(KEY), origin.as_ref(), "{sides:?}");
        let shown = loaded.show().into_iter().find(|row| row.key == KEY).unwrap();
        assert_eq!((shown.value, shown.origin), (value.to_string(), origin.unwrap_or_default()));
    }
}

/// Keys of several types: the path, a text, and the resulting value.
const SAMPLES: &[(&str, &[&str])] = &[
    ("execution.sandbox_type", &["\"native\"", "\"docker\"", "\"kubernetes\""]),
    ("execution.sandbox_image", &["\"a\"", "\"b\""]),
    ("execution.allow_network_access", &["true", "false"]),
    ("execution.limits.time", &["1.5", "600.0"]),
    ("execution.limits.memory_mb", &["100", "700"]),
    ("guardrails.max_memory_mb", &["100", "700"]),
    ("calls.concurrency", &["1", "1024"]),
    ("log.level", &["\"error\"", "\"debug\""]),
    ("log.file", &["\"/a\"", "\"/b\""]),
    ("agent.default_model", &["\"m\"", "\"n\""]),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With any keys in any sources, each key has the value of its strongest source.
    #[test]
    fn keys_are_independent(choices in proptest::collection::vec(proptest::option::of(0_usize..6), SAMPLES.len() * 4)) {
        let mut case = Case::new();
        let (mut file, mut dot_env) = (serde_json::Map::new(), String::new());
        let mut expected = Vec::new();
        for (index, (key, values)) in SAMPLES.iter().enumerate() {
            let side = |side: usize| choices[index * 4 + side].map(|choice| values[choice % values.len()]);
            let variable = format!("CORACLE_{}", key.replace('.', "_").to_uppercase());
            let bare = |value: &str| value.trim_matches('"').to_owned();
            if let Some(value) = side(0) {
                let mut inner = serde_json::from_str(value).unwrap();
                for name in key.split('.').skip(1).collect::<Vec<_>>().into_iter().rev() {
                    inner = serde_json::json!({ name: inner });
                }
                merge(file.entry(key.split('.').next().unwrap()).or_insert_with(|| serde_json::json!({})), inner);
            }
            if let Some(value) = side(1) {
                dot_env = format!("{dot_env}{variable}={}\n", bare(value));
            }
            if let Some(value) = side(2) {
                case = case.env(&variable, &bare(value));
            }
            if let Some(value) = side(3) {
                case = case.flag(key, &bare(value));
            }
            expected.push((*key, (0..4).rev().find_map(side)));
        }
        let case = case.file(&serde_json::Value::Object(file).to_string()).dot_env(&dot_env);
        let loaded = case.load().unwrap();
        let rows = loaded.show();
        for (key, value) in expected {
            let row = rows.iter().find(|row| row.key == key).unwrap();
            if let Some(value) = value {
                prop_assert_eq!(&row.value, value, "{}", key);
            } else {
                prop_assert_eq!(&row.origin, &Origin::Default, "{}", key);
            }
        }
    }
}

fn merge(into: &mut serde_json::Value, from: serde_json::Value) {
    match (into, from) {
        (serde_json::Value::Object(into), serde_json::Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert_with(|| serde_json::json!({})), value);
            }
        }
        (into, from) => *into = from,
    }
}

#[test]
fn no_configuration_is_needed() {
    let loaded = Case::new().load().unwrap();
    assert_eq!(loaded.settings, coracle_config::Settings::default());
    assert_eq!((loaded.file, loaded.origins.len(), loaded.servers.len(), loaded.warnings.len()), (None, 0, 0, 0));
    assert_eq!(loaded.settings.limits(), coracle_types::Limits::default());
}

#[test]
fn the_file_is_looked_for_in_order() {
    let way = |case: &Case| case.load().unwrap().file.map(|file| (case.plain(&file.path.display()), file.way));
    let mut case = Case::new().put("../home/coracle.yaml", "");
    assert_eq!(way(&case), Some(("ROOT/home/coracle.yaml".to_owned(), Way::DataFolder)));
    case = case.file("");
    assert_eq!(way(&case), Some(("ROOT/folder/coracle.yaml".to_owned(), Way::CurrentFolder)));
    case = case.put("a.yaml", "").put("b.yaml", "").env("CORACLE_CONFIG", "a.yaml");
    assert_eq!(way(&case), Some(("ROOT/folder/a.yaml".to_owned(), Way::Variable)));
    case.options.file = Some("b.yaml".into());
    assert_eq!(way(&case), Some(("ROOT/folder/b.yaml".to_owned(), Way::Flag)));
    case.options.file = Some("none.yaml".into());
    assert_eq!(case.load().unwrap_err().code(), "config_unreadable");
}

#[test]
fn another_users_file_in_the_folder_is_not_read() {
    let case = Case::new().file("log: { level: trace }").dot_env("LOG_FILE=/x\n");
    assert_eq!(case.load().unwrap().settings.log.level, "trace", "positive control: our own file is read");
    if !rustix::process::geteuid().is_root() {
        crate::skip::skip("files of another user: only root can change the owner of a file");
        return;
    }
    let stranger = Some(rustix::fs::Uid::from_raw(61_043));
    for name in ["coracle.yaml", ".env"] {
        rustix::fs::chown(case.folder().join(name), stranger, None).unwrap();
    }
    let loaded = case.load().unwrap();
    assert_eq!((loaded.settings.log.level.as_str(), &loaded.settings.log.file, &loaded.file), ("warn", &None, &None));
    insta::assert_debug_snapshot!(case.warnings());
    let mut named = case;
    named.options.file = Some("coracle.yaml".into());
    assert_eq!(named.load().unwrap().settings.log.level, "trace", "the user chose it");
}

#[test]
fn older_variables_are_understood() {
    type Read = fn(&coracle_config::Settings) -> String;
    let cases: &[(&str, &str, &str, Read)] = &[
        ("WORKSPACE_DIR", "/w", "/w", |s| s.execution.workspace_dir.clone().unwrap().display().to_string()),
        ("SERVERS_DIR", "/s", "/s", |s| s.execution.servers_dir.clone().unwrap().display().to_string()),
        ("SKILLS_DIR", "/usr", "/usr", |s| s.execution.skills_dir.clone().unwrap().display().to_string()),
        ("GUARDRAILS_ENABLED", "False", "false", |s| s.guardrails.enabled.to_string()),
        ("GUARDRAILS_STRICT_MODE", "1", "true", |s| s.guardrails.strict_mode.to_string()),
        ("LOG_LEVEL", "WARNING", "warn", |s| s.log.level.clone()),
        ("LOG_FILE", "/l", "/l", |s| s.log.file.clone().unwrap().display().to_string()),
        ("CORACLE_LOG", "debug", "debug", |s| s.log.level.clone()),
        ("CORACLE_PYTHON", "/p", "/p", |s| s.execution.python.clone().unwrap().display().to_string()),
        ("DEFAULT_MODEL", "m", "m", |s| s.agent.default_model.clone().unwrap()),
        ("AZURE_OPENAI_ENDPOINT", "e", "e", |s| s.agent.azure_openai.endpoint.clone().unwrap()),
        ("AZURE_OPENAI_API_KEY", "k", "k", |s| s.agent.azure_openai.api_key.clone().unwrap().expose().to_owned()),
        ("AZURE_OPENAI_API_VERSION", "v", "v", |s| s.agent.azure_openai.api_version.clone().unwrap()),
        ("AZURE_OPENAI_DEPLOYMENT", "d", "d", |s| s.agent.azure_openai.deployment.clone().unwrap()),
        ("AZURE_OPENAI_DEPLOYMENT_NAME", "d", "d", |s| s.agent.azure_openai.deployment.clone().unwrap()),
        ("AZURE_OPENAI_CHAT_DEPLOYMENT_NAME", "d", "d", |s| s.agent.azure_openai.deployment.clone().unwrap()),
        ("AZURE_OPENAI_EMBEDDER_NAME", "d", "d", |s| s.search.embedder.model.clone().unwrap()),
        ("AZURE_OPENAI_EMBEDDER_VERSION", "v", "v", |s| s.search.embedder.api_version.clone().unwrap()),
        ("AZURE_OPENAI_EMBEDDER_ENDPOINT", "e", "e", |s| s.search.embedder.url.clone().unwrap()),
        ("AZURE_OPENAI_EMBEDDER_API_KEY", "k", "k", |s| s.search.embedder.api_key.clone().unwrap().expose().to_owned()),
        ("AZURE_OPENAI_EMBEDDER_API_VERSION", "v", "v", |s| s.search.embedder.api_version.clone().unwrap()),
        ("AZURE_OPENAI_EMBEDDER_DEPLOYMENT", "d", "d", |s| s.search.embedder.model.clone().unwrap()),
        ("AZURE_OPENAI_EMBEDDER_MODEL", "d", "d", |s| s.search.embedder.model.clone().unwrap()),
        ("MSB_SERVER_URL", "u", "u", |s| s.execution.microsandbox.server_url.clone().unwrap()),
        ("MSB_API_KEY", "k", "k", |s| s.execution.microsandbox.api_key.clone().unwrap().expose().to_owned()),
    ];
    for (name, text, value, read) in cases {
        let from_env = Case::new().env(name, text).load().unwrap();
        let from_file = Case::new().dot_env(&format!("export {name}='{text}' # x\n")).load().unwrap();
        assert_eq!((read(&from_env.settings).as_str(), read(&from_file.settings).as_str()), (*value, *value), "{name}");
        assert!(from_env.origins.values().eq([&Origin::Env { name: (*name).to_owned() }]), "{name}");
        // An empty variable is ignored.
        assert_eq!(Case::new().env(name, "").load().unwrap().origins.len(), 0, "{name}");
    }
    let ours = Case::new().env("LOG_LEVEL", "info").env("CORACLE_LOG_LEVEL", "trace").load().unwrap();
    assert_eq!(ours.settings.log.level, "trace", "the name with our prefix is stronger");
}

#[test]
fn older_files_are_understood() {
    let case = Case::new().file(
        "\
execution: { workspace_dir: ./w, servers_dir: ~/s, skills_dir: /k, sandbox_type: microsandbox, sandbox_image: i,
  allow_network_access: yes }
guardrails: { enabled: true, strict_mode: false, security_checks: true, max_execution_time: 5, max_memory_mb: 300 }
mcp_servers:
  - { name: a, url: 'http://x/mcp', connection_type: http }
  - { name: b, url: 'http://x/sse', connection_type: sse }
",
    );
    let case = case.env("HOME", "/home/u");
    let loaded = case.load().unwrap();
    let execution = &loaded.settings.execution;
    assert_eq!(execution.workspace_dir, Some(case.folder().join("./w")));
    assert_eq!(execution.servers_dir, Some("/home/u/s".into()));
    assert_eq!(execution.sandbox_type, SandboxType::Microvm);
    assert!(execution.allow_network_access);
    assert_eq!((loaded.settings.limits().wall_ms, loaded.settings.limits().memory_mb), (5_000, 300));
    let mut off = loaded.settings.clone();
    off.guardrails.enabled = false;
    assert_eq!((off.limits().wall_ms, off.limits().memory_mb), (30_000, 500));
    assert_eq!(loaded.servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn entries_of_maps_have_separate_precedence() {
    let case = Case::new()
        .file("policy: { tools: { '*': ask, a.*: allow } }\nmcpServers: { a: { command: x }, b: { command: y } }")
        .env("CORACLE_POLICY_TOOLS", "{\"a.*\": \"deny\", \"b.c\": \"allow\"}")
        .env("CORACLE_MCP_SERVERS", "{\"b\": {\"command\": \"z\"}}")
        .flag("policy.tools", "b.c: ask");
    let loaded = case.load().unwrap();
    let rows: Vec<_> = loaded
        .show()
        .into_iter()
        .filter(|row| row.key.starts_with("policy") || row.key.starts_with("mcp"))
        .map(|row| case.plain(&format!("{} = {} ({})", row.key, row.value, row.origin)))
        .collect();
    insta::assert_debug_snapshot!(rows);
}

#[test]
fn addresses_are_one_or_several() {
    let listen = |case: Case| case.load().unwrap().settings.server.listen;
    assert_eq!(listen(Case::new()), [""; 0]);
    assert_eq!(listen(Case::new().file("server: { listen: '127.0.0.1:1' }")), ["127.0.0.1:1"]);
    assert_eq!(listen(Case::new().file("server: { listen: 8989 }")), ["8989"]);
    assert_eq!(listen(Case::new().file("server: { listen: ['a:1', 'b:2'] }")), ["a:1", "b:2"]);
    assert_eq!(listen(Case::new().env("CORACLE_SERVER_LISTEN", "a:1, b:2")), ["a:1", "b:2"]);
    assert_eq!(listen(Case::new().file("server: { listen: x }").flag("server.listen", "a:1")), ["a:1"]);
}
