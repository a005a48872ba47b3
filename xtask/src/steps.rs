//! Runs steps one after another, with headings and durations, and prints a table at the end.

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Steps that have run.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<Step>,
    details: String,
    skipped: Vec<String>,
}

struct Step {
    name: &'static str,
    duration: Duration,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
}

impl Steps {
    /// Runs a command with inherited output; fails unless the command succeeds.
    pub(crate) fn command(&mut self, name: &'static str, command: &mut Command) -> Result<()> {
        let line = render(command);
        self.step(name, &line, || {
            let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
            if !status.success() {
                bail!("`{line}` failed: {status}");
            }
            Ok(())
        })
    }

    /// Runs a check that returns one sentence for each violation.
    pub(crate) fn check(
        &mut self,
        name: &'static str,
        subject: &str,
        check: impl FnOnce() -> Result<Vec<String>>,
    ) -> Result<()> {
        self.step(name, subject, || match check()? {
            violations if violations.is_empty() => Ok(()),
            violations => bail!("{}", violations.join("\n")),
        })
    }

    /// Runs a step.
    pub(crate) fn step(&mut self, name: &'static str, subject: &str, run: impl FnOnce() -> Result<()>) -> Result<()> {
        eprintln!("\n==> {name}: {subject}");
        let start = Instant::now();
        let result = run();
        let outcome = if result.is_ok() { Outcome::Passed } else { Outcome::Failed };
        self.done.push(Step { name, duration: start.elapsed(), outcome });
        result.with_context(|| format!("{name} failed"))
    }

    /// Adds text below the table.
    pub(crate) fn detail(&mut self, text: &str) {
        self.details += "\n";
        self.details += text;
    }

    /// Adds what was skipped to the summary, one line each.
    pub(crate) fn skipped(&mut self, lines: Vec<String>) {
        self.skipped.extend(lines);
    }

    /// Returns one line for each step, the total, the details, and what was skipped.
    pub(crate) fn summary(&self) -> String {
        let mut table = format!("{:<12} {:>9}\n", "step", "seconds");
        for Step { name, duration, outcome } in &self.done {
            let mark = match outcome {
                Outcome::Passed => "",
                Outcome::Failed => "  failed",
            };
            // Writing to a `String` cannot fail.
            let _ = writeln!(table, "{name:<12} {:>9.1}{mark}", duration.as_secs_f64());
        }
        let total: Duration = self.done.iter().map(|step| step.duration).sum();
        let _ = writeln!(table, "{:<12} {:>9.1}", "total", total.as_secs_f64());
        table += &self.details;
        if !self.skipped.is_empty() {
            let _ = writeln!(table, "\nskipped:\n  {}", self.skipped.join("\n  "));
        }
        table
    }
}

/// Renders a command as a person would type it.
pub(crate) fn render(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program()).file_stem().unwrap_or_default();
    std::iter::once(program).chain(command.get_args()).map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_an_error_and_has_its_line_in_the_table() {
        let mut steps = Steps::default();
        steps.command("good", Command::new("/bin/sh").args(["-c", "exit 0"])).unwrap();
        let error = steps.command("bad", Command::new("/bin/sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(format!("{error:#}"), "bad failed: `sh -c exit 3` failed: exit status: 3");

        let table = steps.summary();
        let first_words: Vec<_> = table.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(first_words, ["step", "good", "bad", "total"]);
        let failed: Vec<_> = table.lines().filter(|line| line.ends_with("  failed")).collect();
        assert_eq!(failed.len(), 1);
        assert!(failed[0].starts_with("bad"));
        steps.detail("more\n");
        assert_eq!(steps.summary(), format!("{table}\nmore\n"));
        assert!(!table.contains("skipped"));

        steps.skipped(vec!["no tmux (terminal)".to_owned(), "no root (other)".to_owned()]);
        let table = steps.summary();
        assert!(table.ends_with("\n\nskipped:\n  no tmux (terminal)\n  no root (other)\n"), "{table}");
    }

    #[test]
    fn a_check_with_violations_is_an_error_that_lists_them() {
        let mut steps = Steps::default();
        steps.check("quiet", "nothing", || Ok(Vec::new())).unwrap();
        let error = steps.check("loud", "two", || Ok(vec!["one".to_owned(), "two".to_owned()])).unwrap_err();
        assert_eq!(format!("{error:#}"), "loud failed: one\ntwo");
    }
}
