//! Names of environment variables.

use crate::keys::{KEYS, Key, SERVERS};
use crate::providers::PROVIDER_VARIABLES;
use crate::suggest::nearest;

/// The data folder. Defaults to `~/.coracle`.
pub const HOME_VARIABLE: &str = "CORACLE_HOME";
/// The settings file. Takes precedence over files in the current folder and the data folder.
pub const CONFIG_VARIABLE: &str = "CORACLE_CONFIG";
/// The master key of the data folder: 64 hexadecimal digits. Without it and [`KEY_COMMAND_VARIABLE`], the key is in the file
/// `master.key` of the data folder.
pub const KEY_VARIABLE: &str = "CORACLE_MASTER_KEY";
/// A shell command that prints the master key.
pub const KEY_COMMAND_VARIABLE: &str = "CORACLE_MASTER_KEY_COMMAND";
/// The folder of MCP servers for benchmarks and tests. Not a setting.
pub const TEST_SERVERS_VARIABLE: &str = "CORACLE_TEST_SERVERS";
/// The image of `bench sandbox` and `bench server` for docker and podman. Not a setting.
pub const BENCH_IMAGE_VARIABLE: &str = "CORACLE_BENCH_IMAGE";
/// The chain of Coracles, which is passed to servers. Not a setting.
const CHAIN_VARIABLE: &str = "CORACLE_CHAIN";
/// The prefix of our variables.
const PREFIX: &str = "CORACLE_";
/// The servers, as YAML or JSON.
pub(crate) const SERVERS_VARIABLE: &str = "CORACLE_MCP_SERVERS";

/// The variable for a key.
pub(crate) fn variable(path: &str) -> String {
    if path == SERVERS {
        SERVERS_VARIABLE.to_owned()
    } else {
        format!("{PREFIX}{}", path.replace('.', "_").to_uppercase())
    }
}

/// The value of a key in a variable.
#[derive(Debug)]
pub(crate) struct Said<'a> {
    pub(crate) key: &'static Key,
    pub(crate) name: String,
    pub(crate) text: &'a str,
    /// Whether the name has our prefix. Other programs may use the other names with another meaning.
    pub(crate) is_ours: bool,
}

/// The values of keys in variables, each key once, from its strongest name. Empty variables are ignored.
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

/// Whether a variable has an effect on its own, without a reference in the settings.
pub fn is_setting(name: &str) -> bool {
    let of_providers = || PROVIDER_VARIABLES.iter().any(|variable| variable.names.contains(&name));
    name.starts_with(PREFIX) || KEYS.iter().any(|key| key.other_variables.contains(&name)) || of_providers()
}

/// A variable with our prefix that is not a setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stray {
    /// The variable that was probably meant.
    pub(crate) meant: Option<String>,
    /// Whether it looks like a setting that protects something, which must not be ignored.
    pub(crate) protects: bool,
}

/// Detects a variable with our prefix that is not a setting.
pub(crate) fn stray(name: &str) -> Option<Stray> {
    let is_ours = name.starts_with(PREFIX);
    // Earlier tools ignored the case of variables.
    let upper = name.to_uppercase();
    let guards = upper.strip_prefix(PREFIX).unwrap_or(&upper).starts_with("GUARDRAILS_");
    if !is_ours && !guards {
        return None;
    }
    let rest = name.strip_prefix(PREFIX).unwrap_or(name);
    let known: Vec<String> = KEYS.iter().map(|key| variable(key.path)).chain([SERVERS_VARIABLE.to_owned()]).collect();
    let others: Vec<&str> = KEYS.iter().flat_map(|key| key.other_variables.iter().copied()).collect();
    let elsewhere = [
        HOME_VARIABLE,
        CONFIG_VARIABLE,
        KEY_VARIABLE,
        KEY_COMMAND_VARIABLE,
        TEST_SERVERS_VARIABLE,
        BENCH_IMAGE_VARIABLE,
        CHAIN_VARIABLE,
    ];
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
    fn no_variable_has_two_meanings() {
        let mut names =
            BTreeSet::from([HOME_VARIABLE.to_owned(), CONFIG_VARIABLE.to_owned(), SERVERS_VARIABLE.to_owned()]);
        for key in KEYS {
            assert!(names.insert(variable(key.path)), "{}", key.path);
            for other in key.other_variables {
                assert!(names.insert((*other).to_owned()), "{other}");
            }
        }
        for name in PROVIDER_VARIABLES.iter().flat_map(|variable| variable.names) {
            assert!(names.insert((*name).to_owned()), "{name}");
        }
        assert!(names.contains("CORACLE_EXECUTION_REQUIRE_FULL_ISOLATION"));
    }

    #[test]
    fn variables_that_have_an_effect_on_their_own_are_known() {
        for name in ["CORACLE_SERVER_ALLOW_COMMAND_SERVERS", "WORKSPACE_DIR", "OPENAI_API_KEY", "OLLAMA_HOST"] {
            assert!(is_setting(name), "{name}");
        }
        for name in ["MCP_SERVER_OPENAI_API_KEY", "GITHUB_TOKEN", "HOME"] {
            assert!(!is_setting(name), "{name}");
        }
    }

    #[test]
    fn strays_are_distinguished_from_other_variables() {
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
