use crate::outcome::Outcome;
use crate::setup::{OwnTools, Setup};
use crate::tools::{BASELINE, Baseline};
use crate::{agent, pii, sandbox, search, server, tokens, tools};
use anyhow::Context;
use clap::{Args, Subcommand};

/// Arguments of `coracle bench`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Measure the start-up time, throughput and memory use of sandboxes.
    Sandbox(sandbox::SandboxArguments),
    /// Measure the latency of tool calls from sandboxed code and from the Python MCP client.
    Tools(tools::ToolsArguments),
    /// Measure the quality and speed of tool search, and the cost of the index.
    Search(search::SearchArguments),
    /// Count the tokens that a model reads and writes: tool definitions of your servers, and tasks done with direct
    /// calls and with code.
    Tokens(tokens::TokensArguments),
    /// Measure one server under load: live sessions, concurrent executions and memory over time.
    Server(server::ServerArguments),
    /// Measure the agent: the time to the first text of many conversations at once, beside the model server alone.
    Agent(agent::AgentArguments),
    /// Measure how well and how fast personal data is found, beside Presidio.
    Pii(pii::PiiArguments),
    /// Run a server of the bare protocol library, as the baseline for `bench tools`.
    #[command(name = BASELINE, hide = true)]
    Baseline,
}

/// Runs a benchmark. Everything ends when the future is dropped.
pub async fn run(arguments: BenchArguments, setup: Setup, own_tools: OwnTools) -> anyhow::Result<Outcome> {
    match arguments.what {
        What::Search(arguments) => search::run(arguments).await.map(Outcome::from),
        What::Sandbox(arguments) => Box::pin(sandbox::run(arguments, setup)).await.map(Outcome::from),
        What::Tools(arguments) => Box::pin(tools::run(arguments, setup)).await.map(Outcome::from),
        What::Tokens(arguments) => Box::pin(tokens::run(arguments, own_tools)).await,
        What::Server(arguments) => Box::pin(server::run(arguments)).await,
        What::Agent(arguments) => Box::pin(agent::run(arguments)).await,
        What::Pii(arguments) => Box::pin(pii::run(arguments)).await,
        What::Baseline => {
            Baseline.over_stdio().await.context("cannot serve")?;
            Ok(Outcome::from(String::new()))
        }
    }
}
