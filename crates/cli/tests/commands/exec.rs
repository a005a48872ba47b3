//! `coracle exec` in normal use. Errors are in `exec_errors.rs`, signals and pipes in `exec_signals.rs`.

use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use coracle_testing::outcome::{Ran, finish};
use serde_json::{Value, json};
use std::fs;

each_user!(the_first_command_of_the_readme_prints_42);
fn the_first_command_of_the_readme_prints_42(who: As) {
    let output = Coracle::new(who).exec(&["-c", "print(6*7)"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"42\n"[..]), "{output:?}");
}

/// Writes a file that the program can read as any user.
fn file(coracle: &Coracle, name: &str, content: &str) -> String {
    let path = coracle.workspace().join(name);
    fs::write(&path, content).unwrap();
    coracle.own(&path);
    path.to_str().unwrap().to_owned()
}

fn exec(coracle: &Coracle, arguments: &[&str], input: &str) -> Ran {
    finish(coracle, coracle.command().arg("exec").args(arguments), input.as_bytes())
}

each_user!(code_comes_from_an_argument_a_file_or_standard_input);
fn code_comes_from_an_argument_a_file_or_standard_input(who: As) {
    let coracle = Coracle::new(who);
    let python = file(&coracle, "a.py", "print('python')");
    let shell = file(&coracle, "a.sh", "echo $BASH | grep -o bash");
    let odd = file(&coracle, "a.txt", "echo $((1 + 1))");
    let cases: [(&[&str], &str, &str); 9] = [
        (&["-c", "print('argument')"], "", "argument\n"),
        (&["--code", "print('long')"], "", "long\n"),
        (&[&python], "", "python\n"),
        (&[&shell], "", "bash\n"),
        (&["--lang", "bash", &odd], "", "2\n"),
        (&["-l", "sh", "-c", "echo short"], "", "short\n"),
        (&["--lang", "python", &shell.replace("a.sh", "a.py")], "", "python\n"),
        (&[], "print('input')", "input\n"),
        (&["-"], "print('dash')", "dash\n"),
    ];
    for (arguments, input, stdout) in cases {
        let ran = exec(&coracle, arguments, input);
        assert_eq!((ran.code(), String::from_utf8_lossy(&ran.stdout)), (Some(0), stdout.into()), "{ran:?}");
    }
}

each_user!(results_are_printed_and_output_keeps_its_streams);
fn results_are_printed_and_output_keeps_its_streams(who: As) {
    let coracle = Coracle::new(who);
    let cases = [
        ("'text'", "text\n"),
        ("[1, {'a': None}]", "[\n  1,\n  {\n    \"a\": null\n  }\n]\n"),
        ("x = 1", ""),
        ("None", ""),
        ("print('out'); 5", "out\n5\n"),
        ("result = 7\n8", "7\n"),
    ];
    for (code, stdout) in cases {
        let ran = exec(&coracle, &["-c", code], "");
        assert_eq!((ran.code(), String::from_utf8_lossy(&ran.stdout)), (Some(0), stdout.into()), "{code}: {ran:?}");
        assert_eq!(ran.stderr, "", "{code}");
    }
    let ran = exec(&coracle, &["-l", "bash", "-c", "echo out; echo err >&2"], "");
    assert_eq!((ran.stdout.as_slice(), ran.stderr.as_str()), (&b"out\n"[..], "err\n"));
}

each_user!(results_follow_the_rules);
/// The rules are tested with the guest; this checks that results arrive unchanged.
fn results_follow_the_rules(who: As) {
    let cases = [
        ("import datetime; datetime.datetime(2024, 1, 2, 3, 4, 5)", json!("2024-01-02T03:04:05")),
        ("{3, 1, 2}", json!([1, 2, 3])),
        ("[float('nan'), float('-inf')]", json!(["NaN", "-Infinity"])),
        ("b'\\x00\\xff'", json!({"type": "bytes", "length": 2, "base64": "AP8="})),
        ("2 ** 100", json!("1267650600228229401496703205376")),
        ("'\\ud800'", json!("\\ud800")),
        ("from decimal import Decimal; Decimal('1.10')", json!("1.10")),
    ];
    let coracle = Coracle::new(who);
    for (code, expected) in &cases {
        assert_eq!(&coracle.python(code), expected, "{code}");
    }
}

/// Replaces what differs between runs and machines.
fn redacted(mut execution: Value) -> Value {
    execution["execution_id"] = "[id]".into();
    if execution.get("session_id").is_some() {
        execution["session_id"] = "[id]".into();
    }
    execution["execution_time_ms"] = "[ms]".into();
    execution["limits"]["enforced"] = "[enforced]".into();
    execution["limits"]["tier"] = "[tier]".into();
    for artifact in execution["artifacts"].as_array_mut().unwrap() {
        let uri = artifact["uri"].as_str().unwrap().to_owned();
        let (start, rest) = uri.split_once("exec-").unwrap();
        artifact["uri"] = format!("{start}[id]{}", &rest[16..]).into();
        assert_eq!(artifact["id"].as_str().map(str::len), Some(36), "{artifact}");
        artifact["id"] = "[artifact]".into();
    }
    execution
}

each_user!(the_whole_result_as_json);
fn the_whole_result_as_json(who: As) {
    let code = "import sys\nopen('/artifacts/plot one.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n')\nprint('out')\nprint('err', file=sys.stderr)\n{'n': 1}";
    let coracle = Coracle::new(who);
    let ran = exec(&coracle, &["--json", "--session", "one", "--timeout", "9.5", "--memory", "300", "-c", "1 / 0"], "");
    assert_eq!(String::from_utf8_lossy(&ran.stdout).lines().count(), 1, "one line");
    let mut failed = redacted(ran.json());
    // Tracebacks differ between versions of Python.
    failed["traceback"] = "[traceback]".into();
    insta::assert_json_snapshot!("failure", failed);
    let ran = exec(&coracle, &["--json", "-c", code], "");
    assert_eq!(ran.stderr, "", "standard output is data, and there is no other output");
    insta::assert_json_snapshot!("success", redacted(ran.json()));
}

each_user!(artifacts_are_listed_and_kept);
fn artifacts_are_listed_and_kept(who: As) {
    let coracle = Coracle::new(who);
    let code = "import os\nos.mkdir('/artifacts/sub')\nopen('/artifacts/sub/t.csv', 'w').write('a,b')\nopen('/artifacts/r.txt', 'w').write('x')\nNone";
    let ran = exec(&coracle, &["-c", code], "");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let expected = [
        "artifact: /artifacts/r.txt (text/plain, 1 bytes) saved as ",
        "artifact: /artifacts/sub/t.csv (text/csv, 3 bytes) saved as ",
    ];
    assert_eq!((ran.code(), lines.len()), (Some(0), 2), "{ran:?}");
    for ((line, begins), content) in lines.iter().zip(expected).zip(["x", "a,b"]) {
        let path = line.strip_prefix(begins).unwrap_or_else(|| panic!("{line}"));
        assert_eq!(fs::read_to_string(path).unwrap(), content, "{line}");
    }
    let execution = exec(&coracle, &["--json", "-c", code], "").json();
    let uri =
        execution["artifacts"][1]["uri"].as_str().unwrap().strip_prefix("coracle://artifacts/").unwrap().to_owned();
    let kept = coracle.home().join("workspaces/local/artifacts").join(uri);
    assert_eq!(fs::read_to_string(kept).unwrap(), "a,b");
}

each_user!(a_traceback_has_only_lines_of_the_user);
fn a_traceback_has_only_lines_of_the_user(who: As) {
    let coracle = Coracle::new(who);
    let code = "import json\ndef load(text):\n    return json.loads(text)\nload('{')";
    let ran = exec(&coracle, &["-c", code], "");
    assert_eq!(ran.code(), Some(1));
    assert!(
        ran.stderr.starts_with("Traceback (most recent call last):\n  File \"<code>\", line 4, in <module>\n"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("line 3, in load"), "{}", ran.stderr);
    // Only the raising line of the library, and nothing of Coracle.
    assert!(!ran.stderr.contains("coracle_guest") && !ran.stderr.contains("json/__init__.py"), "{}", ran.stderr);
    let ran = exec(&coracle, &["-c", "x ="], "");
    assert!(ran.stderr.contains("SyntaxError") && ran.code() == Some(1), "{ran:?}");
    assert_eq!(coracle.run("python", "x =", &[])["error_code"], "syntax");
    assert_eq!(coracle.run("bash", "if true; then", &[])["error_code"], "syntax");
}

each_user!(exit_statuses_of_bash_and_python_are_reported);
fn exit_statuses_of_bash_and_python_are_reported(who: As) {
    let coracle = Coracle::new(who);
    for (language, code, status) in [
        ("bash", "exit 7", 7),
        ("bash", "false", 1),
        ("bash", "kill -TERM $$", 143),
        ("python", "raise SystemExit(9)", 9),
    ] {
        let execution = coracle.run(language, code, &[]);
        assert_eq!(
            (&execution["exit_code"], &execution["error_code"]),
            (&status.into(), &"exception".into()),
            "{code}"
        );
    }
}

each_user!(exit_statuses);
fn exit_statuses(who: As) {
    let coracle = Coracle::new(who);
    let cases: [(&[&str], i32); 6] = [
        (&["-c", "1"], 0),
        (&["-c", "1 / 0"], 1),
        (&["--nonsense"], 2),
        (&["--timeout", "0.5", "-c", "while True: pass"], 124),
        (&["--memory", "64", "-c", "x = bytearray(b'x') * 300_000_000"], 137),
        (&["-c", "import os; os._exit(0)"], 1),
    ];
    for (arguments, status) in cases {
        let ran = exec(&coracle, arguments, "");
        assert_eq!(ran.code(), Some(status), "as {who:?}: {ran:?}");
    }
}

each_user!(files_persist_and_variables_do_not);
fn files_persist_and_variables_do_not(who: As) {
    let coracle = Coracle::new(who);
    exec(&coracle, &["--session", "s", "-c", "x = 1\nopen('kept.txt', 'w').write('here')"], "");
    let code = "['x' in globals(), open('kept.txt').read()]";
    for arguments in [["--json", "--session", "s", "-c", code].as_slice(), &["--json", "-c", code]] {
        assert_eq!(exec(&coracle, arguments, "").json()["result"], json!([false, "here"]));
    }
    // Another workspace has other files.
    assert_eq!(coracle.python("import os; os.path.exists('kept.txt')"), false);
    let owner = fs::metadata(coracle.home().join("workspaces/local/files/kept.txt")).unwrap();
    let expected = fs::metadata(coracle.home()).unwrap();
    let uid = std::os::unix::fs::MetadataExt::uid;
    assert_eq!(uid(&owner), uid(&expected), "files belong to the user of the program");
}

each_user!(a_workspace_behind_a_link_and_with_an_odd_name_works);
fn a_workspace_behind_a_link_and_with_an_odd_name_works(who: As) {
    let coracle = Coracle::new(who);
    let odd = coracle.workspace().join("an odd näme'\"");
    fs::create_dir(&odd).unwrap();
    coracle.own(&odd);
    let link = coracle.workspace().join("link");
    std::os::unix::fs::symlink(&odd, &link).unwrap();
    let link = link.to_str().unwrap();
    let ran = exec(&coracle, &["--workspace", link, "-c", "open('x', 'w').write('y')\nNone"], "");
    assert_eq!((ran.code(), fs::read_to_string(odd.join("x")).unwrap()), (Some(0), "y".to_owned()), "{ran:?}");
}

/// Home folder with a data folder in it, as usual.
fn at_home(coracle: &Coracle) -> (std::path::PathBuf, std::path::PathBuf) {
    let home = coracle.workspace();
    let data = home.join(".coracle");
    for folder in [data.clone(), data.join("store"), home.join("project")] {
        fs::create_dir(&folder).unwrap();
        coracle.own(&folder);
    }
    for (path, text) in [(".coracle/.env", "TOKEN=hidden"), (".coracle/coracle.yaml", ""), (".bashrc", "mine")] {
        fs::write(home.join(path), text).unwrap();
        coracle.own(&home.join(path));
    }
    (home, data)
}

each_user!(home_folders_need_expose_home_and_never_show_the_data_folder);
fn home_folders_need_expose_home_and_never_show_the_data_folder(who: As) {
    let look = "
import os
def attempt(act):
    try: return act()
    except OSError as error: return type(error).__name__
def append(path):
    with open(path, 'a') as file: file.write('x')
    return 'written'
{
    'listed': sorted(name for name in os.listdir('.') if name.startswith('.')),
    'inside': [os.path.join(folder, name) for folder, _, names in os.walk('.coracle') for name in names],
    'read': attempt(lambda: open('.coracle/.env').read()),
    'settings': attempt(lambda: append('.coracle/coracle.yaml')),
    'new': attempt(lambda: append('.coracle/new')),
    'moved': attempt(lambda: os.rename('.coracle', 'elsewhere')),
    'linked': attempt(lambda: os.link('.coracle/.env', 'linked')),
    'removed': attempt(lambda: os.rmdir('.coracle')),
    'mine': open('.bashrc').read(),
}";
    let coracle = Coracle::new(who);
    let (home, data) = at_home(&coracle);
    let exec = |workspace: &std::path::Path, code: &str, more: &[&str]| {
        let mut command = coracle.command();
        command.env("HOME", &home).env("CORACLE_HOME", &data);
        command.args(["exec", "--json", "-c", code, "--workspace"]).arg(workspace).args(more);
        finish(&coracle, &mut command, b"")
    };
    for (workspace, words) in [
        (home.clone(), "is a home folder"),
        (home.parent().unwrap().to_owned(), "contains home folders"),
        ("/".into(), "contains home folders"),
    ] {
        let refused = exec(&workspace, "1", &[]);
        assert_eq!(refused.code(), Some(2), "as {who:?}: {refused:?}");
        assert!(refused.stderr.contains(words) && refused.stderr.contains("--expose-home"), "{}", refused.stderr);
    }
    // The data folder is always rejected, and so is everything in it that is not a workspace.
    for workspace in [data.clone(), data.join("store")] {
        let refused = exec(&workspace, "1", &["--expose-home"]);
        assert_eq!(refused.code(), Some(2), "as {who:?}: {refused:?}");
        assert!(refused.stderr.contains("Coracle's data folder"), "{}", refused.stderr);
    }
    let ways: &[&[&str]] = if who == As::Root { &[&[], &["--require-full-isolation"]] } else { &[&[]] };
    for way in ways {
        let seen = exec(&home, look, &[&["--expose-home"], *way].concat()).json();
        assert_eq!(seen["success"], true, "as {who:?}: {seen:#}");
        let result = &seen["result"];
        assert_eq!(result["listed"], json!([".bashrc", ".coracle"]), "as {who:?}: {result:#}");
        assert_eq!(result["inside"], json!([]), "as {who:?}: {result:#}");
        assert_eq!((&result["read"], &result["linked"]), (&json!("FileNotFoundError"), &json!("FileNotFoundError")));
        for act in ["settings", "new", "moved", "removed"] {
            let outcome = result[act].as_str().unwrap_or_default();
            assert!(outcome.ends_with("Error"), "{act} as {who:?}: {result:#}");
        }
        assert_eq!(result["mine"], "mine");
    }
    // Control: a subfolder of the home works, and code can use its contents.
    let inside = exec(&home.join("project"), "open('made', 'w').write('x')", &[]).json();
    assert_eq!((&inside["success"], &inside["result"]), (&true.into(), &1.into()), "as {who:?}: {inside:#}");
    assert_eq!(fs::read_to_string(data.join(".env")).unwrap(), "TOKEN=hidden");
    assert_eq!(fs::read_to_string(data.join("coracle.yaml")).unwrap(), "");
}

each_user!(a_tools_folder_never_shows_the_data_folder);
/// A folder that all code can read does not show it either.
fn a_tools_folder_never_shows_the_data_folder(who: As) {
    let coracle = Coracle::new(who);
    let (home, data) = at_home(&coracle);
    let exec = |tools: &std::path::Path| {
        fs::write(data.join("coracle.yaml"), format!("execution:\n  tools_dir: {}\n", tools.display())).unwrap();
        let mut command = coracle.command();
        command.env("HOME", &home).env("CORACLE_HOME", &data).args([
            "exec",
            "--json",
            "-c",
            "import os; os.listdir('/tools')",
        ]);
        finish(&coracle, &mut command, b"").json()
    };
    let refused = exec(&home);
    assert_eq!(refused["error_code"], "sandbox_unavailable", "as {who:?}: {refused:#}");
    assert!(refused["error"].as_str().unwrap().contains("Coracle's data folder"), "{refused:#}");
    assert_eq!(exec(&home.join("project"))["result"], json!([]), "as {who:?}");
}

#[test]
fn the_help_matches_the_snapshot() {
    let coracle = Coracle::new(As::Ordinary);
    insta::assert_snapshot!("help", String::from_utf8(exec(&coracle, &["--help"], "").stdout).unwrap());
}
