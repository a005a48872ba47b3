//! `--install` writes an entry that works when the client starts it.

use super::driver::{assert_nothing_left, call, steps};
use crate::lab::pypi;
use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A client, the path of its settings, and their previous contents.
struct Client {
    name: &'static str,
    file: &'static str,
    before: &'static str,
    /// Key of the servers.
    servers: &'static str,
}

const CLIENTS: [Client; 5] = [
    Client {
        name: "claude",
        file: ".claude.json",
        before: "{\n  \"numStartups\": 7,\n  \"mcpServers\": {\n    \"other\": { \"command\": \"other\" }\n  }\n}\n",
        servers: "mcpServers",
    },
    Client {
        name: "claude-desktop",
        file: ".config/Claude/claude_desktop_config.json",
        before: "{\n  \"mcpServers\": {}\n}\n",
        servers: "mcpServers",
    },
    Client { name: "cursor", file: ".cursor/mcp.json", before: "", servers: "mcpServers" },
    Client {
        name: "vscode",
        file: ".config/Code/User/mcp.json",
        before: "{\n  // kept by hand\n  \"inputs\": [],\n  \"servers\": {\n    \"other\": { \"command\": \"other\" }, // last\n  },\n}\n",
        servers: "servers",
    },
    Client {
        name: "codex",
        file: ".codex/config.toml",
        before: "model = \"m\" # mine\n\n[mcp_servers.other]\ncommand = \"other\"\n",
        servers: "mcp_servers",
    },
];

fn coracle(coracle: &Coracle, home: &Path, arguments: &[&str]) -> Output {
    let mut command = coracle.command();
    for name in ["XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "CORACLE_CONFIG"] {
        command.env_remove(name);
    }
    command.env("HOME", home).current_dir(home).args(arguments).output().unwrap()
}

/// Parses the file like the client: JSON with comments, or TOML.
fn parsed(file: &Path) -> Value {
    let script = "
import json, re, sys
text = open(sys.argv[1]).read()
if sys.argv[1].endswith('.toml'):
    import tomllib
    print(json.dumps(tomllib.loads(text)))
else:
    text = re.sub(r'(?m)//[^\"\\n]*$', '', text)
    print(json.dumps(json.loads(re.sub(r',(\\s*[}\\]])', r'\\1', text))))
";
    let python = coracle_testing::place::installed("venv/bin/python");
    let output = Command::new(python).args(["-I", "-c", script]).arg(file).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn home_of(coracle: &Coracle, client: &Client) -> (PathBuf, PathBuf) {
    let home = coracle.home().parent().unwrap().join(client.name);
    let file = home.join(client.file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    for made in file.ancestors().skip(1).take_while(|made| made.starts_with(&home)) {
        coracle.own(made);
    }
    if !client.before.is_empty() {
        fs::write(&file, client.before).unwrap();
        coracle.own(&file);
    }
    (home, file)
}

each_user!(an_installed_entry_works_when_the_client_starts_it);
fn an_installed_entry_works_when_the_client_starts_it(who: As) {
    let coracle_ = Coracle::new(who);
    // A file with servers, as other clients have it.
    let first = &CLIENTS[0];
    let (home, _) = home_of(&coracle_, first);
    let theirs = json!({ "mcpServers": { "time": pypi("time", &["--local-timezone", "UTC"]) } });
    let desktop = home.join(".config/Claude/claude_desktop_config.json");
    fs::create_dir_all(desktop.parent().unwrap()).unwrap();
    fs::write(&desktop, theirs.to_string()).unwrap();
    for made in desktop.ancestors().take_while(|made| made.starts_with(&home)) {
        coracle_.own(made);
    }
    let imported = coracle(&coracle_, &home, &["servers", "import", "--yes"]);
    assert!(imported.status.success(), "{imported:?}");

    for client in &CLIENTS {
        let (home, file) = home_of(&coracle_, client);
        // Without a confirmation nothing changes.
        let asked = coracle(&coracle_, &home, &["mcp", "--install", client.name]);
        assert!(!asked.status.success(), "{}: {asked:?}", client.name);
        assert_eq!(fs::read_to_string(&file).unwrap_or_default(), client.before, "{}", client.name);
        let change = String::from_utf8_lossy(&asked.stdout).into_owned();
        assert!(change.lines().any(|line| line.starts_with('+') && line.contains("coracle")), "{change}");

        let written = coracle(&coracle_, &home, &["mcp", "--install", client.name, "--yes"]);
        assert!(written.status.success(), "{}: {written:?}", client.name);
        let text = fs::read_to_string(&file).unwrap();
        for kept in ["kept by hand", "# mine", "numStartups", "\"other\"", "// last"] {
            assert!(!client.before.contains(kept) || text.contains(kept), "{kept}: {text}");
        }
        let again = coracle(&coracle_, &home, &["mcp", "--install", client.name, "--yes"]);
        assert!(again.status.success() && fs::read_to_string(&file).unwrap() == text, "{again:?}");

        // Like the client: this command, these arguments and variables, a home, and nothing else.
        let entry = parsed(&file)[client.servers]["coracle"].clone();
        let mut start = Command::new("env");
        start.args(["-i", "PATH=/usr/bin:/bin"]).arg(format!("HOME={}", home.display()));
        for (name, value) in entry["env"].as_object().into_iter().flatten() {
            start.arg(format!("{name}={}", value.as_str().unwrap()));
        }
        if who == coracle_testing::harness::As::Ordinary && rustix::process::geteuid().is_root() {
            start.args(["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", "--inh-caps=-all", "--"]);
        }
        start.arg(entry["command"].as_str().unwrap_or_else(|| panic!("{}: {text}", client.name)));
        start.args(entry["args"].as_array().into_iter().flatten().map(|word| word.as_str().unwrap()));
        let program = "from servers.time import get_current_time\n'UTC' in str(get_current_time(timezone='UTC'))";
        let outcomes = steps(
            super::driver::described(&start),
            "legacy",
            &[json!({ "do": "tools" }), call("execute_code", &json!({ "code": program }))],
        );
        assert_eq!(outcomes[0]["value"].as_array().unwrap().len(), 3, "{}", client.name);
        assert_eq!(outcomes[1]["value"]["structuredContent"]["result"], true, "{}: {:#}", client.name, outcomes[1]);
        assert_nothing_left(&coracle_);
    }
}

#[test]
fn invalid_files_are_not_changed() {
    let coracle_ = Coracle::new(super::driver::first());
    for (client, broken) in
        [("cursor", "{ \"mcpServers\": [ }"), ("cursor", "{ \"mcpServers\": [] }"), ("codex", "= 1")]
    {
        let client = CLIENTS.iter().find(|known| known.name == client).unwrap();
        let (home, file) = home_of(&coracle_, client);
        fs::write(&file, broken).unwrap();
        let refused = coracle(&coracle_, &home, &["mcp", "--install", client.name, "--yes"]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("by hand"), "{refused:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), broken);
    }
    let unknown = coracle(&coracle_, &coracle_.home(), &["mcp", "--install", "emacs"]);
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
}

/// Credentials in lines beside the entry, in the changed line, and in an earlier entry.
#[test]
fn printed_changes_do_not_include_other_servers() {
    let who = As::current();
    let coracle_ = Coracle::new(who);
    for (name, file, before) in [
        ("claude", ".claude.json", r#"{"mcpServers":{"other":{"command":"x","env":{"TOKEN":"canary-one"}}}}"#),
        (
            "cursor",
            ".cursor/mcp.json",
            "{\n  \"mcpServers\": {\n    \"other\": {\n      \"url\": \"https://x/?k=canary-two\"\n    }\n  }\n}\n",
        ),
        ("codex", ".codex/config.toml", "[mcp_servers.other]\ncommand = \"x\"\nenv = { TOKEN = \"canary-three\" }\n"),
        (
            "vscode",
            ".config/Code/User/mcp.json",
            r#"{"servers":{"coracle":{"command":"old","env":{"KEY":"canary-four"}}}}"#,
        ),
    ] {
        let home = coracle_.home().parent().unwrap().join(format!("shown-{name}"));
        let file = home.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, before).unwrap();
        for made in file.ancestors().take_while(|made| made.starts_with(&home)) {
            coracle_.own(made);
        }
        let written = coracle(&coracle_, &home, &["mcp", "--install", name, "--yes"]);
        assert!(written.status.success(), "{name}: {written:?}");
        let shown = format!("{}{}", String::from_utf8_lossy(&written.stdout), String::from_utf8_lossy(&written.stderr));
        assert!(!shown.contains("canary"), "{name}: {shown}");
        assert!(shown.lines().any(|line| line.starts_with('+') && line.contains("coracle")), "{name}: {shown}");
        let after = fs::read_to_string(&file).unwrap();
        assert_eq!(after.contains("canary"), name != "vscode", "{name}: {after}");
    }
}
