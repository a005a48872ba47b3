//! `coracle policy`: the policy that is in force.

mod show;

use crate::status::Status;
use clap::{Args, Subcommand};
use std::path::Path;

#[derive(Debug, Args)]
pub(crate) struct PolicyArguments {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Check the whole policy and print it.
    Show,
}

pub(crate) fn run(arguments: &PolicyArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    match &arguments.command {
        PolicyCommand::Show => show::run(config),
    }
}
