use super::install::{Builds, Installer, Order, compile, installed, tidy};
use super::progress::Progress;
use super::requirement::Requirement;
use super::{USUAL, said};
use crate::plain::counted;
use crate::status::{Mistake, Status};
use crate::wiring::cancellable;
use anyhow::Context;
use clap::Args;
use coracle_config::Settings;
use coracle_store::{ChangingEnvironments, Environment, NewEnvironment, WantedPackages};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Args)]
pub(super) struct SyncArguments {
    /// Also install packages that have to be built: that runs their authors' code here, outside of any sandbox.
    #[arg(long)]
    allow_builds: bool,
}

/// Where sandboxes see the packages; so tracebacks name them.
const SEEN_AT: &str = "/environment";

/// To find what installs, to install, to compile, to put in place.
const STEPS: u64 = 4;

/// No requirements file is longer.
const MAX_REQUIREMENTS: u64 = 1 << 20;

pub(super) fn run(
    arguments: &SyncArguments,
    settings: &Settings,
    changing: &ChangingEnvironments<'_>,
    wanted: &WantedPackages,
) -> anyhow::Result<Status> {
    let builds = if arguments.allow_builds { Builds::Allowed } else { Builds::Refused };
    let made = cancellable(async {
        let new = changing.begin().map_err(said)?;
        let environment = fill(&new, settings, wanted, builds).await?;
        changing.publish(new, environment).map_err(said)
    })?;
    let packages = counted(made.packages.len(), "package");
    eprintln!("environment {}: {packages} for Python {}, by {}", made.version, made.python.version, made.made_by);
    eprintln!("new commands use it; a server that is running does when it is started again");
    Ok(Status::Success)
}

/// Makes everything of an environment but its place.
async fn fill(
    new: &NewEnvironment,
    settings: &Settings,
    wanted: &WantedPackages,
    builds: Builds,
) -> anyhow::Result<Environment> {
    let progress = Progress::new(STEPS);
    progress.step("looking for an installer");
    let python = coracle_sandbox::interpreter(settings.execution.python.as_deref())?;
    let (files, requirements) = requirements(new.aside(), settings, wanted)?;
    let beside = settings.execution.requirements.as_deref().and_then(Path::parent).map(Path::to_owned);
    let folder = beside.unwrap_or_else(|| new.aside().to_owned());
    let installer = Installer::find(&python.path, new.aside(), &progress).await?;
    progress.step("installing");
    let order = Order { python: &python.path, files: &files, folder: &folder, packages: &new.packages, builds };
    installer.install(&order, &progress).await.map_err(|error| refused(error, builds))?;
    progress.step("compiling");
    tidy(&new.packages)?;
    compile(&python.path, &new.packages, SEEN_AT, &progress).await?;
    progress.step("putting it in place");
    tidy(&new.packages)?;
    let made_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let packages = installed(&new.packages)?;
    Ok(Environment { version: 0, made_at, made_by: installer.name().to_owned(), python, requirements, packages })
}

/// Nothing has changed, and why perhaps.
fn refused(error: anyhow::Error, builds: Builds) -> anyhow::Error {
    let why = "the packages could not be installed; what there was stays as it is";
    match builds {
        Builds::Allowed => error.context(why),
        Builds::Refused => {
            let hint = "a package that must be built is refused unless --allow-builds is given";
            anyhow::anyhow!("{why}: {error:#}\nhint: {hint}")
        }
    }
}

/// Requirements files for the installer, and what they ask for: the operator's file or the usual packages, and what was
/// added by hand.
fn requirements(
    aside: &Path,
    settings: &Settings,
    wanted: &WantedPackages,
) -> anyhow::Result<(Vec<PathBuf>, Vec<String>)> {
    let mut files = Vec::new();
    let mut asked = Vec::new();
    let mut own = wanted.added.clone();
    if let Some(file) = &settings.execution.requirements {
        let text = read(file)?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        asked.extend(lines.map(str::to_owned));
        files.push(std::path::absolute(file)?);
    } else {
        let given: Vec<String> = own.iter().map(|text| Requirement::named(text)).collect();
        let usual = USUAL.iter().map(|&name| name.to_owned());
        own.extend(usual.filter(|name| !given.contains(name) && !wanted.without.contains(name)));
    }
    asked.extend(own.iter().cloned());
    if !own.is_empty() {
        let path = aside.join("requirements.txt");
        fs::write(&path, own.join("\n") + "\n").with_context(|| path.display().to_string())?;
        files.push(path);
    }
    Ok((files, asked))
}

fn read(file: &Path) -> anyhow::Result<String> {
    let read = fs::metadata(file).and_then(|metadata| {
        if metadata.len() > MAX_REQUIREMENTS {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        fs::read_to_string(file)
    });
    read.map_err(|error| {
        let hint = "a file as pip reads it with -r; without this setting the usual packages are installed";
        Mistake::new(format!("execution.requirements: {}: {error}", file.display()), Some(hint)).into()
    })
}
