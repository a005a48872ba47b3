//! The `coracle` program: arguments, wiring, exit codes.
//!
//! Each subcommand is a module with its arguments and a `run` that returns the exit status; `wiring.rs` joins engine and
//! backend. Standard output is data; everything else goes to standard error.

/// As the macro of the standard library, which panics where standard error cannot be written: on a full disk that would
/// end a server for want of a message. What nobody can read is not said.
macro_rules! eprintln {
    ($($words:tt)*) => {
        $crate::say(format_args!("{}\n", format_args!($($words)*)))
    };
}

/// The same without the end of the line.
macro_rules! eprint {
    ($($words:tt)*) => {
        $crate::say(format_args!($($words)*))
    };
}

mod artifacts;
mod backup;
mod bench;
mod completions;
mod config;
mod doctor;
mod environment;
mod exec;
mod face;
mod failures;
mod itself;
mod log;
mod mcp;
mod named_workspace;
mod packages;
mod plain;
mod process_tree;
mod resources;
mod servers;
mod sessions;
mod settings;
mod signals;
mod skills;
mod spinner;
mod status;
mod terminal;
mod timing;
mod tokens;
mod tools;
mod up;
mod users;
mod wiring;
mod workspaces;

use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Lets an AI agent write code that calls tools, in a small sealed sandbox.
#[derive(Debug, Parser)]
#[command(name = "coracle", version, propagate_version = true, after_help = AFTER_HELP)]
struct Arguments {
    /// The settings file, instead of coracle.yaml here or in the data folder.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  coracle exec -c 'print(6*7)'                    Python, in a sandbox of its own
  coracle exec --lang bash --workspace data x.sh  a script, on the files of one folder
  coracle mcp --install claude                    connect an MCP client: three tools instead of three hundred
  coracle up                                      serve MCP over HTTP
  coracle users add ann --admin                   share it: from then on everyone signs in
  coracle servers import                          take over the servers that other clients have
  coracle servers test                            do they work?
  coracle tools list                              what code can call
  coracle env sync                                NumPy, pandas and the like for code to import
  coracle doctor                                  is it safe here, and what is missing?

Environment:
  CORACLE_HOME    the data folder [default: ~/.coracle]
  CORACLE_CONFIG  the settings file, as --config names it
  CORACLE_PYTHON  the interpreter for sandboxes [default: the system's python3]
  CORACLE_LOG     what is logged to standard error [default: warn]";

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve: MCP over HTTP, for any number of clients.
    Up(up::UpArguments),
    /// Serve one MCP client over standard input and output; --install writes its entry.
    Mcp(mcp::McpArguments),
    /// Run code in a fresh sandbox.
    Exec(exec::ExecArguments),
    /// Who may sign in to `coracle up`, and the keys of their programs.
    Users(users::UsersArguments),
    /// Other people's MCP servers: list, add, remove, test, import, sign in.
    Servers(servers::ServersArguments),
    /// The tools of these servers, as code sees them.
    Tools(tools::ToolsArguments),
    /// Code to import and instructions to read: list, search, show, add, test, remove.
    Skills(skills::SkillsArguments),
    /// The Python packages that code can import: sync, list, add, remove.
    Env(packages::EnvArguments),
    /// What ran in sessions: list, show, resume, export, replay, end, remove.
    Sessions(sessions::SessionsArguments),
    /// What code has left in /artifacts: list, open, save.
    Artifacts(artifacts::ArtifactsArguments),
    /// Write the data folder into one file, also while a server runs.
    Backup(backup::BackupArguments),
    /// Read the data folder from such a file.
    Restore(backup::RestoreArguments),
    /// The folders of users: how full they are, and those that nobody uses any more.
    Workspaces(workspaces::WorkspacesArguments),
    /// The settings, and where each of them came from.
    Config(config::ConfigArguments),
    /// Say what this machine's sandboxes really enforce, by trying it.
    Doctor(doctor::DoctorArguments),
    /// Print the completions of a shell.
    Completions(completions::CompletionsArguments),
    /// Print a manual page, or write all of them.
    Man(completions::ManArguments),
    /// Measure Coracle beside its peers and the floor, in one run.
    Bench(bench::BenchArguments),
}

/// Writes to standard error, if that can be written.
fn say(text: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    let _ = std::io::stderr().write_fmt(text);
}

fn main() -> ExitCode {
    // Before anything else: the launcher must have one thread and nothing on its hands.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == coracle_sandbox::LAUNCHER_ARGUMENT) {
        return coracle_sandbox::launcher_main();
    }
    // Nor has this anything to do with what follows: it waits for the end of the program that started it.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == coracle_upstream::WARDEN_ARGUMENT) {
        return coracle_upstream::warden_main();
    }
    // Inside a sandbox this program is something else, and has none of what follows.
    if let Some(guest) = coracle_guest::guest_main() {
        return guest;
    }
    coracle_sandbox::hear_of_children();
    // What `exec` and `mcp` need first is begun before their other arguments are read.
    let ahead = needs_sandbox().then(exec::Ahead::new);
    let arguments = Arguments::parse();
    log::start(match arguments.command {
        // They say themselves what is the matter with a server.
        Command::Servers(_) | Command::Tools(_) | Command::Skills(_) => "warn,rmcp=off,coracle_upstream=error",
        // What the library complains about comes as an error of ours too.
        _ => "warn,rmcp=off",
    });
    raise_open_files();
    let config = arguments.config.as_deref();
    let outcome = match arguments.command {
        Command::Up(arguments) => up::run(&arguments, config),
        Command::Mcp(arguments) => mcp::run(&arguments, config, ahead),
        Command::Exec(arguments) => exec::run(arguments, config, ahead),
        Command::Users(arguments) => users::run(arguments, config),
        Command::Servers(arguments) => servers::run(arguments, config),
        Command::Tools(arguments) => tools::run(&arguments, config),
        Command::Skills(arguments) => skills::run(&arguments, config),
        Command::Env(arguments) => packages::run(arguments, config),
        Command::Sessions(arguments) => sessions::run(&arguments, config),
        Command::Artifacts(arguments) => artifacts::run(&arguments, config),
        Command::Completions(arguments) => completions::completions(&arguments, Arguments::command()),
        Command::Man(arguments) => completions::man(&arguments, Arguments::command()),
        Command::Backup(arguments) => backup::run(&arguments, config),
        Command::Restore(arguments) => backup::restore(&arguments, config),
        Command::Workspaces(arguments) => workspaces::run(&arguments, config),
        Command::Config(arguments) => config::run(&arguments, config),
        Command::Doctor(arguments) => doctor::run(&arguments, config),
        Command::Bench(arguments) => bench::run(arguments, config),
    };
    match outcome {
        Ok(status) => status.into(),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if error.is::<status::Cancelled>() => status::Status::Cancelled.into(),
        Err(error) => {
            eprint!("{}", plain::error_text(&error));
            let mistake = error.is::<status::Mistake>();
            if mistake { status::Status::Usage } else { status::Status::Unavailable }.into()
        }
    }
}

/// Whether the command will make a sandbox soon, as far as can be told at a glance.
fn needs_sandbox() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("exec") => true,
        Some("mcp") => !arguments.any(|argument| argument.as_encoded_bytes().starts_with(b"--install")),
        _ => false,
    }
}

/// Whoever read our output has had enough: no error of ours.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(broken))
}

/// Every sandbox takes some descriptors, and the usual soft limit is meant for programs that use `select`. Sandboxes have
/// a limit of their own.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "the limit on open files stays as it is");
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::{Command, CommandFactory, Parser};

    /// The words of a command line, as a shell splits it, up to a pipe, a redirection or the description beside it.
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
    fn every_example_in_the_help_is_a_command() {
        let mut seen = 0;
        check(&Arguments::command(), &mut seen);
        assert!(seen > 40, "{seen}");
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }
}
