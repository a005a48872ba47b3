//! Runs the commands of `console` blocks and compares what they print with what the document shows.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::{Document, documents};

/// Stands for output that is different every time: the rest of a line, part of it, or, alone, any number of lines.
const ANYTHING: char = '…';

/// Variables that lead to the settings of clients, which must not be those of the person who runs the tests.
const HOMES: &[&str] = &["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"];

/// A `$ command` in a `console` block, with its standard output below.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    command: String,
    output: String,
}

/// Runs all examples with the `coracle` in `binaries` and the MCP servers in `servers`; those of one document share an
/// empty folder below `scratch`.
pub(crate) fn run_examples(root: &Path, binaries: &Path, servers: &Path, scratch: &Path) -> Result<()> {
    if scratch.exists() {
        fs::remove_dir_all(scratch).with_context(|| format!("cannot empty {}", scratch.display()))?;
    }
    let launchers = scratch.join("launchers");
    write_launchers(servers, &launchers)?;
    for document in documents(root)? {
        let stem = document.path.file_stem().unwrap_or_default();
        run(&document, &[binaries.to_path_buf(), launchers.clone()], &scratch.join(stem))?;
    }
    fs::remove_dir_all(scratch).with_context(|| format!("cannot remove {}", scratch.display()))
}

/// Documents start servers with `npx` and `uvx`, which would download them. These start the ones that `cargo xtask needs`
/// has installed.
fn write_launchers(servers: &Path, folder: &Path) -> Result<()> {
    let npm = servers.join("npm/node_modules/.bin");
    let pypi = servers.join("venv/bin");
    let npx =
        format!("[ \"$1\" = -y ] && shift\nname=mcp-${{1#@modelcontextprotocol/}}; shift\nexec '{}'", npm.display());
    let uvx = format!("name=$1; shift\nexec '{}'", pypi.display());
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (name, script) in [("npx", npx), ("uvx", uvx)] {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}/\"$name\" \"$@\"\n"))
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// `programs` are the folders that come first on `PATH`.
fn run(document: &Document, programs: &[PathBuf], scratch: &Path) -> Result<()> {
    let shown = document.path.display();
    let (folder, home) = (scratch.join("folder"), scratch.join("home"));
    for made in [&folder, &home] {
        fs::create_dir_all(made).with_context(|| format!("cannot create {}", made.display()))?;
    }
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(programs.iter().cloned().chain(std::env::split_paths(&usual)))
        .context("cannot put coracle into PATH")?;

    for example in examples(&document.text) {
        eprintln!("$ {}", example.command);
        // Uses the same program without a second build in the release profile.
        let text = example.command.replace("cargo run --release --", "coracle");
        let mut command = Command::new("bash");
        command.args(["-c", &text]).current_dir(&folder).env("PATH", &path).env("CORACLE_HOME", scratch.join("data"));
        for name in HOMES {
            command.env(name, &home);
        }
        let run = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("cannot start bash")?;
        let output = String::from_utf8_lossy(&run.stdout);
        eprint!("{output}");
        if !run.status.success() {
            bail!("{shown}: `{}` failed: {}", example.command, run.status);
        }
        let lines = |text: &str| text.trim_end().lines().map(str::to_owned).collect::<Vec<_>>();
        if !lines_match(&lines(&example.output), &lines(&output)) {
            bail!("{shown}: `{}` should print\n{}", example.command, example.output);
        }
    }
    Ok(())
}

fn examples(text: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
            continue;
        }
        if !inside {
            continue;
        }
        if let Some(command) = line.strip_prefix("$ ") {
            examples.push(Example { command: command.to_owned(), output: String::new() });
        } else if let Some(example) = examples.last_mut() {
            match line.strip_prefix("> ").filter(|_| example.output.is_empty()) {
                Some(more) => example.command.extend(["\n", more]),
                None => example.output.extend([line, "\n"]),
            }
        }
    }
    examples
}

fn lines_match(expected: &[String], found: &[String]) -> bool {
    match expected.split_first() {
        None => found.is_empty(),
        Some((line, rest)) if line.trim() == ANYTHING.to_string() => {
            (0..=found.len()).any(|skipped| lines_match(rest, &found[skipped..]))
        }
        Some((line, rest)) => {
            found.split_first().is_some_and(|(first, others)| line_matches(line, first) && lines_match(rest, others))
        }
    }
}

fn line_matches(expected: &str, found: &str) -> bool {
    match expected.split_once(ANYTHING) {
        None => expected == found,
        Some((before, after)) => found.strip_prefix(before).is_some_and(|rest| {
            let ends = rest.char_indices().map(|(place, _)| place).chain([rest.len()]);
            ends.into_iter().any(|place| line_matches(after, &rest[place..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_the_commands_of_console_blocks() {
        let text =
            "```sh\n$ not this\n```\n```console\n$ one\n1\n2\n$ two <<END\n> in\n> END\n> out\n```\n$ nor this\n";
        assert_eq!(
            examples(text),
            [
                Example { command: "one".to_owned(), output: "1\n2\n".to_owned() },
                Example { command: "two <<END\nin\nEND\nout".to_owned(), output: String::new() },
            ]
        );
    }

    #[test]
    fn an_ellipsis_stands_for_what_changes() {
        let check = |expected: &str, found: &str| {
            let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
            lines_match(&lines(expected), &lines(found))
        };
        for (expected, found) in
            [("a … c", "a b c"), ("…", ""), ("…\nz", "x\ny\nz"), ("a\n…\nd", "a\nb\nc\nd"), ("a…", "a")]
        {
            assert!(check(expected, found), "{expected:?} {found:?}");
        }
        for (expected, found) in [("a … c", "a b d"), ("…\nz", "x\ny"), ("a\n…", "b\na"), ("a", "a\nb"), ("a\nb", "a")]
        {
            assert!(!check(expected, found), "{expected:?} {found:?}");
        }
    }

    /// Runs the examples with bash in place of `coracle`, because it also accepts `-c`.
    fn run(page: &str) -> Result<()> {
        let root = tempfile::tempdir()?;
        std::os::unix::fs::symlink("/bin/bash", root.path().join("coracle"))?;
        let document = Document { path: PathBuf::from("page.md"), text: format!("```console\n{page}```\n") };
        super::run(&document, &[root.path().to_path_buf()], &root.path().join("scratch"))
    }

    #[test]
    fn examples_run_in_one_folder_with_a_home_of_their_own() {
        let file = "$ coracle -c 'echo one > file'\n$ cat file\none\n";
        let data = "$ cargo run --release -- -c 'echo ${CORACLE_HOME##*/scratch/} ${HOME##*/scratch/}'\ndata home\n";
        run(&format!("{file}{data}")).unwrap();
    }

    #[test]
    fn servers_are_the_installed_ones() {
        let root = tempfile::tempdir().unwrap();
        for program in ["npm/node_modules/.bin/mcp-server-x", "venv/bin/server-y"] {
            let program = root.path().join(program);
            fs::create_dir_all(program.parent().unwrap()).unwrap();
            fs::write(&program, "#!/bin/sh\necho \"${0##*/}\" \"$@\"\n").unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        write_launchers(root.path(), &root.path().join("bin")).unwrap();
        let start = |name: &str, arguments: &[&str]| {
            let output = Command::new(root.path().join("bin").join(name)).args(arguments).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(start("npx", &["-y", "@modelcontextprotocol/server-x", "."]), "mcp-server-x .\n");
        assert_eq!(start("uvx", &["server-y", "--a"]), "server-y --a\n");
    }

    #[test]
    fn failing_examples_are_named() {
        let other = run("$ coracle -c 'echo one'\ntwo\n").unwrap_err().to_string();
        assert_eq!(other, "page.md: `coracle -c 'echo one'` should print\ntwo\n");
        let failure = run("$ coracle -c 'exit 7'\n").unwrap_err().to_string();
        assert_eq!(failure, "page.md: `coracle -c 'exit 7'` failed: exit status: 7");
    }
}
