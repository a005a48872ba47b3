//! `coracle image`: the container image for sandboxes of type `docker`, from what is on this machine.

use crate::backends::Containers;
use crate::output::counted;
use crate::settings::load;
use crate::status::Status;
use crate::variables;
use crate::wiring::cancellable;
use anyhow::Context;
use clap::{Args, Subcommand};
use coracle_sandbox::{ImageParts, build_image};
use std::path::Path;

#[derive(Debug, Args)]
pub(crate) struct ImageArguments {
    #[command(subcommand)]
    command: ImageCommand,
}

#[derive(Debug, Subcommand)]
enum ImageCommand {
    /// Make an image of this machine's Python, bash and basic tools, and import it into the engine. Nothing is
    /// downloaded.
    Build(BuildArguments),
}

#[derive(Debug, Args)]
struct BuildArguments {
    /// Name of the image [default: execution.sandbox_image, or else coracle-sandbox:latest].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Leave out the packages of `coracle env`, so that only Python's standard library can be imported.
    #[arg(long)]
    no_packages: bool,
}

pub(crate) fn run(arguments: ImageArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let ImageCommand::Build(arguments) = arguments.command;
    let loaded = load(config, Vec::new())?;
    let containers = Containers::described(&loaded.settings);
    let packages = if arguments.no_packages { None } else { crate::python_environment::current()? };
    let parts = ImageParts {
        python: loaded.settings.execution.python.clone(),
        packages: packages.map(|environment| environment.folder),
        program: Some(std::env::current_exe().context("cannot find this program")?),
    };
    let has_packages = parts.packages.is_some();
    let name = arguments.name.unwrap_or(containers.image);
    let home = variables::home()?;
    std::fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    let made = cancellable(async { Ok(build_image(containers.host.as_deref(), &name, parts, &home).await?) })?;
    let with = if has_packages { "with the packages of `coracle env`" } else { "without packages" };
    let megabytes = made.bytes.div_ceil(1_000_000);
    eprintln!("{}: {}, {megabytes} MB, {with}", made.name, counted(made.files, "file"));
    if !arguments.no_packages && !has_packages {
        eprintln!("there is no environment yet: run `coracle env sync`, then build again to include its packages");
    }
    eprintln!("to use it: execution: {{ sandbox_type: docker, sandbox_image: \"{}\" }}", made.name);
    Ok(Status::Success)
}
