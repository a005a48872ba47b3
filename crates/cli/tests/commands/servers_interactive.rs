//! `coracle servers` with user interaction: signing in with a browser, and answering at a terminal.

use coracle_testing::place::{CANARY, Place};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Server that requires a sign-in; ends with the test.
struct Private(Child);

impl Private {
    fn start() -> (Self, String) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/sign_in/server.py");
        let mut child = Command::new("python3").arg("-I").arg(script).stdout(Stdio::piped()).spawn().unwrap();
        let mut base = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut base).unwrap();
        (Self(child), base.trim().to_owned())
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Text of every file below a folder.
fn texts(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all += &texts(&path);
        } else {
            all += &String::from_utf8_lossy(&fs::read(path).unwrap());
        }
    }
    all
}

/// Program that opens addresses: a browser without a window.
const BROWSER: &str = "#!/bin/sh
exec python3 -I -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1])' \"$1\"
";

#[test]
fn users_sign_in_with_a_browser_and_sign_out() {
    let mut place = Place::new();
    let (_private, base) = Private::start();
    place.output(&["servers", "add", "web", "--url", &format!("{base}/mcp")]);
    let said = place.run(&["servers", "test", "web"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stdout.contains("hint: sign in with `coracle servers login web`"), "{said:?}");

    let browser = place.put("bin/xdg-open", BROWSER);
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    place.set("PATH", &format!("{}:{path}", browser.parent().unwrap().display()));
    place.set("DISPLAY", ":0");
    let said = place.run(&["servers", "login", "web"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stdout.starts_with(&format!("{base}/authorize?")), "{said:?}");
    assert!(said.stderr.contains("signed in to web"), "{said:?}");
    assert!(!texts(&place.home()).contains(CANARY), "the sign-in is stored encrypted");

    let said = place.run(&["servers", "test", "web"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stdout.starts_with("✓ web: 1 tool after "), "{said:?}");

    place.output(&["servers", "logout", "web"]);
    assert_eq!(place.run(&["servers", "test", "web"]).code, Some(1));

    // A later server with the same name does not get the stored sign-in.
    assert_eq!(place.run(&["servers", "login", "web"]).code, Some(0));
    place.output(&["servers", "remove", "web"]);
    place.output(&["servers", "add", "web", "--url", &format!("{base}/mcp")]);
    assert_eq!(place.run(&["servers", "test", "web"]).code, Some(1));
}

/// Runs the program in a terminal and types an answer.
fn at_terminal(place: &Place, arguments: &str, typed: &str) -> (Option<i32>, String) {
    let program = place.command();
    let line = format!("'{}' {arguments}", program.get_program().to_str().unwrap());
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(place.folder());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn users_choose_what_is_imported() {
    let place = Place::new();
    let theirs = r#"{"mcpServers": {"one": {"command": "x"}, "two": {"command": "y"}, "three": {"command": "z"}}}"#;
    place.put("theirs.json", theirs);
    let file = place.home().join("coracle.yaml");
    let import = "servers import --from theirs.json";
    let (code, said) = at_terminal(&place, import, "n\n");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("Add these 3 to ") && said.contains("nothing was changed"), "{said}");
    assert!(!file.exists());

    let (code, said) = at_terminal(&place, import, "9\n1,2\n");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("please answer y, n, or numbers from 1 to 3"), "{said}");
    assert!(said.contains("added 2 servers to "), "{said}");
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text.matches("command").count(), 2, "{text}");

    let (code, said) = at_terminal(&place, import, "y\n");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("Add it to ") && said.contains("added 1 server to "), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap().matches("command").count(), 3);
}
