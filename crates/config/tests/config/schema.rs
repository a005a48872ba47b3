//! The schema is checked in, and agrees with the loader.

use crate::case::Case;
use coracle_config::schema;
use serde_json::Value;
use std::path::Path;

/// To update the file, run `CORACLE_UPDATE=1 cargo test -p coracle-config --test config`.
#[test]
fn the_schema_is_the_one_in_the_file() {
    let text = schema();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/coracle.schema.json");
    if std::env::var_os("CORACLE_UPDATE").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "see the comment above this test");
}

fn complaints(yaml: &str) -> Vec<String> {
    let schema: Value = serde_json::from_str(&schema()).unwrap();
    let value: Value = serde_saphyr::from_str(yaml).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

const DESIGN: &str = "\
execution:  { sandbox_type: native, skills_dir: ./skills, allow_network_access: false }
guardrails: { enabled: true, strict_mode: false, max_execution_time: 300, max_memory_mb: 512 }
mcpServers: { git: { command: uvx, args: [mcp-server-git] } }
";

const FULL: &str = "\
execution:
  sandbox_type: microsandbox
  sandbox_image: python:3.12
  workspace_dir: /data
  servers_dir: a
  skills_dir: b
  tools_dir: c
  python: python3
  require_full_isolation: true
  limits: { time: 2.5, memory_mb: 600, processes: 10, open_files: 64, file_mb: 1, workspace_mb: 5, workspace_files: 16,
    tmp_mb: 1, artifacts_mb: 1, output_bytes: 1024, output_tokens: 16, calls: 0 }
  microsandbox: { server_url: 'http://localhost:5555', api_key: x }
policy: { tools: { '*': ask, github.*: allow, github.delete_*: deny }, approval_seconds: 60,
  groups: { finance: [ann, kim], legal: [mia] },
  approvers: { 'bank.*': finance, 'bank.close': [finance, legal], 'bank.get_*': none, 'bank.list': { group: [legal] },
    'bank.transfer': { group: finance, count: 2 } } }
calls: { max_argument_bytes: 2048, max_result_bytes: 4096, concurrency: 4 }
search: { embedder: { url: 'https://x/v1', model: m, api_key: k, api_version: '1', dimensions: 256 } }
server: { listen: ['127.0.0.1:1', '[::1]:1'], cors_origins: ['https://x'] }
log: { level: info, file: coracle.log }
agent: { default_model: gpt, azure_openai: { endpoint: 'https://x', api_key: k, api_version: '1', deployment: d },
  providers: { lab: { url: 'http://x/v1', api_key: k, api: chat, api_version: '1', code_fences: never,
    context_tokens: 8192, models: [a] }, ollama: , groq: {} }, max_steps: 5, max_calls: 5, max_run_tokens: 1000,
  daily_tokens: 1000000, instructions: x, allow_image_urls: true, personal_keys: true, find_local_servers: false }
mcpServers:
  one: { command: npx, args: [-y, x, 8080], env: { A: 1, B: true }, envFile: .env, cwd: /tmp, disabled: true }
  two: { type: streamable-http, url: 'https://x/mcp', headers: { A: b }, scope: shared, description: d, category: c,
    start_timeout: 5, call_timeout: 0.5, alwaysAllow: [x], timeout: 60 }
  three: { serverUrl: 'https://x/mcp', enabled: false }
mcp_servers:
  - { name: four, url: 'http://x/sse', connection_type: sse }
";

#[test]
fn files_that_load_are_valid() {
    for yaml in [DESIGN, FULL, "{}", "mcpServers: {}", "server: { listen: '127.0.0.1:1' }"] {
        Case::new().file(yaml).load().unwrap();
        assert_eq!(complaints(yaml), Vec::<String>::new(), "{yaml}");
    }
}

#[test]
fn files_that_are_rejected_are_invalid() {
    for yaml in [
        "colour: red",
        "execution: { sandbox_typ: native }",
        "execution: { sandbox_type: chroot }",
        "execution: { allow_network_access: 5 }",
        "execution: { limits: { time: 0 } }",
        "execution: { limits: { memory_mb: 5 } }",
        "calls: { concurrency: 0 }",
        "search: { embedder: { dimensions: 0 } }",
        "policy: { tools: { '*': perhaps } }",
        "policy: { approval_seconds: 0 }",
        "policy: { groups: [ann] }",
        "policy: { approvers: { 'bank.*': { group: finance, count: 0 } } }",
        "policy: { approvers: { 'bank.*': { group: finance, count: 6 } } }",
        "policy: { approvers: { 'bank.*': { group: finance, number: 2 } } }",
        "policy: { approvers: { 'bank.*': { count: 2 } } }",
        "policy: { approvers: finance }",
        "server: { listen: { a: b } }",
        "server: { cors_origins: '*' }",
        "agent: { max_steps: 0 }",
        "agent: { daily_tokens: 5 }",
        "agent: { providers: { a/b: { url: 'http://x' } } }",
        "agent: { providers: { openai: { base_url: 'http://x' } } }",
        "agent: { providers: { openai: { api: grpc } } }",
        "agent: { providers: { openai: { context_tokens: 5 } } }",
        "mcpServers: { a: { comand: x } }",
        "mcpServers: { a: { command: x, args: y } }",
        "mcp_servers: [{ url: 'http://x' }]",
    ] {
        assert!(Case::new().file(yaml).load().is_err(), "{yaml}");
        assert_ne!(complaints(yaml), Vec::<String>::new(), "{yaml}");
    }
}
