//! `coracle guardrails`: the checks of code, without running it.

use crate::output::plain;
use crate::settings::load;
use crate::status::Status;
use crate::wiring::guardrails;
use anyhow::Context;
use clap::{Args, Subcommand};
use coracle_guardrails::{Access, Catalogue, Known, Severity};
use coracle_types::Language;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Maximum length of code that is read, in bytes. More is reported as too long.
const MAX_READ: u64 = 2 << 20;

/// Maximum length of a finding on one line, in characters.
const MAX_FINDING: usize = 1_000;

#[derive(Debug, Args)]
pub(crate) struct GuardrailsArguments {
    #[command(subcommand)]
    command: GuardrailsCommand,
}

#[derive(Debug, Subcommand)]
enum GuardrailsCommand {
    /// Check code without running it. The exit code is 1 if strict mode would refuse it.
    Check(CheckArguments),
}

#[derive(Debug, Args)]
struct CheckArguments {
    /// File with the code; standard input if it is `-`.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Language of the code: python, bash or typescript [default: by file extension, otherwise python].
    #[arg(long, short = 'l', value_name = "LANGUAGE", value_parser = Language::from_str)]
    lang: Option<Language>,
}

/// Tools are not looked up, because that could start servers.
struct Unlisted;

impl Catalogue for Unlisted {
    fn look_up(&self, _server: &str, _tool: Option<&str>) -> Known {
        Known::Nothing
    }
}

pub(crate) fn run(arguments: &GuardrailsArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let GuardrailsCommand::Check(arguments) = &arguments.command;
    let loaded = load(config, Vec::new())?;
    let code = read(&arguments.file)?;
    let by_ending = match arguments.file.extension().and_then(|ending| ending.to_str()) {
        Some("sh" | "bash") => Language::Bash,
        Some("ts" | "mts" | "js" | "mjs") => Language::TypeScript,
        _ => Language::Python,
    };
    let language = arguments.lang.unwrap_or(by_ending);
    let report = guardrails(&loaded.settings).check(language, &code, &Unlisted, Access::Any);
    let mut out = std::io::stdout().lock();
    for finding in &report.findings {
        let kind = if finding.severity == Severity::Danger { "danger" } else { "advice" };
        writeln!(out, "{}", plain(&format!("{kind}: {finding}"), MAX_FINDING))?;
    }
    if report.left_out > 0 {
        writeln!(out, "{} more findings", report.left_out)?;
    }
    Ok(if report.is_harmless() { Status::Success } else { Status::Failed })
}

fn read(file: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    if file.as_os_str() == "-" {
        std::io::stdin().lock().take(MAX_READ).read_to_end(&mut bytes).context("cannot read standard input")?;
    } else {
        let opened = std::fs::File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
        opened.take(MAX_READ).read_to_end(&mut bytes).with_context(|| format!("cannot read {}", file.display()))?;
    }
    String::from_utf8(bytes).with_context(|| format!("{} is not UTF-8", file.display()))
}
