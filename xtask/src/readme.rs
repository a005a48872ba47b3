//! Checks the README: its commands and links exist, and its examples print what they show.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// The two commands for a fresh clone.
const COMMANDS: &[&str] = &["cargo run --release -- exec -c 'print(6*7)'", "cargo xtask test"];

/// A `$ command` in a `console` block, with its standard output below.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    command: String,
    output: String,
}

/// Returns one sentence for each problem of the README at `root`. `commands` are the commands of `cargo xtask`.
pub fn readme_violations(root: &Path, commands: &[&str]) -> Result<Vec<String>> {
    let text = read(root)?;
    Ok(text_violations(&text, commands, |link| root.join(link).exists()))
}

/// Runs every example with the `coracle` in `binaries`, in an empty folder below `scratch`.
pub(crate) fn run_examples(root: &Path, binaries: &Path, scratch: &Path) -> Result<()> {
    if scratch.exists() {
        fs::remove_dir_all(scratch).with_context(|| format!("cannot empty {}", scratch.display()))?;
    }
    let folder = scratch.join("folder");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut path = vec![binaries.to_path_buf()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let path = std::env::join_paths(path).context("cannot put coracle into PATH")?;

    for example in examples(&read(root)?) {
        eprintln!("$ {}", example.command);
        // Uses the same program without a second build in the release profile.
        let command = example.command.replace("cargo run --release --", "coracle");
        let run = Command::new("bash")
            .args(["-c", &command])
            .current_dir(&folder)
            .env("PATH", &path)
            .env("CORACLE_HOME", scratch.join("home"))
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start bash")?;
        let output = String::from_utf8_lossy(&run.stdout);
        eprint!("{output}");
        if !run.status.success() {
            bail!("README.md: `{}` failed: {}", example.command, run.status);
        }
        if output.trim_end() != example.output.trim_end() {
            bail!("README.md: `{}` should print\n{}", example.command, example.output);
        }
    }
    fs::remove_dir_all(scratch).with_context(|| format!("cannot remove {}", scratch.display()))
}

fn read(root: &Path) -> Result<String> {
    fs::read_to_string(root.join("README.md")).context("cannot read README.md")
}

fn text_violations(text: &str, tasks: &[&str], link_exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut violations = Vec::new();
    for command in COMMANDS.iter().filter(|command| !text.contains(*command)) {
        violations.push(format!("README.md: the command `{command}` is missing"));
    }
    for task in after_each(text, "cargo xtask ", |c| !c.is_ascii_alphanumeric() && c != '-') {
        if !tasks.contains(&task) {
            violations.push(format!("README.md: `cargo xtask {task}` does not exist"));
        }
    }
    for link in after_each(text, "](", |c| c == ')' || c == '#') {
        if !link.is_empty() && !link.contains("://") && !link_exists(link) {
            violations.push(format!("README.md: the link to `{link}` leads nowhere"));
        }
    }
    violations
}

/// Text after each `marker`, up to a character for which `ends` is true.
fn after_each<'a>(text: &'a str, marker: &str, ends: impl Fn(char) -> bool) -> Vec<&'a str> {
    text.split(marker).skip(1).filter_map(|rest| rest.split(&ends).next()).collect()
}

fn examples(text: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            examples.push(Example { command: command.to_owned(), output: String::new() });
        } else if let Some(example) = examples.last_mut().filter(|_| inside) {
            example.output.push_str(line);
            example.output.push('\n');
        }
    }
    examples
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(more: &str) -> String {
        format!("{}\n{}\n{more}", COMMANDS[0], COMMANDS[1])
    }

    fn violations(text: &str) -> Vec<String> {
        text_violations(text, &["test", "soak"], |link| link == "SECURITY.md")
    }

    #[test]
    fn both_commands_are_required() {
        assert_eq!(violations(&complete("")), Vec::<String>::new());
        assert_eq!(violations("").len(), COMMANDS.len());
    }

    #[test]
    fn tasks_must_exist() {
        assert_eq!(violations(&complete("`cargo xtask soak`")), Vec::<String>::new());
        assert_eq!(violations(&complete("`cargo xtask nothing`")), ["README.md: `cargo xtask nothing` does not exist"]);
    }

    #[test]
    fn links_must_lead_somewhere() {
        let good = "[a](SECURITY.md) [b](SECURITY.md#layers) [c](#limits) [d](https://example.org/)";
        assert_eq!(violations(&complete(good)), Vec::<String>::new());
        assert_eq!(violations(&complete("[a](NOWHERE.md)")), ["README.md: the link to `NOWHERE.md` leads nowhere"]);
    }

    #[test]
    fn examples_are_the_commands_of_console_blocks() {
        let text = "```sh\n$ not this\n```\n```console\n$ one\n1\n2\n$ two\n```\n$ nor this\n";
        assert_eq!(
            examples(text),
            [
                Example { command: "one".to_owned(), output: "1\n2\n".to_owned() },
                Example { command: "two".to_owned(), output: String::new() },
            ]
        );
    }

    /// Runs the examples with bash in place of `coracle`, because it also accepts `-c`.
    fn run(readme: &str) -> Result<()> {
        let root = tempfile::tempdir()?;
        std::os::unix::fs::symlink("/bin/bash", root.path().join("coracle"))?;
        fs::write(root.path().join("README.md"), format!("```console\n{readme}```\n"))?;
        run_examples(root.path(), root.path(), &root.path().join("scratch"))
    }

    #[test]
    fn examples_run_in_one_folder_with_a_home_of_their_own() {
        let file = "$ coracle -c 'echo one > file'\n$ cat file\none\n";
        let home = "$ cargo run --release -- -c 'echo ${CORACLE_HOME##*/scratch/}'\nhome\n";
        run(&format!("{file}{home}")).unwrap();
    }

    #[test]
    fn failing_examples_are_named() {
        let other = run("$ coracle -c 'echo one'\ntwo\n").unwrap_err().to_string();
        assert_eq!(other, "README.md: `coracle -c 'echo one'` should print\ntwo\n");
        let failure = run("$ coracle -c 'exit 7'\n").unwrap_err().to_string();
        assert_eq!(failure, "README.md: `coracle -c 'exit 7'` failed: exit status: 7");
    }
}
