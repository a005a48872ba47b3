//! Names of environment variables.

use crate::keys::{KEYS, Key, SERVERS};
use crate::suggest::nearest;

/// The data folder; `~/.coracle` without it.
pub const HOME_VARIABLE: &str = "CORACLE_HOME";
/// The settings file; it wins over those that are found by looking.
pub const CONFIG_VARIABLE: &str = "CORACLE_CONFIG";
/// Where benchmarks and tests find servers of other people; no setting.
const TEST_SERVERS_VARIABLE: &str = "CORACLE_TEST_SERVERS";
/// The image of `bench sandbox` for docker and podman.
const BENCH_IMAGE_VARIABLE: &str = "CORACLE_BENCH_IMAGE";
/// By which a server is told whom it serves; no setting.
const CHAIN_VARIABLE: &str = "CORACLE_CHAIN";
/// What all of our variables begin with.
const PREFIX: &str = "CORACLE_";
/// The servers, as YAML or JSON.
pub(crate) const SERVERS_VARIABLE: &str = "CORACLE_MCP_SERVERS";

/// The variable that mirrors a key.
pub(crate) fn variable(path: &str) -> String {
    if path == SERVERS {
        SERVERS_VARIABLE.to_owned()
    } else {
        format!("{PREFIX}{}", path.replace('.', "_").to_uppercase())
    }
}

/// What a variable says about a key.
#[derive(Debug)]
pub(crate) struct Said<'a> {
    pub(crate) key: &'static Key,
    pub(crate) name: String,
    pub(crate) text: &'a str,
    /// It is the name that mirrors the key; other programs may mean something else by the others.
    pub(crate) is_ours: bool,
}

/// What variables say about keys: each key once, by its strongest name. Empty ones say nothing.
pub(crate) fn said<'a>(lookup: impl Fn(&str) -> Option<&'a str>) -> Vec<Said<'a>> {
    let mut all = Vec::new();
    for key in KEYS {
        let ours = variable(key.path);
        let mut names = std::iter::once(ours.as_str()).chain(key.other_variables.iter().copied());
        let found = names.find_map(|name| Some((name, lookup(name).filter(|text| !text.trim().is_empty())?)));
        if let Some((name, text)) = found {
            all.push(Said { key, name: name.to_owned(), text, is_ours: name.starts_with(PREFIX) });
        }
    }
    all
}

/// A variable that looks like one of ours and is not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stray {
    /// What was probably meant.
    pub(crate) meant: Option<String>,
    /// It looks like a setting that protects somebody: to pass it over would be a risk.
    pub(crate) protects: bool,
}

/// Whether a variable looks like one of ours and is not.
pub(crate) fn stray(name: &str) -> Option<Stray> {
    let is_ours = name.starts_with(PREFIX);
    // Earlier tools did not tell variables by their case.
    let upper = name.to_uppercase();
    let guards = upper.strip_prefix(PREFIX).unwrap_or(&upper).starts_with("GUARDRAILS_");
    if !is_ours && !guards {
        return None;
    }
    let rest = name.strip_prefix(PREFIX).unwrap_or(name);
    let known: Vec<String> = KEYS.iter().map(|key| variable(key.path)).chain([SERVERS_VARIABLE.to_owned()]).collect();
    let others: Vec<&str> = KEYS.iter().flat_map(|key| key.other_variables.iter().copied()).collect();
    let elsewhere = [HOME_VARIABLE, CONFIG_VARIABLE, TEST_SERVERS_VARIABLE, BENCH_IMAGE_VARIABLE, CHAIN_VARIABLE];
    if elsewhere.contains(&name) || others.contains(&name) || known.iter().any(|variable| variable == name) {
        return None;
    }
    if guards {
        let names = known.iter().map(String::as_str).chain(others);
        return Some(Stray { meant: nearest(&upper, names).map(str::to_owned), protects: true });
    }
    let meant = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
    let in_section =
        |section: &str| rest.strip_prefix(section.to_uppercase().as_str()).is_some_and(|rest| rest.starts_with('_'));
    let is_in_one = KEYS.iter().filter_map(|key| key.path.split('.').next()).any(in_section);
    (meant.is_some() || is_in_one).then_some(Stray { meant, protects: in_section("policy") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_variable_means_two_things() {
        let mut names =
            BTreeSet::from([HOME_VARIABLE.to_owned(), CONFIG_VARIABLE.to_owned(), SERVERS_VARIABLE.to_owned()]);
        for key in KEYS {
            assert!(names.insert(variable(key.path)), "{}", key.path);
            for other in key.other_variables {
                assert!(names.insert((*other).to_owned()), "{other}");
            }
        }
        assert!(names.contains("CORACLE_EXECUTION_REQUIRE_FULL_ISOLATION"));
    }

    #[test]
    fn strays_are_told_from_other_variables() {
        let meant = |name| stray(name).and_then(|stray| stray.meant);
        assert_eq!(meant("CORACLE_EXECUTION_SANDBOX_TYP").as_deref(), Some("CORACLE_EXECUTION_SANDBOX_TYPE"));
        assert_eq!(stray("CORACLE_EXECUTION_COLOUR"), Some(Stray { meant: None, protects: false }));
        for name in ["guardrails_strict_mode", "Guardrails_Strict_Mode", "CORACLE_Guardrails_Strict_Mode"] {
            let stray = stray(name).unwrap();
            assert!(stray.protects && stray.meant.unwrap().ends_with("GUARDRAILS_STRICT_MODE"), "{name}");
        }
        for name in ["GUARDRAILS_STRICT", "CORACLE_GUARDRAILS_STRICTMODE", "CORACLE_POLICY_TOOL"] {
            assert!(stray(name).unwrap().protects, "{name}");
        }
        for other in [
            "CORACLE_HOME",
            "CORACLE_TEST_SERVERS",
            "CORACLE_BENCH_IMAGE",
            "CORACLE_CHAIN",
            "CORACLE_LOG",
            "CORACLE_LOG_LEVEL",
            "CORACLE_UPDATE",
            "CORACLE_X",
            "GUARDRAILS_STRICT_MODE",
            "GUARDRAILS_MAX_MEMORY_MB",
            "GUARDRAILSX",
            "PATH",
        ] {
            assert_eq!(stray(other), None, "{other}");
        }
    }
}
