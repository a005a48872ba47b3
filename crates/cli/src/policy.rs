//! `coracle policy`: the policy in force, tests of it, and where data came from.

mod show;
mod sources;
mod test;

use crate::status::Status;
use clap::{Args, Subcommand};
use std::io::Write as _;
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
    /// Print the schema of Cedar policies, which names everything that they can read.
    Schema,
    /// Compare the decisions of the policy with those that a file expects.
    #[command(after_help = test::AFTER_HELP)]
    Test(test::TestArguments),
    /// List the servers whose data is in sessions, conversations and workspaces.
    Sources(sources::SourcesArguments),
    /// Forget where the data of a place came from.
    ForgetSources(sources::ForgetArguments),
}

pub(crate) fn run(arguments: &PolicyArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    match &arguments.command {
        PolicyCommand::Show => show::run(config),
        PolicyCommand::Schema => {
            std::io::stdout().write_all(coracle_policy::CEDAR_SCHEMA.as_bytes())?;
            Ok(Status::Success)
        }
        PolicyCommand::Test(arguments) => test::run(arguments, config),
        PolicyCommand::Sources(arguments) => sources::list(arguments),
        PolicyCommand::ForgetSources(arguments) => sources::forget(arguments),
    }
}
