//! Checks whether the Python of sandboxes has the packages that a skill requires.

use super::Skills;
use crate::request::Request;
use crate::skill_store::SkillError;
use coracle_types::{Language, UserId};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Lists the installed packages, as code sees them.
const LIST: &str = "import importlib.metadata
{d.metadata['Name'].lower().replace('_', '-').replace('.', '-'): d.version for d in importlib.metadata.distributions() if d.metadata['Name']}";

/// Versions of the installed packages, by normalized name.
pub(super) type Installed = BTreeMap<String, String>;

impl Skills {
    /// The Python packages that folders with a `SKILL.md` require and sandboxes do not have, by name of the skill.
    pub(crate) async fn missing_packages(self: &Arc<Self>) -> Result<BTreeMap<String, Vec<String>>, SkillError> {
        let shelved = self.library().read().await;
        if shelved.skills.iter().all(|skill| skill.dependencies.is_empty()) {
            return Ok(BTreeMap::new());
        }
        let installed = self.installed.get_or_try_init(|| self.list_installed()).await?;
        let missing = shelved.skills.into_iter().filter_map(|skill| {
            let complaints: Vec<String> =
                skill.dependencies.iter().filter_map(|wanted| complaint(wanted, installed)).collect();
            (!complaints.is_empty()).then_some((skill.name, complaints))
        });
        Ok(missing.collect())
    }

    async fn list_installed(self: &Arc<Self>) -> Result<Installed, SkillError> {
        // This is Coracle's own code, so it runs for no particular user.
        let execution = self.execute(Request::new(UserId::local(), Language::Python, LIST)).await;
        if let Some(failure) = execution.failure {
            return Err(SkillError::NotTried(failure.error));
        }
        serde_json::from_value(execution.result.unwrap_or_default())
            .map_err(|error| SkillError::NotTried(error.to_string()))
    }
}

/// Why the requirement `package[extra]>=1.0,<2 ; marker` is not met, if it is not. Markers are ignored.
pub(super) fn complaint(wanted: &str, installed: &Installed) -> Option<String> {
    let requirement = wanted.split(';').next().unwrap_or(wanted).trim();
    let end = requirement.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.'));
    let (name, rest) = requirement.split_at(end.unwrap_or(requirement.len()));
    if name.is_empty() {
        return Some(format!("{wanted:?} names no package"));
    }
    let Some(version) = installed.get(&name.to_lowercase().replace(['_', '.'], "-")) else {
        return Some(format!("the package {name} is not installed: `coracle env add {name}`"));
    };
    let rest = rest.trim();
    let rest = if rest.starts_with('[') { rest.split_once(']').map_or("", |(_, rest)| rest) } else { rest };
    let rest = rest.trim().trim_start_matches('(').trim_end_matches(')');
    let unmet =
        rest.split(',').map(str::trim).filter(|clause| !clause.is_empty()).find(|clause| !holds(version, clause));
    unmet.map(|clause| format!("the package {name} is installed as {version}, and {clause} is wanted"))
}

/// Whether a version satisfies a clause such as `>=1.0`. An unknown clause counts as satisfied, because the result is only
/// a warning.
fn holds(version: &str, clause: &str) -> bool {
    let end = clause.find(|c: char| !matches!(c, '<' | '>' | '=' | '!' | '~')).unwrap_or(clause.len());
    let (sign, wanted) = clause.split_at(end);
    let wanted = wanted.trim();
    let (prefix, is_prefix) = wanted.strip_suffix(".*").map_or((wanted, false), |prefix| (prefix, true));
    let (have, want) = (numbers(version), numbers(prefix));
    let begins = have.iter().chain(std::iter::repeat(&0)).zip(&want).all(|(have, want)| have == want);
    let order = compare(&have, &want);
    match sign {
        "==" | "===" if is_prefix => begins,
        "!=" if is_prefix => !begins,
        "==" | "===" => order == Ordering::Equal,
        "!=" => order != Ordering::Equal,
        ">=" => order != Ordering::Less,
        "<=" => order != Ordering::Greater,
        ">" => order == Ordering::Greater,
        "<" => order == Ordering::Less,
        "~=" => {
            let stem = want.get(..want.len().saturating_sub(1)).unwrap_or_default();
            let same = have.iter().chain(std::iter::repeat(&0)).zip(stem).all(|(have, want)| have == want);
            order != Ordering::Less && same
        }
        _ => true,
    }
}

/// The numbers at the beginning of a version: `2.1.0rc1` is 2, 1, 0.
fn numbers(version: &str) -> Vec<u64> {
    let mut all = Vec::new();
    for part in version.trim().trim_start_matches('v').split('.') {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        let Ok(number) = digits.parse() else { break };
        all.push(number);
        if digits.len() < part.len() {
            break;
        }
    }
    all
}

fn compare(one: &[u64], other: &[u64]) -> Ordering {
    let length = one.len().max(other.len());
    let padded =
        |numbers: &[u64]| -> Vec<u64> { numbers.iter().copied().chain(std::iter::repeat(0)).take(length).collect() };
    padded(one).cmp(&padded(other))
}

#[cfg(test)]
mod tests {
    use super::{Installed, complaint};

    #[test]
    fn requirements_are_compared_with_what_is_installed() {
        let installed: Installed = [("pandas", "2.1.4"), ("scikit-learn", "1.5.0rc1")]
            .map(|(name, version)| (name.into(), version.into()))
            .into();
        for met in [
            "pandas",
            "pandas>=2",
            "pandas >= 2.1.4",
            "pandas==2.1.*",
            "pandas~=2.1",
            "pandas>=1.0,<3",
            "Scikit_Learn>1.4",
            "pandas[excel]>=2 ; python_version > '3'",
            "pandas (>=2.0)",
            "pandas!=2.1.3",
            "pandas==2.1.4.0",
        ] {
            assert_eq!(complaint(met, &installed), None, "{met}");
        }
        for unmet in
            ["polars", "pandas>=3", "pandas<2", "pandas==2.0.*", "pandas~=2.2", "pandas>=1,<2.1", ">=1", "pandas>2.1.4"]
        {
            assert!(complaint(unmet, &installed).is_some(), "{unmet}");
        }
    }
}
