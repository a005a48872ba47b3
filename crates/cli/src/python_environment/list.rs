use crate::output::{columns, json, plain};
use crate::status::Status;
use clap::Args;
use coracle_environments::Listing;
use coracle_store::Environment;
use serde_json::{Value, json};
use std::io::Write;

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// Maximum length of a printed name or version in characters.
const SHOWN: usize = 80;

pub(super) fn run(arguments: &ListArguments, listing: &Listing) -> anyhow::Result<Status> {
    let Listing { current, fits, all } = listing;
    let mut stdout = std::io::stdout();
    if arguments.json {
        let versions: Vec<Value> = all.iter().map(|one| summary(one, current.as_ref())).collect();
        let shown = json!({ "current": current, "fits": fits.as_ref().map(Result::is_ok), "versions": versions });
        stdout.write_all(json(&shown)?.as_bytes())?;
        return Ok(Status::Success);
    }
    let Some(current) = current else {
        eprintln!("no environment: sandboxes have only the packages of the interpreter\nhint: coracle env sync");
        return Ok(Status::Success);
    };
    let rows = current.packages.iter().map(|package| [plain(&package.name, SHOWN), plain(&package.version, SHOWN)]);
    stdout.write_all(columns(rows).as_bytes())?;
    let python = &current.python;
    eprintln!("environment {} for Python {} ({})", current.version, python.version, python.path.display());
    if let Some(Err(reason)) = fits {
        eprintln!("sandboxes ignore this environment: {reason}\nhint: coracle env sync");
    }
    for older in all.iter().filter(|one| one.version != current.version) {
        eprintln!(
            "older environment {} is still there: `coracle env remove --environment {0}` removes it",
            older.version
        );
    }
    Ok(Status::Success)
}

fn summary(one: &Environment, current: Option<&Environment>) -> Value {
    json!({
        "version": one.version,
        "made_at": one.made_at,
        "python": one.python.version,
        "packages": one.packages.len(),
        "current": current.is_some_and(|current| current.version == one.version),
    })
}
