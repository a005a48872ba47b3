//! Commands, one module each.

mod check;
mod dist;
mod soak;
mod test;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::steps::Steps;
use crate::{book, generated};

struct Task {
    name: &'static str,
    about: &'static str,
    run: fn(&mut Steps, &[String]) -> Result<()>,
}

const TASKS: &[Task] = &[
    Task {
        name: "test",
        about: "install what the tests need, then format, clippy, tests, examples in documents, docs",
        run: |steps, arguments| nothing(arguments).and_then(|()| test::run(steps)),
    },
    Task {
        name: "check",
        about: "format, clippy, docs, and the rules of the repository, without running tests",
        run: |steps, arguments| nothing(arguments).and_then(|()| check::run(steps)),
    },
    Task {
        name: "soak",
        about: "run the long versions of the tests [FILTER…: only tests with this in their name]",
        run: soak::run,
    },
    Task {
        name: "dist",
        about: "make packages [--out DIR] [--binary PATH] [--only tarball,wheel,npm,deb,image] [--verify]\n             \
                [--fast: compress less] [--allow-newer-glibc: packages for this machine]",
        run: dist::run,
    },
    Task {
        name: "needs",
        about: "install what the tests need, and nothing else",
        run: |steps, arguments| nothing(arguments).and_then(|()| test::needs(steps)),
    },
    Task {
        name: "examples",
        about: "run the commands in README.md and docs [DIR: folder of the `coracle` to use]",
        run: test::examples,
    },
    Task {
        name: "docs",
        about: "build the documentation as a book, with mdbook",
        run: |steps, arguments| {
            nothing(arguments)?;
            steps.step("docs", "the book", book::build)
        },
    },
    Task {
        name: "generate",
        about: "write the files that are generated and checked in [FILE…: only these]",
        run: |steps, files| steps.step("generate", "files that are generated", || generated::write(files)),
    },
];

/// Exit status for wrong usage, as in shells.
const USAGE: u8 = 2;

/// Runs the command named in `arguments`.
pub fn run(arguments: &[String]) -> ExitCode {
    let (name, rest) = match arguments.split_first() {
        None => ("help", arguments),
        Some((name, rest)) => (name.as_str(), rest),
    };
    if matches!(name, "help" | "--help" | "-h") {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    }
    let Some(task) = TASKS.iter().find(|task| task.name == name) else {
        eprint!("error: there is no command `{name}`\n\n{}", usage());
        return ExitCode::from(USAGE);
    };
    // Some tests run as an ordinary user, who must be able to read what is installed and built.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let mut steps = Steps::default();
    let result = (task.run)(&mut steps, rest);
    match result {
        Ok(()) => {
            eprint!("\n{}", steps.summary());
            ExitCode::SUCCESS
        }
        Err(error) if error.is::<WrongUsage>() => {
            eprint!("error: {error}\n\n{}", usage());
            ExitCode::from(USAGE)
        }
        Err(error) => {
            eprint!("\nerror: {error:#}\n\n{}", steps.summary());
            ExitCode::FAILURE
        }
    }
}

/// Names of all commands.
pub fn names() -> Vec<&'static str> {
    TASKS.iter().map(|task| task.name).chain(["help"]).collect()
}

/// Error for arguments that do not fit the command.
#[derive(Debug)]
struct WrongUsage(String);

impl std::fmt::Display for WrongUsage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}

fn nothing(arguments: &[String]) -> Result<()> {
    match arguments.first() {
        None => Ok(()),
        Some(argument) => bail!(unexpected(argument)),
    }
}

fn unexpected(argument: &str) -> WrongUsage {
    WrongUsage(format!("`{argument}` comes unexpectedly"))
}

fn usage() -> String {
    let lines: Vec<String> = TASKS
        .iter()
        .map(|task| (task.name, task.about))
        .chain([("help", "this text")])
        .map(|(name, about)| format!("  {name:<10} {about}\n"))
        .collect();
    format!("usage: cargo xtask COMMAND\n\n{}", lines.concat())
}
