//! Environment variables of servers: those for network access and interpreters, but no credentials.

use crate::lab::Bridge;
use coracle_testing::harness::As;
use serde_json::{Value, json};

const ENVIRONMENT: &str = "import json
from servers.env import act
act()";

/// Variables in the environment of the program, and whether they are inherited.
const SET: &[(&str, &str, bool)] = &[
    ("SSL_CERT_FILE", "/of/the/process.pem", true),
    ("NODE_EXTRA_CA_CERTS", "/of/the/process.pem", true),
    ("https_proxy", "http://proxy.example:3128", true),
    ("NO_PROXY", "localhost", true),
    ("UV_PYTHON_INSTALL_DIR", "/opt/pythons", true),
    ("HTTPS_PROXY", "http://me:canary@proxy.example:3128", false),
    ("ALL_PROXY", "me:canary@proxy.example:3128", false),
    ("NODE_OPTIONS", "--require /tmp/x.js", false),
    ("JAVA_TOOL_OPTIONS", "-javaagent:/tmp/x.jar", false),
    ("LD_LIBRARY_PATH", "/tmp/canary", false),
    ("PYTHONPATH", "/tmp/canary", false),
    ("GITHUB_TOKEN", "canary", false),
];

fn run(bridge: &Bridge, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = bridge.coracle.command();
    let unset = ["HTTP_PROXY", "http_proxy", "all_proxy", "UV_INDEX_URL", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"];
    for name in unset.into_iter().chain(["CURL_CA_BUNDLE", "GIT_SSL_CAINFO"]) {
        command.env_remove(name);
    }
    command.envs(SET.iter().map(|(name, value, _)| (name, value)));
    let output = command.args(arguments).output().unwrap();
    bridge.assert_no_servers();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn servers_inherit_network_settings_but_no_credentials() {
    let bridge = Bridge::new(As::current());
    bridge.write(
        "home/.env",
        "CURL_CA_BUNDLE=/of/dotenv.pem\nSSL_CERT_FILE=/of/dotenv.pem\nGIT_SSL_CAINFO=/of/dotenv.pem\n",
    );
    bridge.servers(&json!({ "env": bridge.rogue("env") }));
    let (code, stdout, stderr) = run(&bridge, &["exec", "--json", "-c", ENVIRONMENT]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let got: Value = serde_json::from_str::<Value>(&stdout).unwrap()["result"].clone();
    for (name, value, passed) in SET {
        let expected = if *passed { json!(value) } else { Value::Null };
        assert_eq!(got[name], expected, "{name}: {got}");
    }
    assert_eq!(
        (&got["CURL_CA_BUNDLE"], &got["GIT_SSL_CAINFO"]),
        (&Value::Null, &Value::Null),
        "never from .env: {got}"
    );

    // Names but never values, and how to pass on what was withheld.
    let (code, stdout, stderr) = run(&bridge, &["servers", "test"]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let passed = stdout.lines().find(|line| line.contains("inherited environment variables:")).unwrap();
    for name in ["SSL_CERT_FILE", "https_proxy", "ROGUE_LOG", "PATH"] {
        assert!(passed.contains(name), "{name}: {stdout}");
    }
    assert!(stdout.contains("warning: ALL_PROXY, HTTPS_PROXY: not passed on"), "{stdout}");
    assert!(
        !stdout.contains("canary") && !stdout.contains("/of/the/process.pem") && !stdout.contains("3128"),
        "{stdout}"
    );
    let (_, stdout, _) = run(&bridge, &["servers", "test", "--json"]);
    let rows: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(rows[0]["withheld"], json!(["ALL_PROXY", "HTTPS_PROXY"]), "{rows}");

    // An entry that names the variable gets it.
    let mut asking = bridge.rogue("env");
    asking["env"]["HTTPS_PROXY"] = json!("${HTTPS_PROXY}");
    bridge.servers(&json!({ "env": asking }));
    let (_, stdout, _) = run(&bridge, &["exec", "--json", "-c", ENVIRONMENT]);
    let got: Value = serde_json::from_str::<Value>(&stdout).unwrap()["result"].clone();
    assert_eq!(got["HTTPS_PROXY"], "http://me:canary@proxy.example:3128", "{stdout}");
    let (_, stdout, _) = run(&bridge, &["servers", "test"]);
    assert!(stdout.contains("warning: ALL_PROXY: not passed on"), "{stdout}");
}

#[test]
fn network_failures_list_the_inherited_variables() {
    let bridge = Bridge::new(As::current());
    let fails = |words: &str| json!({ "command": "/bin/sh", "args": ["-c", format!("echo '{words}' >&2; exit 1")] });
    bridge.servers(&json!({
        "tls": fails("error: invalid peer certificate: UnknownIssuer"),
        "dns": fails("npm error code ENOTFOUND"),
        "own": fails("I want a key"),
    }));
    let (code, stdout, _) = run(&bridge, &["servers", "test", "--json"]);
    assert_eq!(code, Some(1), "{stdout}");
    let rows: Value = serde_json::from_str(&stdout).unwrap();
    let reason = |name: &str| {
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        row["reason"].as_str().unwrap().to_owned()
    };
    assert!(reason("tls").contains("SSL_CERT_FILE") && reason("tls").contains("does not trust"), "{rows}");
    assert!(reason("dns").contains("https_proxy") && reason("dns").contains("HTTPS_PROXY: not passed on"), "{rows}");
    assert!(!reason("own").contains("this looks like"), "{rows}");
    assert!(!stdout.contains("canary"), "{stdout}");
}
