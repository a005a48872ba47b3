//! What sandboxes of this process use.

use crate::error::PackageError;
use coracle_sandbox::{Environment, MOST_PRELOADED, Packages};
use coracle_store::{Environments, UsedEnvironment};
use std::sync::{Mutex, PoisonError};

/// Environments that sandboxes of this process use, locked until it ends.
static USED: Mutex<Vec<UsedEnvironment>> = Mutex::new(Vec::new());

/// Keeps the lock of an environment until the process ends.
pub(crate) fn keep(used: UsedEnvironment) {
    USED.lock().unwrap_or_else(PoisonError::into_inner).push(used);
}

/// Packages for sandboxes, with the modules to import in advance. An unreadable environment is ignored, because plain
/// Python still works.
pub fn packages(environments: &Environments, preload: &[String]) -> Result<Packages, PackageError> {
    let wrong = |name: &&String| !is_module(name);
    if let Some(name) = preload.iter().find(wrong) {
        return Err(PackageError::ModuleName(name.clone()));
    }
    if preload.len() > MOST_PRELOADED {
        return Err(PackageError::TooManyModules(preload.len()));
    }
    Ok(Packages { environment: current(environments), preload: preload.to_vec() })
}

/// Returns the environment that sandboxes use. It stays until this process ends.
pub fn current(environments: &Environments) -> Option<Environment> {
    match environments.use_current() {
        Ok(None) => None,
        Ok(Some(used)) => {
            let (folder, made_for) = (used.packages.clone(), used.environment.python.clone());
            keep(used);
            Some(Environment { folder, made_for })
        }
        Err(error) => {
            tracing::warn!(%error, "ignoring the Python environment; `coracle env sync` rebuilds it");
            None
        }
    }
}

/// Whether a text is names separated by dots.
fn is_module(name: &str) -> bool {
    let is_start = |c: char| c.is_alphabetic() || c == '_';
    let is_name = |part: &str| part.starts_with(is_start) && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    name.len() <= 100 && name.split('.').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::is_module;

    #[test]
    fn module_names_are_recognised() {
        for good in ["pandas", "matplotlib.pyplot", "_x1"] {
            assert!(is_module(good), "{good}");
        }
        for bad in ["", ".", "a.", "1a", "a-b", "a b", "os;x", &"a".repeat(101)] {
            assert!(!is_module(bad), "{bad}");
        }
    }
}
