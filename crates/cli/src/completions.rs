//! `coracle completions` and `coracle man`: shell completions and man pages, generated from the definition of the
//! command line.

use crate::status::{Mistake, Status};
use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;
use std::io::Write;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_AFTER_HELP)]
pub(crate) struct CompletionsArguments {
    /// Shell to generate completions for [default: the shell in $SHELL].
    shell: Option<Shell>,
}

const COMPLETIONS_AFTER_HELP: &str = "\
Examples:
  coracle completions bash > ~/.local/share/bash-completion/completions/coracle
  coracle completions zsh > ~/.zfunc/_coracle    requires `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  coracle completions fish > ~/.config/fish/completions/coracle.fish";

#[derive(Debug, Args)]
#[command(after_help = MAN_AFTER_HELP)]
pub(crate) struct ManArguments {
    /// Command whose man page to print, such as `exec` or `servers add` [default: the coracle command itself].
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,

    /// Write the man pages of all commands to this folder instead of printing one.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    output: Option<PathBuf>,
}

const MAN_AFTER_HELP: &str = "\
Examples:
  coracle man exec | man -l -                          read one man page
  coracle man --output ~/.local/share/man/man1         install all man pages";

/// Prints the completions for a shell.
pub(crate) fn completions(arguments: &CompletionsArguments, mut command: Command) -> anyhow::Result<Status> {
    let shell = arguments.shell.or_else(Shell::from_env).ok_or_else(|| {
        Mistake::new("cannot detect the shell from $SHELL", Some("name one: bash, zsh, fish, elvish or powershell"))
    })?;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "coracle", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(Status::Success)
}

/// Prints a man page, or writes all of them.
pub(crate) fn man(arguments: &ManArguments, command: Command) -> anyhow::Result<Status> {
    let mut root = command.disable_help_subcommand(true);
    root.build();
    if let Some(folder) = &arguments.output {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let count = write_all(&root, "coracle", folder)?;
        eprintln!("wrote {} to {}", crate::output::counted(count, "page"), folder.display());
        return Ok(Status::Success);
    }
    let mut found = &root;
    let mut name = "coracle".to_owned();
    for word in &arguments.command {
        let hint = "`coracle --help` lists the commands";
        found = found
            .find_subcommand(word)
            .ok_or_else(|| Mistake::new(format!("there is no command `{name} {word}`"), Some(hint)))?;
        name = format!("{name}-{}", found.get_name());
    }
    std::io::stdout().write_all(&page(found, &name)?)?;
    Ok(Status::Success)
}

fn page(command: &Command, name: &str) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone())
        .title(name.to_owned())
        .render(&mut text)
        .context("cannot write a man page")?;
    Ok(text)
}

fn write_all(command: &Command, name: &str, folder: &std::path::Path) -> anyhow::Result<usize> {
    let path = folder.join(format!("{name}.1"));
    std::fs::write(&path, page(command, name)?).with_context(|| format!("cannot write {}", path.display()))?;
    let mut count = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        count += write_all(below, &format!("{name}-{}", below.get_name()), folder)?;
    }
    Ok(count)
}
