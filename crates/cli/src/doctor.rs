//! `coracle doctor`: tests what this machine enforces.
//!
//! Each tier is started as a server would start it. `probe.py` then attempts forbidden actions inside, each beside a
//! similar permitted one, and the host inspects the processes from outside. `checks.rs` evaluates the results,
//! `fixes.rs` has a fix for everything that is missing, and `data.rs` checks the data folder.

mod checks;
mod data;
mod docker;
mod fixes;
mod machine;
mod native;
mod policy;
mod report;
mod table;

use crate::status::Status;
use anyhow::Context;
use clap::Args;
use machine::Machine;
use report::{Diagnosis, MachineReport};
use std::io::Write;
use std::path::Path;

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Print one line of JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &DoctorArguments, config: Option<&Path>) -> anyhow::Result<Status> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let diagnosis = runtime.context("cannot start the runtime")?.block_on(diagnose(config));
    let text = if arguments.json {
        serde_json::to_string(&diagnosis).context("cannot write the diagnosis")? + "\n"
    } else {
        table::render(&diagnosis)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    let sound = diagnosis.data.iter().all(|check| check.outcome != report::Outcome::Failed);
    Ok(if diagnosis.safe && sound { Status::Success } else { Status::Failed })
}

async fn diagnose(config: Option<&Path>) -> Diagnosis {
    let machine = Machine::read(Path::new("/"));
    let mut tiers = vec![native::examine(&machine).await];
    tiers.extend(docker::examine(config).await);
    Diagnosis {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        safe: tiers.iter().any(|tier| tier.verdict.is_safe()),
        machine: MachineReport {
            kernel: machine.kernel,
            architecture: std::env::consts::ARCH.to_owned(),
            system: machine.distribution.name,
            uid: rustix::process::geteuid().as_raw(),
        },
        tiers,
        policy: policy::examine(config).await,
        data: data::examine().await,
    }
}
