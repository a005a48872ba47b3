//! `coracle mcp-demo`: the MCP servers of `coracle up --demo`.

use crate::status::Status;
use crate::wiring::runtime;
use anyhow::Context;
use clap::Args;
use coracle_server::DemoServer;
use std::str::FromStr;

#[derive(Debug, Args)]
pub(crate) struct McpDemoArguments {
    /// Server to be: shop or crm.
    #[arg(value_name = "SERVER", value_parser = DemoServer::from_str)]
    server: DemoServer,
}

pub(crate) fn run(arguments: &McpDemoArguments) -> anyhow::Result<Status> {
    runtime()?.block_on(coracle_server::serve_demo(arguments.server)).context("cannot serve MCP")?;
    Ok(Status::Success)
}
