//! Packages of the program that was just built, each installed into an empty environment.

// By path, because `xtask` depends on none of the other crates.
#[expect(dead_code, unreachable_pub, reason = "only `skip` is used here")]
#[path = "../../crates/testing/src/skip.rs"]
mod skip;

use skip::skip;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program beside our own, which `cargo xtask test` builds first, and the tool that strips it.
fn program() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("coracle");
    let missing =
        if program.exists() { missing("strip").map(str::to_owned) } else { Some(program.display().to_string()) };
    if let Some(missing) = missing {
        skip(&format!("packages, because {missing} is missing"));
        return None;
    }
    Some(program)
}

fn missing(tool: &str) -> Option<&str> {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    (!found).then_some(tool)
}

fn dist(arguments: &[&str], out: &Path, program: &Path) -> std::io::Result<(bool, String)> {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["dist", "--fast", "--out"])
        .arg(out)
        .arg("--binary")
        .arg(program)
        .args(arguments)
        .output()?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

#[test]
fn every_package_installs_and_runs_a_program() {
    let Some(program) = program() else { return };
    let out = tempfile::tempdir().unwrap();
    let mut kinds = vec!["tarball"];
    let mut answers = vec!["the tarball: 42"];
    for (kind, tool, answer) in [
        ("wheel", "python3", "`coracle-mcp` of the wheel, python3: 42"),
        ("npm", "npm", "npx: 42"),
        ("deb", "dpkg", "the files of the Debian package: 42"),
    ] {
        if missing(tool).is_some() {
            skip(&format!("{kind}, because {tool} is missing"));
            continue;
        }
        kinds.push(kind);
        answers.push(answer);
    }
    // `cargo xtask test` says where its tools are, and `uv` is one of them.
    if std::env::var_os("CORACLE_TEST_SERVERS").is_some() {
        answers.push("uvx: 42");
    }
    let (success, said) =
        dist(&["--only", &kinds.join(","), "--allow-newer-glibc", "--verify"], out.path(), &program).unwrap();
    eprintln!("{said}");
    assert!(success, "{said}");
    for answer in answers {
        assert!(said.contains(answer), "{answer} in {said}");
    }
    let checked =
        Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(out.path()).output();
    let checked = checked.unwrap();
    let lines = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{lines}");
    // npm has two files.
    assert_eq!(lines.lines().count(), kinds.len() + usize::from(kinds.contains(&"npm")), "{lines}");
}

#[test]
fn packages_of_one_program_are_the_same_bytes() {
    let Some(program) = program() else { return };
    let sums = || {
        let out = tempfile::tempdir().unwrap();
        let (success, said) = dist(&["--only", "wheel,npm,deb", "--allow-newer-glibc"], out.path(), &program).unwrap();
        assert!(success, "{said}");
        std::fs::read_to_string(out.path().join("SHA256SUMS")).unwrap()
    };
    assert_eq!(sums(), sums());
}

/// Takes minutes, and Debian packages from the machine's own sources.
#[test]
#[ignore = "part of `cargo xtask soak`"]
fn soak_the_container_image_runs_a_program() {
    let Some(program) = program() else { return };
    let out = tempfile::tempdir().unwrap();
    let (success, said) = dist(&["--only", "image", "--allow-newer-glibc", "--verify"], out.path(), &program).unwrap();
    eprintln!("{said}");
    assert!(success, "{said}");
    assert!(said.contains("the image's files: 42"), "{said}");
}
