//! `cargo xtask check`: all checks except tests, to run before a commit.

use anyhow::Result;

use crate::architecture::architecture_violations;
use crate::circles::circle_violations;
use crate::directions::direction_violations;
use crate::documents::document_violations;
use crate::generated::reference_violations;
use crate::licences::licence_violations;
use crate::metadata::{Metadata, Resolve, cargo, repository};
use crate::steps::Steps;
use crate::tidy::tidy_report;
use crate::unsafe_code::unsafe_violations;

pub(super) fn run(steps: &mut Steps) -> Result<()> {
    format(steps)?;
    steps.check("directions", "dependencies between crates", || {
        Ok(direction_violations(&Metadata::load(Resolve::Members)?))
    })?;
    steps.check("drawing", "crates in ARCHITECTURE.md", || {
        architecture_violations(&repository(), &Metadata::load(Resolve::Members)?)
    })?;
    steps.check("circles", "imports between files", || circle_violations(&repository()))?;
    steps.check("unsafe", "files with `unsafe` code", || unsafe_violations(&repository()))?;
    steps.check("licences", "of every dependency", || Ok(licence_violations(&Metadata::load(Resolve::Everything)?)))?;
    steps.check("tidy", "style rules", || {
        let report = tidy_report(&repository())?;
        for warning in report.warnings {
            eprintln!("warning: {warning}");
        }
        Ok(report.violations)
    })?;
    steps.check("documents", "commands and links in documents", || {
        document_violations(&repository(), &super::names())
    })?;
    steps.check("generated", "the configuration reference", || reference_violations(&repository()))?;
    clippy(steps)?;
    docs(steps)
}

pub(super) fn format(steps: &mut Steps) -> Result<()> {
    steps.command("format", cargo().args(["fmt", "--all", "--check"]))
}

pub(super) fn clippy(steps: &mut Steps) -> Result<()> {
    let arguments = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    steps.command("clippy", cargo().args(arguments))
}

pub(super) fn docs(steps: &mut Steps) -> Result<()> {
    steps.command(
        "docs",
        cargo().args(["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings"),
    )
}
