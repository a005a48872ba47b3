//! The commands as users run them: output, exit codes, bad input and signals.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod bench;
mod bench_tokens;
mod config;
mod doctor;
mod env;
mod examples;
mod exec;
mod exec_errors;
mod exec_signals;
mod newcomer;
mod pii;
mod self_command;
mod server_sandbox;
mod servers;
mod servers_interactive;
mod sessions;
mod settings_followed;
mod terminal;
mod tools;
mod users;
mod workspaces;
