//! Settings do what they say: where the log goes, where workspaces are, what folders code sees; and what this version does
//! not follow is told.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[expect(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#[path = "support/harness.rs"]
mod harness;
#[expect(dead_code, reason = "each test program uses a part of it")]
#[path = "support/place.rs"]
mod place;

use harness::{Coracle, everybody};
use place::{Place, mode};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A server whose connection gives the log something to tell, if it wants to hear it.
fn settings(more: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bridge/fixtures/plain.py");
    let server = json!({ "mcpServers": { "plain": { "command": "/usr/bin/python3", "args": ["-I", script] } } });
    format!("mcpServers: {}\n{more}", server["mcpServers"])
}

const CODE: [&str; 3] = ["exec", "-c", "from servers.plain import echo; print(echo(text='hi'))"];

/// How many lines of the log are in a text.
fn lines_of_log(text: &str) -> usize {
    text.lines()
        .filter(|line| ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"].iter().any(|level| line.contains(level)))
        .count()
}

#[test]
fn the_log_has_the_level_that_is_set() {
    let mut place = Place::new();
    let lines = |place: &Place, settings: &str| {
        place.put("coracle.yaml", settings);
        let said = place.run(&CODE);
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "hi\n"), "{said:?}");
        lines_of_log(&said.stderr)
    };
    assert_eq!(lines(&place, &settings("")), 0);
    assert_eq!(lines(&place, &settings("log: {level: 'off'}\n")), 0);
    let (some, all) =
        (lines(&place, &settings("log: {level: info}\n")), lines(&place, &settings("log: {level: trace}\n")));
    assert!(0 < some && some < all, "{some} lines, and {all} lines");
    // As other languages spell it, and by whoever is stronger.
    assert_eq!(lines(&place, &settings("log: {level: WARNING}\n")), 0);
    assert!(lines(&place, &settings("log: {level: 'warn,rmcp=debug'}\n")) > 0);
    place.set("CORACLE_LOG", "off");
    assert_eq!(lines(&place, &settings("log: {level: trace}\n")), 0);
}

#[test]
fn a_level_that_is_none_is_refused_or_passed_over() {
    let mut place = Place::new();
    place.put("coracle.yaml", "log:\n  level: verbose\n");
    let said = place.run(&["config", "show"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    let error = "error: ROOT/workspace/coracle.yaml:2:3: `log.level` is \"verbose\": it must be one of off, error,";
    assert!(place.redacted(&said.stderr).starts_with(error), "{said:?}");
    // This may be meant for another program.
    place.put("coracle.yaml", "");
    place.set("LOG_LEVEL", "verbose");
    let said = place.run(&["exec", "-c", "print(1)"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "1\n"), "{said:?}");
    let warning = "warning: environment variable LOG_LEVEL: `log.level` is \"verbose\"";
    assert!(said.stderr.starts_with(warning) && said.stderr.contains("passed over"), "{said:?}");
}

#[test]
fn the_log_goes_to_the_file_that_is_set() {
    let place = Place::new();
    place.put("coracle.yaml", &settings("log:\n  level: debug\n  file: logs/coracle.log\n"));
    let said = place.run(&CODE);
    assert_eq!(said.code, Some(2), "{said:?}");
    let error =
        "error: ROOT/workspace/coracle.yaml:4:3: `log.file` cannot be written: ROOT/workspace/logs/coracle.log: ";
    assert!(place.redacted(&said.stderr).starts_with(error), "{said:?}");
    fs::create_dir(place.folder().join("logs")).unwrap();
    let log = place.folder().join("logs/coracle.log");
    let said = place.run(&CODE);
    assert_eq!((said.code, lines_of_log(&said.stderr)), (Some(0), 0), "{said:?}");
    let once = fs::read_to_string(&log).unwrap();
    assert!(lines_of_log(&once) > 0 && !once.contains('\u{1b}'), "{once}");
    assert_eq!(mode(&log), 0o600);
    place.run(&CODE);
    let twice = fs::read_to_string(&log).unwrap();
    assert!(twice.starts_with(&once) && twice.len() > once.len(), "it is added to");
    // Without the setting it goes where it went before.
    place.put("coracle.yaml", &settings("log: {level: debug}\n"));
    assert!(lines_of_log(&place.run(&CODE).stderr) > 0);
    assert_eq!(fs::read_to_string(&log).unwrap(), twice);
}

#[test]
fn workspaces_are_where_they_are_set_to_be() {
    let place = Place::new();
    let write = ["exec", "-c", "open('made', 'w').write('x'); open('/artifacts/a.txt', 'w').write('y')"];
    place.output(&write);
    assert_eq!(fs::read_to_string(place.home().join("workspaces/local/files/made")).unwrap(), "x");
    place.put("coracle.yaml", "execution: {workspace_dir: ./elsewhere}\n");
    let said = place.run(&["exec", "-c", "import os; print(os.path.exists('made'))"]);
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("False\n", ""), "{said:?}");
    place.output(&write);
    let elsewhere = place.folder().join("elsewhere/local");
    assert_eq!(fs::read_to_string(elsewhere.join("files/made")).unwrap(), "x");
    assert_eq!(fs::read_dir(elsewhere.join("artifacts")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(place.home().join("workspaces/local/artifacts")).unwrap().count(), 1, "the first one");
    assert_eq!(mode(&place.folder().join("elsewhere")), 0o700);
    place.put("coracle.yaml", "execution: {workspace_dir: /proc/nowhere}\n");
    let said = place.run(&["exec", "-c", "1"]);
    assert_eq!(said.code, Some(125), "{said:?}");
    assert!(said.stderr.contains("cannot be made in /proc/nowhere"), "{said:?}");
    assert!(said.stderr.contains("hint: ") && said.stderr.contains("execution.workspace_dir"), "{said:?}");
}

/// In every language, read-only, and nothing else of where they come from.
#[test]
fn code_sees_the_folders_of_the_operator() {
    for who in everybody() {
        let coracle = Coracle::new(*who);
        let root = coracle.home().parent().unwrap().to_owned();
        for (path, text) in [
            ("operator/skills/pdf/SKILL.md", "# How to read a PDF"),
            ("operator/tools/shout.py", "def shout(text):\n    return text.upper()\n"),
            ("operator/tools/shout.ts", "export const shout = (text: string) => text.toUpperCase();\n"),
            ("operator/secret", "CANARY"),
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            coracle.own(&path);
        }
        for folder in ["operator", "operator/skills", "operator/skills/pdf", "operator/tools"] {
            fs::set_permissions(root.join(folder), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let python = "import os, sys
sys.path.append('/tools')
def attempt(act):
    try:
        act()
        return 'done'
    except OSError as error:
        return type(error).__name__
tried = [attempt(lambda: open(path, 'w')) for path in ('/skills/pdf/SKILL.md', '/skills/new', '/tools/new')]
def seen():
    import shout
    return [open('/skills/pdf/SKILL.md').read(), shout.shout('hi'), sorted(os.listdir('/tools')), os.path.exists('/tools/../secret')]
[tried, seen() if os.listdir('/tools') else sorted(os.listdir('/skills'))]";
        let execution = coracle.run("python", python, &[]);
        let ours = json!(["charts", "data-analysis", "symbolic-math"]);
        assert_eq!(execution["result"][1], ours, "as {who:?}: without the setting: {execution:#}");
        let settings = json!({ "execution": {
            "skills_dir": root.join("operator/skills"), "tools_dir": root.join("operator/tools"),
        }});
        let file = coracle.home().join("coracle.yaml");
        fs::write(&file, settings.to_string()).unwrap();
        coracle.own(&file);
        let execution = coracle.run("python", python, &[]);
        let denied = json!(["OSError", "OSError", "OSError"]);
        let seen = json!(["# How to read a PDF", "HI", ["shout.py", "shout.ts"], false]);
        assert_eq!(execution["result"][1], seen, "as {who:?}: {execution:#}");
        let tried = &execution["result"][0];
        assert!(*tried == denied || *tried == json!(vec!["PermissionError"; 3]), "as {who:?}: {tried}");
        let code = "import { shout } from '/tools/shout.ts'; [shout('hi'), readFile('/skills/pdf/SKILL.md')]";
        let execution = coracle.run("typescript", code, &[]);
        assert_eq!(execution["result"], json!(["HI", "# How to read a PDF"]), "as {who:?}: {execution:#}");
        let execution = coracle.run("bash", "cat /skills/pdf/SKILL.md; touch /tools/x; ls /tools", &[]);
        assert_eq!(execution["stdout"], "# How to read a PDFshout.py\nshout.ts\n", "as {who:?}: {execution:#}");
        assert_eq!(fs::read_dir(root.join("operator/tools")).unwrap().count(), 2, "as {who:?}");
    }
}

#[test]
fn a_folder_that_is_not_there_is_refused() {
    let place = Place::new();
    place.put("file", "");
    for (key, path) in [("skills_dir", "missing"), ("tools_dir", "file")] {
        place.put("coracle.yaml", &format!("execution: {{{key}: {path}}}\n"));
        let said = place.run(&["exec", "-c", "print(1)"]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{said:?}");
        let error = format!("error: execution.{key}: ROOT/workspace/{path}: ");
        assert!(place.redacted(&said.stderr).starts_with(&error), "{said:?}");
        assert!(said.stderr.contains("\nhint: code sees this folder as /"), "{said:?}");
    }
}

#[test]
fn the_largest_answer_has_a_most_that_fits() {
    let place = Place::new();
    let shown = place.output(&["config", "show"]);
    assert!(shown.contains("calls.max_result_bytes: 8323072\n"), "{shown}");
    for key in ["max_result_bytes", "max_argument_bytes"] {
        place.put("coracle.yaml", &format!("calls:\n  {key}: 8323073\n"));
        let said = place.run(&["exec", "-c", "print(1)"]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{said:?}");
        let error = format!(
            "error: ROOT/workspace/coracle.yaml:2:{}: `calls.{key}` is 8323073: it must be between 1024 and 8323072\n  hint: ",
            key.len() + 5
        );
        assert!(place.redacted(&said.stderr).starts_with(&error), "{said:?}");
        place.put("coracle.yaml", &format!("calls:\n  {key}: 8323072\n"));
        assert_eq!(place.output(&["exec", "-c", "print(1)"]), "1\n");
    }
}

#[test]
fn what_is_not_followed_yet_is_told() {
    let place = Place::new();
    for (settings, key) in [
        ("execution:\n  sandbox_image: x\n", "execution.sandbox_image"),
        ("guardrails:\n  strict_mode: true\n", "guardrails.strict_mode"),
        ("guardrails:\n  security_checks: false\n", "guardrails.security_checks"),
        ("agent:\n  default_model: x\n", "agent.default_model"),
    ] {
        place.put("coracle.yaml", settings);
        let said = place.run(&["exec", "-c", "print(1)"]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "1\n"), "{said:?}");
        let line = format!("warning: ROOT/workspace/coracle.yaml:2:3: `{key}` changes nothing in this version\n");
        assert_eq!(place.redacted(&said.stderr), line);
        let said = place.run(&["config", "show"]);
        assert_eq!((said.code, place.redacted(&said.stderr)), (Some(0), line));
    }
    // What is followed is not, and neither are variables that other programs read too.
    place.put("coracle.yaml", "execution:\n  limits: { time: 9 }\n");
    place.put(".env", "DEFAULT_MODEL=x\nAZURE_OPENAI_API_VERSION=1\n");
    let said = place.run(&["exec", "-c", "print(1)"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
}
