//! Settings have their effect: log, workspaces and folders in sandboxes. Settings without effect cause a warning.

use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use coracle_testing::place::{Place, mode};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Server whose connection causes log events at a verbose level.
fn settings(more: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/bridge/fixtures/plain.py");
    let server = json!({ "mcpServers": { "plain": { "command": "/usr/bin/python3", "args": ["-I", script] } } });
    format!("mcpServers: {}\n{more}", server["mcpServers"])
}

const CODE: [&str; 3] = ["exec", "-c", "from servers.plain import echo; print(echo(text='hi'))"];

/// Number of log lines in a text.
fn lines_of_log(text: &str) -> usize {
    text.lines()
        .filter(|line| ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"].iter().any(|level| line.contains(level)))
        .count()
}

#[test]
fn the_log_level_is_applied() {
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
    // Spelling of other languages, and precedence.
    assert_eq!(lines(&place, &settings("log: {level: WARNING}\n")), 0);
    assert!(lines(&place, &settings("log: {level: 'warn,rmcp=debug'}\n")) > 0);
    place.set("CORACLE_LOG", "off");
    assert_eq!(lines(&place, &settings("log: {level: trace}\n")), 0);
}

#[test]
fn invalid_levels_are_refused_or_ignored() {
    let mut place = Place::new();
    place.put("coracle.yaml", "log:\n  level: verbose\n");
    let said = place.run(&["config", "show"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    let error = "error: ROOT/workspace/coracle.yaml:2:3: `log.level` is \"verbose\": it must be one of off, error,";
    assert!(place.redacted(&said.stderr).starts_with(error), "{said:?}");
    // This variable may be meant for another program.
    place.put("coracle.yaml", "");
    place.set("LOG_LEVEL", "verbose");
    let said = place.run(&["exec", "-c", "print(1)"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "1\n"), "{said:?}");
    let warning = "warning: environment variable LOG_LEVEL: `log.level` is \"verbose\"";
    assert!(said.stderr.starts_with(warning) && said.stderr.contains("; ignored"), "{said:?}");
}

#[test]
fn the_log_is_written_to_the_configured_file() {
    let place = Place::new();
    place.put("taken", "a file");
    place.put("coracle.yaml", &settings("log:\n  level: debug\n  file: taken/coracle.log\n"));
    let said = place.run(&CODE);
    assert_eq!(said.code, Some(2), "{said:?}");
    let error = "error: ROOT/workspace/coracle.yaml:4:3: cannot write to `log.file` ROOT/workspace/taken/coracle.log: ";
    assert!(place.redacted(&said.stderr).starts_with(error), "{said:?}");
    // A missing folder is created.
    place.put("coracle.yaml", &settings("log:\n  level: debug\n  file: logs/of/coracle.log\n"));
    let log = place.folder().join("logs/of/coracle.log");
    let said = place.run(&CODE);
    assert_eq!((said.code, lines_of_log(&said.stderr)), (Some(0), 0), "{said:?}");
    let once = fs::read_to_string(&log).unwrap();
    assert!(lines_of_log(&once) > 0 && !once.contains('\u{1b}'), "{once}");
    assert_eq!(mode(&log), 0o600);
    place.run(&CODE);
    let twice = fs::read_to_string(&log).unwrap();
    assert!(twice.starts_with(&once) && twice.len() > once.len(), "the file is appended to");
    // Without the setting, the log goes to standard error.
    place.put("coracle.yaml", &settings("log: {level: debug}\n"));
    assert!(lines_of_log(&place.run(&CODE).stderr) > 0);
    assert_eq!(fs::read_to_string(&log).unwrap(), twice);
}

#[test]
fn workspaces_are_in_the_configured_folder() {
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

each_user!(code_can_read_the_folders_of_the_operator);
/// In every language, read-only, and without anything else of their origin.
fn code_can_read_the_folders_of_the_operator(who: As) {
    let coracle = Coracle::new(who);
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

each_user!(operator_modules_are_part_of_packages);
/// Modules written by hand are imported as with earlier tools; generated ones take precedence.
fn operator_modules_are_part_of_packages(who: As) {
    let coracle = Coracle::new(who);
    let root = coracle.home().parent().unwrap().to_owned();
    let plain = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/bridge/fixtures/plain.py");
    for (path, text) in [
        ("skills/clean.py", "\"\"\"Cleans texts.\"\"\"\ndef clean(text):\n    return text.strip()\n"),
        ("skills/pdf/SKILL.md", "---\nname: pdf\ndescription: d\n---\n"),
        ("servers/calculator/__init__.py", "from servers.calculator.add import add\n"),
        ("servers/calculator/add.py", "def add(a, b):\n    return a + b\n"),
        ("servers/weather.py", "def now():\n    return 'sun'\n"),
        ("servers/plain/__init__.py", "def echo(text):\n    return 'planted'\n"),
    ] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        coracle.own(&path);
    }
    for folder in ["skills", "skills/pdf", "servers", "servers/calculator", "servers/plain"] {
        fs::set_permissions(root.join(folder), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let code = "from skills.clean import clean
from servers.calculator import add
from servers import weather
import subprocess, sys
child = 'from skills.clean import clean; from servers import weather; print(weather.now(), clean(\" x \"))'
child = subprocess.run([sys.executable, '-c', child], capture_output=True, text=True)
[clean(' x '), add(1, 2), weather.now(), child.stdout, child.stderr]";
    let without = coracle.run("python", code, &[]);
    assert!(without["error"].as_str().unwrap().contains("No module named 'skills.clean'"), "{without:#}");
    let settings = json!({
        "execution": { "skills_dir": root.join("skills"), "servers_dir": root.join("servers") },
        "mcpServers": { "plain": { "command": "/usr/bin/python3", "args": ["-I", plain] } },
    });
    let file = coracle.home().join("coracle.yaml");
    fs::write(&file, settings.to_string()).unwrap();
    coracle.own(&file);
    let execution = coracle.run("python", code, &[]);
    assert_eq!(execution["result"], json!(["x", 3, "sun", "sun x\n", ""]), "as {who:?}: {execution:#}");
    let execution = coracle.run("python", "from servers.plain import echo\necho(text='real')", &[]);
    assert_eq!(execution["result"], "real", "as {who:?}: {execution:#}");
    let entries = fs::read_dir(root.join("servers")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["calculator", "plain", "weather.py"], "no files are added");
}

/// Settings of an earlier tool, with files in its workspace.
#[test]
fn the_workspace_of_an_earlier_tool_is_used() {
    let place = Place::new();
    place.put("config.yaml", "execution:\n  workspace_dir: ./workspace\n  sandbox_type: microsandbox\n");
    place.put("workspace/results.json", "[1, 2]");
    let said =
        place.run(&["exec", "-c", "import json; open('more', 'w').write('x'); len(json.load(open('results.json')))"]);
    assert_eq!((said.code, said.stdout.trim()), (Some(0), "2"), "{said:?}");
    assert!(said.stderr.contains("is a workspace itself") && said.stderr.contains("`native`"), "{said:?}");
    assert_eq!(fs::read_to_string(place.folder().join("workspace/more")).unwrap(), "x");
    // With our own key it is the folder of workspaces.
    place.put("coracle.yaml", "execution: { workspace_dir: ./workspace }\n");
    let said = place.run(&["exec", "-c", "import os; os.path.exists('results.json')"]);
    assert_eq!((said.stdout.trim(), said.stderr.as_str()), ("false", ""), "{said:?}");
    assert!(place.folder().join("workspace/local").is_dir());
}

#[test]
fn missing_folders_are_refused() {
    let place = Place::new();
    place.put("file", "");
    for (key, path) in [("skills_dir", "missing"), ("tools_dir", "file")] {
        place.put("coracle.yaml", &format!("execution: {{{key}: {path}}}\n"));
        let said = place.run(&["exec", "-c", "print(1)"]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{said:?}");
        let error = format!("error: execution.{key}: ROOT/workspace/{path}: ");
        assert!(place.redacted(&said.stderr).starts_with(&error), "{said:?}");
        assert!(said.stderr.contains("\nhint: this folder is /"), "{said:?}");
    }
}

#[test]
fn the_largest_result_size_is_limited() {
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
fn settings_without_effect_cause_a_warning() {
    let place = Place::new();
    let key = "execution.microsandbox.server_url";
    place.put("coracle.yaml", "execution:\n  microsandbox:\n    server_url: x\n");
    let said = place.run(&["exec", "-c", "print(1)"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "1\n"), "{said:?}");
    let line = format!("warning: ROOT/workspace/coracle.yaml:3:5: `{key}` has no effect in this version\n");
    assert_eq!(place.redacted(&said.stderr), line);
    let said = place.run(&["config", "show"]);
    assert_eq!((said.code, place.redacted(&said.stderr)), (Some(0), line));
    let is_marked = |line: &&str| line.starts_with(key) && line.ends_with("  # no effect in this version");
    assert_eq!(said.stdout.lines().filter(is_marked).count(), 1, "{said:?}");
    let marked = said.stdout.lines().filter(|line| line.ends_with("no effect in this version")).count();
    assert!(marked < said.stdout.lines().count() / 2, "{said:?}");
    let shown = place.redacted(&place.output(&["config", "show", "--origin"]));
    let line = format!("\n{key}: \"x\"  # ROOT/workspace/coracle.yaml:3:5; no effect in this version\n");
    assert!(shown.contains(&line), "{shown}");
    assert!(
        shown.contains("\nexecution.microsandbox.api_key: null  # default; no effect in this version\n"),
        "{shown}"
    );
    // Settings with an effect cause none, nor do variables that other programs use.
    place.put("coracle.yaml", "execution:\n  limits: { time: 9 }\nagent:\n  default_model: x\n");
    place.put(".env", "DEFAULT_MODEL=x\nAZURE_OPENAI_API_VERSION=1\n");
    let said = place.run(&["exec", "-c", "print(1)"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
}

const SHELL: &str = "import os; print(os.system('true'))";

/// Strict mode under each of its names, and values that are no values of it.
#[test]
fn strict_mode_refuses_dangerous_code_under_any_name() {
    let refuses = |place: &Place| {
        let said = place.run(&["exec", "--json", "-c", SHELL]);
        let answer: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!((&answer["error_code"], &answer["calls"]), (&json!("denied"), &json!([])), "{said:?}");
        assert!(answer["error"].as_str().unwrap().contains("os.system"), "{answer}");
        assert_eq!(place.output(&["exec", "-c", "print(1)"]), "1\n");
    };
    let place = Place::new();
    place.put("coracle.yaml", "guardrails:\n  strict_mode: true\n");
    refuses(&place);
    let place = Place::new();
    place.put(".env", "GUARDRAILS_STRICT_MODE=True\n");
    refuses(&place);
    for (name, value) in [("GUARDRAILS_STRICT_MODE", "1"), ("CORACLE_GUARDRAILS_STRICT_MODE", "yes")] {
        let mut place = Place::new();
        place.set(name, value);
        refuses(&place);
    }
    for (name, value) in [
        ("GUARDRAILS_STRICT_MODE", "enabled"),
        ("guardrails_strict_mode", "true"),
        ("CORACLE_GUARDRAILS_STRICT", "true"),
    ] {
        let mut place = Place::new();
        place.set(name, value);
        let said = place.run(&["exec", "-c", "print(1)"]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""), "{said:?}");
        assert!(place.redacted(&said.stderr).starts_with(&format!("error: environment variable {name}: ")), "{said:?}");
    }
}

/// Controls: the same code runs with a warning, and without one where the checks are off or the name is allowed.
#[test]
fn code_runs_without_strict_mode() {
    let place = Place::new();
    let said = place.run(&["exec", "--json", "-c", SHELL]);
    let answer: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(answer["success"], true, "{said:?}");
    assert!(answer["warnings"][0].as_str().unwrap().contains("os.system"), "{answer}");
    for settings in [
        "guardrails: { enabled: false, strict_mode: true }",
        "guardrails: { security_checks: false, strict_mode: true }",
        "guardrails: { strict_mode: true, allow: [os.system] }",
    ] {
        place.put("coracle.yaml", settings);
        let said = place.run(&["exec", "-c", SHELL]);
        assert_eq!(
            (said.code, said.stdout.as_str(), said.stderr.as_str()),
            (Some(0), "0\n", ""),
            "{settings}: {said:?}"
        );
    }
}

#[test]
fn disabled_tools_of_an_entry_are_denied() {
    let place = Place::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/bridge/fixtures/plain.py");
    let entry = |more: (&str, serde_json::Value)| {
        let mut plain = json!({ "command": "/usr/bin/python3", "args": ["-I", script] });
        plain[more.0] = more.1;
        json!({ "mcpServers": { "plain": plain } }).to_string()
    };
    for key in ["excludeTools", "disabledTools"] {
        place.put("coracle.yaml", &entry((key, json!(["echo"]))));
        let said = place.run(&CODE);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.stderr.contains("denied_by_policy"), "{said:?}");
        place.put("coracle.yaml", &entry((key, json!(["other"]))));
        let said = place.run(&CODE);
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "hi\n"), "{said:?}");
    }
    place.put("coracle.yaml", &entry(("includeTools", json!(["echo"]))));
    let said = place.run(&CODE);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("includeTools` has no effect in this version"), "{said:?}");
}
