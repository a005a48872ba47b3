//! Configured servers that cannot be used are listed with the reason and the fix.

use crate::lab::Bridge;
use coracle_testing::harness::As;
use serde_json::{Value, json};

fn bridge() -> Bridge {
    let bridge = Bridge::new(As::current());
    bridge.servers(&json!({
        "plain": bridge.plain("plain"),
        "my-git": { "command": "git-server", "env": { "TOKEN": "${CORACLE_TEST_NO_SUCH_VARIABLE}" } },
        "broken": { "command": "/does/not/exist" },
    }));
    bridge
}

#[test]
fn python_reports_why_a_server_cannot_be_imported() {
    let bridge = bridge();
    let code = "from coracle import ToolError, call
from servers.plain import echo
def attempt(act):
    try:
        return act()
    except (ImportError, ToolError) as error:
        return f'{type(error).__name__}: {error}'
def unset():
    from servers.my_git import log
def broken():
    import servers.broken
def unknown():
    import servers.nowhere
[attempt(unset), attempt(broken), attempt(unknown), attempt(lambda: call('my-git', 'log', {})), echo(text='works')]";
    let result = bridge.result("python", code);
    let text = |at: usize| result[at].as_str().unwrap().to_owned();
    assert!(text(0).starts_with("ModuleNotFoundError: No module named 'servers.my_git': server my-git cannot be used"));
    for at in [0, 3] {
        assert!(
            text(at).contains("CORACLE_TEST_NO_SUCH_VARIABLE, which is not set; set it")
                || text(at).contains("set CORACLE_TEST_NO_SUCH_VARIABLE in the environment"),
            "{result:#}"
        );
    }
    assert!(
        text(1).contains("the tools of server broken are not known") && text(1).contains("/does/not/exist"),
        "{result:#}"
    );
    assert_eq!(
        (text(2), text(4)),
        ("ModuleNotFoundError: No module named 'servers.nowhere'".to_owned(), "works".to_owned())
    );

    // With only the server that cannot be used.
    let only = Bridge::new(As::current());
    only.servers(&json!({ "git": { "command": "x", "args": ["${CORACLE_TEST_NO_SUCH_VARIABLE}"] } }));
    let execution = only.run("python", "from servers.git import log", &[]);
    let error = execution["error"].as_str().unwrap();
    assert!(
        error.contains("server git cannot be used") && error.contains("CORACLE_TEST_NO_SUCH_VARIABLE"),
        "{execution:#}"
    );
}

#[test]
fn typescript_and_bash_report_it() {
    let bridge = bridge();
    let execution = bridge.run("typescript", "import { log } from \"servers/my_git\";\nlog();", &[]);
    let error = execution["error"].as_str().unwrap();
    assert!(
        error.contains("server my-git cannot be used") && error.contains("CORACLE_TEST_NO_SUCH_VARIABLE"),
        "{execution:#}"
    );
    let result =
        bridge.result("typescript", "import { echo } from \"servers/plain\";\nawait echo({ text: \"works\" })");
    assert_eq!(result, "works");
    let execution = bridge.run("bash", "tool plain echo --text works; tool my-git log; echo $?; tool", &[]);
    let (stdout, stderr) = (execution["stdout"].as_str().unwrap(), execution["stderr"].as_str().unwrap());
    assert!(stdout.starts_with("works\n1\nplain\n"), "{execution:#}");
    assert!(stdout.contains("my-git  (server my-git cannot be used"), "{execution:#}");
    assert!(
        stderr.contains("CORACLE_TEST_NO_SUCH_VARIABLE") && !stderr.contains("there is no server"),
        "{execution:#}"
    );
}

#[test]
fn commands_list_the_server_with_its_reason() {
    let bridge = bridge();
    let list = bridge.coracle.command().args(["servers", "list"]).output().unwrap();
    let text = String::from_utf8(list.stdout).unwrap();
    assert!(text.lines().any(|line| line.starts_with("my-git ") && line.ends_with("cannot be used")), "{text}");
    assert!(text.contains("set CORACLE_TEST_NO_SUCH_VARIABLE in the environment or in .env"), "{text}");
    let shown = bridge.coracle.command().args(["tools", "list", "--server", "my-git"]).output().unwrap();
    let text = String::from_utf8(shown.stderr).unwrap();
    assert!(text.contains("CORACLE_TEST_NO_SUCH_VARIABLE") && !text.contains("there is no server"), "{text}");
    let all = bridge.coracle.command().args(["tools", "list", "--json"]).output().unwrap();
    let all: Value = serde_json::from_slice(&all.stdout).unwrap();
    assert!(all.as_array().unwrap().iter().any(|tool| tool["server"] == "plain"), "{all}");
    bridge.assert_no_servers();
}
