//! The `coracle` program: arguments, wiring, exit codes.
//!
//! Each subcommand is a module with its arguments and a function `run` that returns the exit status. `wiring.rs`
//! connects engine and backend. Standard output is for data; everything else goes to standard error.

/// Replaces the macro of the standard library, which panics if standard error cannot be written. A full disk must not
/// end a server because a message is lost.
macro_rules! eprintln {
    ($($words:tt)*) => {
        $crate::say(format_args!("{}\n", format_args!($($words)*)))
    };
}

/// Prints to standard error without a line break; see `eprintln`.
macro_rules! eprint {
    ($($words:tt)*) => {
        $crate::say(format_args!($($words)*))
    };
}

mod agent;
mod artifacts;
mod audit;
mod backends;
mod backup;
mod bench;
mod chat;
mod completions;
mod config;
mod doctor;
#[cfg(test)]
mod documents;
mod exec;
mod failures;
mod flows;
mod frontend;
mod guardrails;
mod image;
mod install_method;
mod installation;
mod listening;
mod log;
mod mcp;
mod mcp_demo;
mod models;
mod oauth_tokens;
mod output;
mod pii;
mod plans;
mod policy;
mod python_environment;
mod recursion;
mod resources;
mod servers;
mod sessions;
mod settings;
mod signals;
mod skills;
mod spinner;
mod status;
mod task;
mod terminal;
mod tools;
mod up;
mod users;
mod variables;
mod wiring;
#[cfg(test)]
mod wording;
mod workspace_folder;
mod workspaces;

use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Run code from AI agents in a sandbox, with MCP tools available as functions.
#[derive(Debug, Parser)]
#[command(name = "coracle", version, propagate_version = true, after_help = AFTER_HELP)]
struct Arguments {
    /// Settings file to use instead of coracle.yaml in the current folder or the data folder.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  coracle exec -c 'print(6*7)'                    run Python in a fresh sandbox
  coracle exec --lang bash --workspace data x.sh  run a script with the folder `data` as /workspace
  coracle mcp --install claude                    connect an MCP client
  coracle up                                      serve MCP over HTTP
  coracle up --demo                               see it work, without a model or settings
  coracle task 'Who wrote most of this code?'     let a model do it with code and tools
  coracle users add ann --admin                   add the first user; sign-in is required from then on
  coracle servers import                          import MCP servers from other clients
  coracle servers test                            check that the servers work
  coracle tools list                              list the tools that code can call
  coracle env sync                                install NumPy, pandas and others for sandboxed code
  coracle doctor                                  check whether it is safe to run code on this machine

Environment:
  CORACLE_HOME    data folder [default: ~/.coracle]
  CORACLE_CONFIG  settings file; --config takes precedence
  CORACLE_PYTHON  Python interpreter for sandboxes [default: the system's python3, or the first on PATH]
  CORACLE_LOG     log level or filter, such as debug or coracle_sandbox=debug [default: warn]";

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve MCP over HTTP to any number of clients.
    Up(up::UpArguments),
    /// Serve one MCP client over stdio, or connect a client with --install.
    Mcp(mcp::McpArguments),
    /// Run code in a fresh sandbox.
    Exec(exec::ExecArguments),
    /// Talk with the agent at the terminal.
    Chat(chat::ChatArguments),
    /// Give the agent a task: a model writes code that calls tools, until the task is done.
    Task(task::TaskArguments),
    /// Find personal data and secrets in text, and replace them by tokens.
    Pii(pii::PiiArguments),
    /// List the models that can be used.
    Models(models::ModelsArguments),
    /// Manage users and API keys for `coracle up`.
    Users(users::UsersArguments),
    /// Manage the MCP servers whose tools code can call.
    Servers(servers::ServersArguments),
    /// List, search and inspect the tools of the configured MCP servers.
    Tools(tools::ToolsArguments),
    /// Manage skills: saved code and folders with instructions.
    Skills(skills::SkillsArguments),
    /// Manage the Python packages that sandboxed code can import.
    Env(python_environment::EnvArguments),
    /// Make the container image for sandboxes of type `docker`.
    Image(image::ImageArguments),
    /// List, inspect, replay and remove sessions.
    Sessions(sessions::SessionsArguments),
    /// List plans of what code would do, and run them after approval.
    Plans(plans::PlansArguments),
    /// List, open and save files that code wrote to /artifacts.
    Artifacts(artifacts::ArtifactsArguments),
    /// Show, check and export the audit log.
    Audit(audit::AuditArguments),
    /// Back up the data folder to one file, even while a server is running.
    Backup(backup::BackupArguments),
    /// Restore the data folder from a backup.
    Restore(backup::RestoreArguments),
    /// List user workspaces and clean up unused ones.
    Workspaces(workspaces::WorkspacesArguments),
    /// Test the rules for tool calls, and show where data came from.
    Policy(policy::PolicyArguments),
    /// Check code without running it.
    Guardrails(guardrails::GuardrailsArguments),
    /// Show the settings and their origins.
    Config(config::ConfigArguments),
    /// Test sandbox isolation on this machine and check the data folder.
    Doctor(doctor::DoctorArguments),
    /// Show the version, where its files are, and how to remove Coracle.
    #[command(name = "self")]
    Installation(installation::SelfArguments),
    /// Generate shell completions.
    Completions(completions::CompletionsArguments),
    /// Print a man page, or write all man pages to a folder.
    Man(completions::ManArguments),
    /// Serve invented data over stdio, for `coracle up --demo`.
    #[command(hide = true)]
    McpDemo(mcp_demo::McpDemoArguments),
    /// Run benchmarks of Coracle and comparable tools.
    Bench(coracle_bench::BenchArguments),
}

/// Writes to standard error and ignores failures.
fn say(text: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    let _ = std::io::stderr().write_fmt(text);
}

fn main() -> ExitCode {
    // Before anything else: the launcher must be single-threaded.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == coracle_sandbox::LAUNCHER_ARGUMENT) {
        return coracle_sandbox::launcher_main();
    }
    // The warden only waits for the end of the program that started it.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == coracle_upstream::WARDEN_ARGUMENT) {
        return coracle_upstream::warden_main();
    }
    // Inside a sandbox, this program is the guest.
    if let Some(guest) = coracle_guest::guest_main() {
        return guest;
    }
    coracle_sandbox::reset_sigchld();
    // Starts the launcher for `exec` and `mcp` before parsing their other arguments, to save time.
    let ahead = needs_sandbox().then(exec::Ahead::new);
    let arguments = Arguments::parse();
    log::start(match arguments.command {
        // These commands report problems of servers themselves.
        Command::Servers(_) | Command::Tools(_) | Command::Skills(_) => "warn,rmcp=off,coracle_upstream=error",
        // Errors of the MCP library are also reported as our own.
        _ => "warn,rmcp=off",
    });
    raise_open_files();
    let config = arguments.config.as_deref();
    let outcome = match arguments.command {
        Command::Up(arguments) => up::run(&arguments, config),
        Command::Mcp(arguments) => mcp::run(&arguments, config, ahead),
        Command::Exec(arguments) => exec::run(arguments, config, ahead),
        Command::Chat(arguments) => chat::run(&arguments, config),
        Command::Task(arguments) => task::run(&arguments, config),
        Command::Models(arguments) => models::run(&arguments, config),
        Command::Users(arguments) => users::run(arguments, config),
        Command::Servers(arguments) => servers::run(arguments, config),
        Command::Tools(arguments) => tools::run(&arguments, config),
        Command::Skills(arguments) => skills::run(&arguments, config),
        Command::Env(arguments) => python_environment::run(arguments, config),
        Command::Sessions(arguments) => sessions::run(&arguments, config),
        Command::Plans(arguments) => plans::run(&arguments, config),
        Command::Artifacts(arguments) => artifacts::run(&arguments, config),
        Command::Audit(arguments) => audit::run(arguments, config),
        Command::Pii(arguments) => pii::run(&arguments, config),
        Command::Completions(arguments) => completions::completions(&arguments, Arguments::command()),
        Command::Man(arguments) => completions::man(&arguments, Arguments::command()),
        Command::Backup(arguments) => backup::run(&arguments, config),
        Command::Restore(arguments) => backup::restore(&arguments, config),
        Command::Workspaces(arguments) => workspaces::run(&arguments, config),
        Command::Policy(arguments) => policy::run(&arguments, config),
        Command::Guardrails(arguments) => guardrails::run(&arguments, config),
        Command::Config(arguments) => config::run(&arguments, config),
        Command::Image(arguments) => image::run(arguments, config),
        Command::Doctor(arguments) => doctor::run(&arguments, config),
        Command::Installation(arguments) => installation::run(&arguments, config),
        Command::McpDemo(arguments) => mcp_demo::run(&arguments),
        Command::Bench(arguments) => bench::run(arguments, config),
    };
    match outcome {
        Ok(status) => status.into(),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if error.is::<status::Cancelled>() => status::Status::Cancelled.into(),
        Err(error) => {
            eprint!("{}", output::error_text(&error));
            let mistake = error.is::<status::Mistake>();
            if mistake { status::Status::Usage } else { status::Status::Unavailable }.into()
        }
    }
}

/// Whether the command will soon need a sandbox, judged by its first arguments.
fn needs_sandbox() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("exec") => true,
        Some("mcp") => !arguments.any(|argument| argument.as_encoded_bytes().starts_with(b"--install")),
        _ => false,
    }
}

/// The reader of the output has closed the pipe, which is not an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(broken))
}

/// Raises the soft limit on open files. Every sandbox needs some descriptors, and the usual limit is for programs that
/// use `select`. Sandboxes have a limit of their own.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "cannot raise the limit on open files");
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::{Command, CommandFactory, Parser};

    /// Splits a command line like a shell, up to a pipe, a redirection or the description beside it.
    fn words(line: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let (mut word, mut quoted, mut spaces) = (None::<String>, false, 0);
        for c in line.trim().chars() {
            match c {
                '\'' => {
                    quoted = !quoted;
                    word.get_or_insert_default();
                }
                ' ' if !quoted => {
                    words.extend(word.take());
                    spaces += 1;
                    if spaces > 1 {
                        return words;
                    }
                    continue;
                }
                '|' | '>' if !quoted => break,
                c => word.get_or_insert_default().push(c),
            }
            spaces = 0;
        }
        words.extend(word);
        words
    }

    fn check(command: &Command, seen: &mut usize) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in help.lines().filter(|line| line.starts_with("  coracle ")) {
            let parsed = Arguments::try_parse_from(words(line));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            *seen += 1;
        }
        for below in command.get_subcommands() {
            check(below, seen);
        }
    }

    #[test]
    fn every_example_in_the_help_can_be_parsed() {
        let mut seen = 0;
        check(&Arguments::command(), &mut seen);
        assert!(seen > 40, "{seen}");
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }
}
