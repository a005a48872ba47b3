//! No credential is ever printed.

use crate::case::Case;

const CANARY: &str = "c4n4ry-0f-th3-t3st-7f3a9b2e";

/// Everything that can be printed about a load.
fn printed(case: &Case) -> String {
    match case.load() {
        Ok(loaded) => {
            let problems: Vec<String> =
                loaded.server_problems.iter().map(|problem| format!("{problem} {}", problem.fault.hint())).collect();
            let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
            format!("{:?} {:?} {:?} {problems:?} {warnings:?}", case.options, loaded, loaded.show())
        }
        Err(error) => format!("{:?} {error:?} {error} {:?}", case.options, error.hint()),
    }
}

/// All places for credentials, in valid and in invalid entries.
fn cases(secret: &str) -> Vec<Case> {
    let file = format!(
        "\
execution: {{ microsandbox: {{ api_key: {secret} }} }}
search: {{ embedder: {{ api_key: {secret} }} }}
agent:
  azure_openai: {{ api_key: {secret} }}
  providers:
    groq: {{ api_key: {secret} }}
    a: {{ url: 'https://u:{secret}@x/{secret}?k={secret}', api_key: '${{CANARY}}' }}
    b: {{ url: 'https://x/v1?k={secret}', api_key: 'x ${{C:-{secret}}}' }}
    c: {{ url: 'https://x/v1', api_key: '{secret} ${{NOT_SET}}' }}
    d: {{ url: 'https://x/v1', api_key: '{secret} ${{' }}
    e: {{ url: 'x{secret}' }}
    f: {{ url: 'https://x/v1', api_key: \"{secret}\\n{secret}\" }}
mcpServers:
  a: {{ command: x, args: [--token, {secret}, --key={secret}, '{secret}'], env: {{ A: {secret}, B: 'x ${{C:-{secret}}}' }} }}
  b: {{ url: 'https://u:{secret}@x/{secret}?k={secret}', headers: {{ Authorization: Bearer {secret}, X: {secret} }}, client_id: x, client_secret: {secret} }}
  c: {{ command: x, args: ['${{CANARY}}'], env: {{ A: '${{CANARY}}' }} }}
  d: {{ command: x, env: {{ A: '{secret} ${{NOT_SET}}' }} }}
  e: {{ command: x, env: {{ A: '{secret} ${{' }} }}
  f: {{ url: 'x{secret}' }}
  g: {{ url: 'https://x', headers: {{ A: \"{secret}\\n\" }} }}
"
    );
    let broken = [
        format!("execution: {{ microsandbox: {{ api_key: [{secret}] }} }}"),
        format!("agent: {{ providers: {{ openai: {{ api_key: [{secret}] }} }} }}"),
        format!("agent: {{ providers: {{ openai: {secret} }} }}"),
        format!("agent: {{ providers: [{secret}] }}"),
        format!("agent: {{ providers: {{ x: {{ api_key: {secret} }} }} }}"),
        format!("agent: {{ providers: {{ openai: {{ key: {secret} }} }} }}"),
        format!("mcpServers: {{ a: {{ command: x, env: {secret} }} }}"),
        format!("mcpServers: {{ a: {{ command: x, env: {{ A: [{secret}] }} }} }}"),
        format!("mcpServers: {{ a: {{ command: x, headers: [{secret}] }} }}"),
        format!("mcpServers: {{ a: {secret} }}"),
        format!("mcpServers: {{ a: {{ start_timeout: {secret} }} }}"),
        format!("execution: {{ limits: {{ time: {secret} }}, python: [{secret}], allow_network_access: {secret} }}"),
    ];
    let mut cases = vec![Case::new().file(&file).env("CANARY", secret)];
    cases.extend(broken.iter().map(|text| Case::new().file(text)));
    cases.push(Case::new().dot_env(&format!("MSB_API_KEY={secret}\nnonsense {secret}\nX=\"{secret}\n")));
    cases.push(
        Case::new()
            .env("AZURE_OPENAI_API_KEY", secret)
            .env("AZURE_OPENAI_EMBEDDER_API_KEY", secret)
            .env("CORACLE_MCP_SERVERS", &format!("{{a: {{env: {{A: {secret}}}}}")),
    );
    cases.push(
        Case::new()
            .env("OPENAI_API_KEY", secret)
            .env("OPENAI_BASE_URL", &format!("https://x/{secret}"))
            .env("ANTHROPIC_API_KEY", &format!("{secret}\u{1}"))
            .env("ANTHROPIC_BASE_URL", &format!("https://u:{secret}@x"))
            .env("OLLAMA_HOST", &format!("x:{secret}")),
    );
    cases.push(Case::new().env("CORACLE_AGENT_PROVIDERS", &format!("{{openai: {{api_key: {secret}}}")));
    cases.push(
        Case::new().env("CORACLE_MCP_SERVERS", &format!("{{\"a\": {{\"command\": \"x\", \"env\": \"{secret}\"}}}}")),
    );
    cases.push(Case::new().flag("agent.azure_openai.api_key", secret).env("CORACLE_EXECUTION_LIMITS_CALLS", secret));
    cases
}

#[test]
fn no_credential_is_printed() {
    for case in cases(CANARY) {
        let printed = printed(&case);
        assert!(!printed.contains(CANARY), "{}", case.plain(&printed));
    }
}

#[test]
fn control_the_cases_contain_the_credential() {
    let loaded = cases(CANARY)[0].load().unwrap();
    let text = serde_json::to_string(&loaded.servers).unwrap();
    assert!(text.matches(CANARY).count() >= 10, "{text}");
    let text = serde_json::to_string(&loaded.settings.agent.providers).unwrap();
    assert!(text.matches(CANARY).count() >= 9, "{text}");
}

#[test]
fn masked_settings_are_still_useful() {
    let case = Case::new()
        .file(
            "\
log: { level: info }
agent: { azure_openai: { api_key: x, endpoint: 'https://x.openai.azure.com/?key=y' },
  providers: { openai: { api_key: x }, lab: { url: 'http://lab:8000/v1', api_key: '${LAB_KEY:-}' }, ollama: { api_key: '${KEY}' } } }
mcpServers:
  git: { command: uvx, args: [mcp-server-git, --repository, .] }
  github: { url: 'https://api.example.com/mcp/', headers: { Authorization: 'Bearer ${GITHUB_TOKEN}', X-Key: abc } }
  db: { command: npx, args: [-y, server-postgres, 'postgresql://u:p@h/d'], env: { A: b, C: '${D}' } }
",
        )
        .env("KEY", "x")
        .env("CORACLE_CALLS_CONCURRENCY", "4");
    let rows: Vec<String> = case
        .load()
        .unwrap()
        .show()
        .iter()
        .map(|row| case.plain(&format!("{}: {}  # {}", row.key, row.value, row.origin)))
        .collect();
    insta::assert_snapshot!(rows.join("\n"));
}
