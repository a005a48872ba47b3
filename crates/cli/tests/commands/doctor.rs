//! `coracle doctor`: results on this machine, and messages if nothing works.

use coracle_testing::each_user;
use coracle_testing::harness::{As, Coracle};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn diagnosis(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("no JSON ({error}): {output:?}"))
}

fn check<'a>(tier: &'a Value, name: &str) -> &'a Value {
    let checks = tier["checks"].as_array();
    checks.into_iter().flatten().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name} in {tier:#}"))
}

each_user!(a_working_tier_is_safe_and_has_all_essential_checks);
fn a_working_tier_is_safe_and_has_all_essential_checks(who: As) {
    let output = Coracle::new(who).command().args(["doctor", "--json"]).output().unwrap();
    let found = diagnosis(&output);
    assert_eq!(output.status.code(), Some(0), "as {who:?}: {found:#}");
    assert_eq!(found["safe"], true, "as {who:?}: {found:#}");
    let tier = &found["tiers"][0];
    assert_eq!(tier["name"], "native");
    for name in
        ["python", "namespaces", "host user", "rights", "seccomp", "files", "network", "processes", "open files"]
    {
        assert_eq!(check(tier, name)["outcome"], "ok", "as {who:?}: {tier:#}");
    }
    for name in ["landlock", "proc", "memory", "bash"] {
        let check = check(tier, name);
        assert_ne!(check["outcome"], "failed", "as {who:?}: {tier:#}");
        assert!(check["outcome"] == "ok" || check["fix"].as_array().is_some_and(|fix| !fix.is_empty()), "{check:#}");
    }
    assert!(tier["start"]["warm_ms"].as_f64().unwrap() > 0.0 && tier["start"]["cold_ms"].as_f64().unwrap() > 0.0);
}

each_user!(the_table_has_a_line_for_each_check);
fn the_table_has_a_line_for_each_check(who: As) {
    let output = Coracle::new(who).command().arg("doctor").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("native: safe"), "as {who:?}: {text}");
    for name in ["namespaces", "seccomp", "landlock", "memory", "network", "start"] {
        assert!(text.lines().any(|line| line.contains(name)), "as {who:?}: {text}");
    }
}

each_user!(nothing_is_left_behind);
fn nothing_is_left_behind(who: As) {
    let coracle = Coracle::new(who);
    coracle.command().arg("doctor").output().unwrap();
    let left: Vec<_> =
        std::fs::read_dir(coracle.home().join("run")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".lock"], "as {who:?}");
}

each_user!(without_python_no_tier_is_safe_and_the_fix_is_printed);
fn without_python_no_tier_is_safe_and_the_fix_is_printed(who: As) {
    let coracle = Coracle::new(who);
    let mut command = coracle.command();
    let output = command.env("CORACLE_PYTHON", "/nonexistent").args(["doctor", "--json"]).output().unwrap();
    let found = diagnosis(&output);
    assert_eq!((output.status.code(), &found["safe"]), (Some(1), &Value::Bool(false)), "as {who:?}: {found:#}");
    let tier = &found["tiers"][0];
    assert_eq!((&tier["verdict"], &tier["start"]), (&Value::from("unavailable"), &Value::Null), "{tier:#}");
    let python = check(tier, "python");
    assert!(python["detail"].as_str().unwrap().contains("/nonexistent"), "{python:#}");
    let fix = python["fix"].to_string();
    assert!(fix.contains("CORACLE_PYTHON") && fix.contains("install Python 3.10"), "{fix}");

    let text = coracle.command().env("CORACLE_PYTHON", "/nonexistent").arg("doctor").output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("native: does not run") && text.contains("To fix python:"), "{text}");
}

each_user!(an_unusable_data_folder_is_reported);
fn an_unusable_data_folder_is_reported(who: As) {
    let output = Coracle::new(who)
        .command()
        .env("CORACLE_HOME", "/dev/null/coracle")
        .args(["doctor", "--json"])
        .output()
        .unwrap();
    let found = diagnosis(&output);
    assert_eq!(output.status.code(), Some(1), "as {who:?}: {found:#}");
    assert!(found.to_string().contains("set CORACLE_HOME to a folder"), "{found:#}");
}

/// Limits the number of user namespaces for one user, and executes the program.
const WITH_USER_NAMESPACES: &str = "
import ctypes, os, sys
uid, gid = os.getuid(), os.getgid()
assert ctypes.CDLL(None).unshare(0x10000000) == 0
maps = ('self/setgroups', 'deny'), ('self/uid_map', f'{uid} {uid} 1'), ('self/gid_map', f'{gid} {gid} 1')
for file, text in (*maps, ('sys/user/max_user_namespaces', sys.argv[1])):
    with open(f'/proc/{file}', 'w') as opened:
        opened.write(text)
os.execv(sys.argv[2], sys.argv[2:])
";

#[test]
fn disabled_user_namespaces_are_reported_with_their_setting() {
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        coracle_testing::skip::skip("a machine without user namespaces: /usr/bin/python3 is missing");
        return;
    }
    let coracle = Coracle::new(As::Ordinary);
    let doctor = |namespaces: &str| {
        let command = coracle.command();
        let mut line: Vec<_> = std::iter::once(command.get_program()).chain(command.get_args()).collect();
        let program = line.pop().unwrap();
        let play = [python.as_os_str(), "-c".as_ref(), WITH_USER_NAMESPACES.as_ref(), namespaces.as_ref(), program];
        line.extend(play);
        let mut wrapped = Command::new(line[0]);
        wrapped.args(&line[1..]).args(["doctor", "--json"]).env("CORACLE_HOME", coracle.home()).current_dir("/");
        wrapped.output().unwrap()
    };
    let off = doctor("0");
    let found = diagnosis(&off);
    assert_eq!(off.status.code(), Some(1), "{found:#}");
    assert!(
        check(&found["tiers"][0], "sandbox")["fix"].to_string().contains("user.max_user_namespaces = 15000"),
        "{found:#}"
    );
    let on = doctor("15000");
    assert_eq!(on.status.code(), Some(0), "{on:?}");
}
