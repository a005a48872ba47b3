//! `coracle users`: managing accounts as an operator.

use crate::terminal::at_a_terminal;
use coracle_testing::place::{Place, Said};
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

/// Runs the program with this standard input.
fn run_with(place: &Place, arguments: &[&str], input: &str) -> Said {
    let mut command = place.command();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that does not read it may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn a_password_is_typed_twice_without_echo() {
    let place = Place::new();
    place.output(&["users", "add", "ann", "--admin"]);
    let has_password = || {
        let rows: Value = serde_json::from_str(&place.output(&["users", "list", "--json"])).unwrap();
        rows[0]["has_password"].as_bool().unwrap()
    };
    let words = &["users", "passwd", "ann"];
    let (first, second) = ("New password", "Once more");
    for (answers, code, complaint) in [
        (&[(first, "quite long enough\n"), (second, "quite another one\n")][..], 2, "the two passwords differ"),
        (&[(first, "short\n"), (second, "short\n")], 2, "at least 10 characters"),
        (&[(first, "quite long\u{3}")], 130, ""),
    ] {
        let (ended, echo, shown) = at_a_terminal(&place, words, answers);
        assert_eq!((ended, echo), (code, true), "{answers:?}: {shown}");
        assert!(shown.contains(complaint) && !shown.contains("quite") && !shown.contains("short\r"), "{shown}");
        assert!(!has_password(), "{answers:?}");
    }
    let answers = [(first, "quite long enoughx\u{7f}\n"), (second, "quite long enough\n")];
    let (ended, echo, shown) = at_a_terminal(&place, words, &answers);
    assert_eq!((ended, echo, has_password()), (0, true, true), "{shown}");
    assert!(!shown.contains("quite"), "{shown}");
}

#[test]
fn the_help_matches_the_snapshots() {
    let place = Place::new();
    for (name, arguments) in [
        ("users_help", &["users", "--help"][..]),
        ("users_add_help", &["users", "add", "--help"]),
        ("users_list_help", &["users", "list", "--help"]),
        ("users_passwd_help", &["users", "passwd", "--help"]),
        ("users_rename_help", &["users", "rename", "--help"]),
        ("users_keys_help", &["users", "keys", "--help"]),
        ("users_keys_add_help", &["users", "keys", "add", "--help"]),
    ] {
        insta::assert_snapshot!(name, place.output(arguments));
    }
}

#[test]
fn users_are_added_listed_disabled_and_enabled() {
    let place = Place::new();
    let nobody = place.run(&["users", "list"]);
    assert_eq!((nobody.code, nobody.stdout.as_str()), (Some(0), ""));
    assert!(nobody.stderr.contains("there are no users"), "{nobody:?}");

    let added = place.run(&["users", "add", "Ann", "--admin", "--display-name", "Ann \u{1b}[2J Lee"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    assert!(added.stderr.contains("added ann, as an admin"), "{added:?}");
    assert!(
        added.stdout.starts_with("http://127.0.0.1:8989/sign-in/") && added.stdout.lines().count() == 1,
        "{added:?}"
    );
    let bob = run_with(&place, &["users", "add", "bob", "--password-stdin"], "canary of a password\n");
    assert_eq!((bob.code, bob.stdout.as_str()), (Some(0), ""), "{bob:?}");

    for (arguments, complaint) in [
        (&["users", "add", "ANN"][..], "user ann already exists"),
        (&["users", "add", "../ann"], "is not valid"),
        (&["users", "add", "local"], "the name local is reserved"),
        (&["users", "add", " LOCAL "], "the name local is reserved"),
        (&["users", "rename", "ann", "local"], "the name local is reserved"),
        (&["users", "rename", "ann", "bob"], "the name bob is taken"),
        (&["users", "rename", "carl", "dora"], "there is no user carl"),
        (&["users", "disable", "nobody"], "there is no user nobody"),
        (&["users", "link", "nobody"], "there is no user nobody"),
        (&["users", "add", "carl", "--oidc-subject", "17"], "no OpenID provider is configured"),
    ] {
        let said = place.run(arguments);
        assert_eq!(said.code, Some(2), "{arguments:?}: {said:?}");
        assert!(said.stderr.contains(complaint) && said.stdout.is_empty(), "{arguments:?}: {said:?}");
    }
    let short = run_with(&place, &["users", "passwd", "bob", "--password-stdin"], "short\n");
    assert!(short.code == Some(2) && short.stderr.contains("at least 10 characters"), "{short:?}");
    assert_eq!(run_with(&place, &["users", "passwd", "bob", "--password-stdin"], "another good one\n").code, Some(0));

    // Size of a workspace, without the targets of links.
    let own = place.home().join("workspaces/bob");
    place.put_below(&own, "data/numbers.csv", &"1".repeat(2048));
    std::os::unix::fs::symlink(place.folder(), own.join("elsewhere")).unwrap();
    assert_eq!(place.run(&["users", "disable", "ann"]).code, Some(0));
    assert_eq!(place.run(&["users", "link", "ann"]).code, Some(2));
    let listed = place.output(&["users", "list"]);
    insta::assert_snapshot!("list", listed);
    let rows: Value = serde_json::from_str(&place.output(&["users", "list", "--json"])).unwrap();
    assert_eq!((&rows[0]["name"], &rows[0]["disabled"]), (&"ann".into(), &true.into()));
    assert_eq!(rows[1]["workspace"], serde_json::json!({ "files": 1, "bytes": 2048 }));
    assert!(!rows.to_string().contains("argon2"), "{rows}");
    assert_eq!(place.run(&["users", "enable", "ann"]).code, Some(0));
    assert_eq!(place.run(&["users", "link", "ann"]).code, Some(0));
}

#[test]
fn keys_are_printed_once_and_revoked() {
    let place = Place::new();
    place.output(&["users", "add", "ann", "--admin"]);
    place.output(&["users", "add", "bob"]);
    let made =
        place.run(&["users", "keys", "add", "bob", "--name", "laptop", "--scope", "mcp,api", "--expires", "90d"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let secret = made.stdout.trim();
    assert!(secret.starts_with("crk_") && made.stdout.lines().count() == 1, "{made:?}");
    let keys: Value = serde_json::from_str(&place.output(&["users", "keys", "list", "bob", "--json"])).unwrap();
    assert_eq!((&keys[0]["name"], &keys[0]["state"]), (&"laptop".into(), &"active".into()));
    let listed = place.output(&["users", "keys", "list", "bob"]);
    assert!(listed.contains("mcp, api") && listed.contains("in 89 days") && !listed.contains(secret), "{listed}");
    for (arguments, complaint) in [
        (&["users", "keys", "add", "bob", "--name", "x", "--scope", "admin"][..], "bob is not an admin"),
        (&["users", "keys", "add", "bob", "--name", "x", "--scope", "all"], "use mcp, api, admin, metrics or approve"),
        (&["users", "keys", "add", "bob", "--name", "x", "--expires", "soon"], "90d, 12h or 30m"),
        (&["users", "keys", "revoke", "key-none"], "there is no key"),
    ] {
        let said = place.run(arguments);
        assert!(said.code == Some(2) && said.stderr.contains(complaint), "{arguments:?}: {said:?}");
    }
    let id = keys[0]["id"].as_str().unwrap();
    assert_eq!(place.run(&["users", "keys", "revoke", id]).code, Some(0));
    assert_eq!(place.run(&["users", "keys", "revoke", id]).code, Some(2));
    assert!(place.output(&["users", "keys", "list", "bob"]).contains("revoked"));
    // No secret is stored on disk.
    let store = place.home();
    let mut folders = vec![store];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                let bytes = std::fs::read(entry.path()).unwrap();
                assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{:?}", entry.path());
            }
        }
    }
}

#[test]
fn public_addresses_require_users() {
    let place = Place::new();
    for host in ["0.0.0.0", "::", "192.0.2.1"] {
        let said = place.run(&["up", "--host", host, "--port", "0"]);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains("is reachable from other machines, but there are no users"), "{said:?}");
        assert!(said.stderr.contains("hint: add one with coracle users add NAME --admin"), "{said:?}");
    }
    place.output(&["users", "add", "ann"]);
    // One workspace folder for all users is rejected.
    let shared = place.run(&["up", "--port", "0", "--workspace", "."]);
    assert!(shared.code == Some(2) && shared.stderr.contains("one folder for all users"), "{shared:?}");
    for (key, value, complaint) in [
        ("CORACLE_SERVER_TRUSTED_PROXIES", "proxy.example", "neither an address nor a network"),
        ("CORACLE_SERVER_PUBLIC_URL", "coracle.example", "is not the URL of a server"),
        ("CORACLE_SERVER_AUTH", "maybe", "auto"),
    ] {
        let mut place = Place::new();
        place.set(key, value);
        let said = place.run(&["up", "--port", "0"]);
        assert!(said.code == Some(2) && said.stderr.contains(complaint), "{key}: {said:?}");
    }
}

#[test]
fn renamed_users_keep_everything() {
    let place = Place::new();
    place.output(&["users", "add", "ann"]);
    let key = place.output(&["users", "keys", "add", "ann", "--name", "laptop"]);
    place.put_below(&place.home().join("workspaces/ann"), "files/numbers.csv", "1,2");
    let said = place.run(&["users", "rename", "Ann", "Annie"]);
    assert!(said.code == Some(0) && said.stderr.contains("ann is now annie"), "{said:?}");
    let read = |path: &str| std::fs::read_to_string(place.home().join("workspaces").join(path)).ok();
    assert_eq!((read("annie/files/numbers.csv").as_deref(), read("ann/files/numbers.csv")), (Some("1,2"), None));
    let keys = place.output(&["users", "keys", "list", "annie"]);
    assert!(keys.contains("laptop") && key.starts_with("crk_"), "{keys}");
    assert_eq!(place.run(&["users", "keys", "list", "ann"]).code, Some(2));

    // Names that are no longer valid: upper case, as proxies could once send them, and the local user's.
    place.put_below(&place.home().join("workspaces/BOB"), "files/of-bob", "bob's");
    assert_eq!(place.run(&["users", "rename", "BOB", "bob"]).code, Some(0));
    assert_eq!(read("bob/files/of-bob").as_deref(), Some("bob's"));
    assert_eq!(place.output(&["exec", "--session", "s", "-c", "open('mine', 'w').write('x'); print(1)"]), "1\n");
    let said = place.run(&["users", "rename", "local", "lou"]);
    assert!(said.code == Some(0) && said.stderr.contains("now belongs to lou"), "{said:?}");
    assert_eq!(read("lou/files/mine").as_deref(), Some("x"));
    assert!(place.output(&["sessions", "list", "--user", "lou"]).contains('s'));
    assert_eq!(place.output(&["exec", "-c", "import os; print(os.path.exists('mine'))"]), "False\n");
    // An existing folder is not touched.
    place.put_below(&place.home().join("workspaces/eve"), "files/of-eve", "eve's");
    let said = place.run(&["users", "rename", "annie", "eve"]);
    assert!(said.code == Some(2) && said.stderr.contains("eve already has a workspace"), "{said:?}");
    assert!(read("annie/files/numbers.csv").is_some() && read("eve/files/of-eve").is_some());
}
