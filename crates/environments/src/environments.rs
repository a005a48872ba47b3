use crate::base::Base;
use crate::error::PackageError;
use crate::in_use::keep;
use crate::install::Builds;
use crate::make::{Options, make};
use crate::progress::Event;
use crate::requirement::{Requirement, USUAL};
use coracle_store::{Environment, Environments, WantedPackages};
use std::path::PathBuf;

/// The Python environments of a data folder, with the settings that decide what is in them.
#[derive(Clone, Debug)]
pub struct PythonEnvironments {
    /// The environments.
    pub environments: Environments,
    /// Configured interpreter, if any.
    pub python: Option<PathBuf>,
    /// Configured requirements file, if any. It replaces the default packages.
    pub requirements: Option<PathBuf>,
}

/// All environments.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The environment that sandboxes use, if there is one.
    pub current: Option<Environment>,
    /// Whether the current environment fits the interpreter of sandboxes, or why it does not.
    pub fits: Option<Result<(), String>>,
    /// All environments, including older ones.
    pub all: Vec<Environment>,
}

impl PythonEnvironments {
    /// Lists all environments.
    pub fn list(&self) -> Result<Listing, PackageError> {
        let current = self.environments.current()?;
        let all = self.environments.all()?;
        let fits = current.as_ref().map(|current| coracle_sandbox::fits(&current.python, self.python.as_deref()));
        Ok(Listing { current, fits, all })
    }

    /// Creates an environment with the newest packages, and returns it.
    pub async fn sync(&self, builds: Builds, report: &dyn Fn(Event<'_>)) -> Result<Option<Environment>, PackageError> {
        let changing = self.environments.change()?;
        let wanted = self.environments.wanted()?;
        make(self.options(builds, report), &changing, &wanted, None).await
    }

    /// Adds packages in pip's syntax, and keeps installed versions where possible. Returns the new environment, or
    /// `None` if everything was already installed.
    pub async fn add(
        &self,
        packages: &[String],
        builds: Builds,
        report: &dyn Fn(Event<'_>),
    ) -> Result<Option<Environment>, PackageError> {
        let added = packages.iter().map(|text| Requirement::new(text)).collect::<Result<Vec<_>, _>>()?;
        let changing = self.environments.change()?;
        let mut wanted = self.environments.wanted()?;
        let named = added.iter().map(|requirement| requirement.name.clone()).collect();
        for requirement in added {
            wanted.without.retain(|name| *name != requirement.name);
            wanted.added.retain(|text| Requirement::named(text) != requirement.name);
            wanted.added.push(requirement.text);
        }
        let base = self.base(named)?;
        let made = make(self.options(builds, report), &changing, &wanted, base.as_ref()).await?;
        changing.want(&wanted)?;
        Ok(made)
    }

    /// Removes packages, and returns the new environment.
    pub async fn remove(
        &self,
        packages: &[String],
        builds: Builds,
        report: &dyn Fn(Event<'_>),
    ) -> Result<Option<Environment>, PackageError> {
        let changing = self.environments.change()?;
        let mut wanted = self.environments.wanted()?;
        for text in packages {
            self.take_out(&mut wanted, &Requirement::named(text))?;
        }
        let made = make(self.options(builds, report), &changing, &wanted, None).await?;
        changing.want(&wanted)?;
        Ok(made)
    }

    /// Deletes an older environment.
    pub fn delete(&self, version: u32) -> Result<(), PackageError> {
        Ok(self.environments.change().and_then(|changing| changing.remove(version))?)
    }

    fn options<'a>(&'a self, builds: Builds, report: &'a dyn Fn(Event<'_>)) -> Options<'a> {
        let (python, requirements) = (self.python.as_deref(), self.requirements.as_deref());
        Options { python, requirements, builds, report }
    }

    /// Returns the current environment, if a new one for the same interpreter can build on it.
    fn base(&self, named: Vec<String>) -> Result<Option<Base>, PackageError> {
        let Ok(Some(used)) = self.environments.use_current() else { return Ok(None) };
        if coracle_sandbox::fits(&used.environment.python, self.python.as_deref()).is_err() {
            return Ok(None);
        }
        let folder = used.packages.clone();
        keep(used);
        Base::new(folder, named).map(Some)
    }

    /// Removes a package from the wanted ones.
    fn take_out(&self, wanted: &mut WantedPackages, name: &str) -> Result<(), PackageError> {
        let before = wanted.added.len();
        wanted.added.retain(|text| Requirement::named(text) != name);
        let usual = self.requirements.is_none() && USUAL.contains(&name);
        if usual && !wanted.without.iter().any(|known| known == name) {
            wanted.without.push(name.to_owned());
            return Ok(());
        }
        if wanted.added.len() < before {
            return Ok(());
        }
        Err(PackageError::NotAdded { name: name.to_owned(), requirements: self.requirements.clone() })
    }
}
