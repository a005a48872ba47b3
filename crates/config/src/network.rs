//! Credentials for hosts: expands their variables and checks what must be there.

use crate::expand::{ExpandError, expand};
use crate::keys::CREDENTIALS;
use crate::problem::{Problem, Reason};
use crate::settings::NetworkCredential;
use crate::{Origin, Settings};
use coracle_types::Secret;
use std::collections::BTreeMap;

const USERS: &str = "network.users";

/// The credentials for hosts, with all variables expanded, in the order of the settings.
pub(crate) fn resolve_all<'a>(
    settings: &Settings,
    origins: &BTreeMap<String, Origin>,
    variable: &dyn Fn(&str) -> Option<&'a str>,
    problems: &mut Vec<Problem>,
) -> Vec<NetworkCredential> {
    let network = &settings.network;
    let origin = |key: &str| origins.get(key).cloned();
    // They have no effect without rules for everybody, which may be an empty list.
    let needing = [(USERS, network.users.is_empty()), (CREDENTIALS, network.credentials.is_empty())];
    for (key, _) in needing.into_iter().filter(|(_, is_empty)| network.allow.is_none() && !is_empty) {
        let origin = origin(key).unwrap_or_default();
        problems.push(Problem { origin, key: key.to_owned(), reason: Reason::Missing { name: "network.allow" } });
    }
    let mut resolved = Vec::new();
    for (number, credential) in network.credentials.iter().enumerate() {
        let key = format!("{CREDENTIALS}.{number}");
        let place = |field: &str| origin(&format!("{key}.{field}")).or_else(|| origin(&key)).unwrap_or_default();
        let required = [
            ("host", credential.host.is_empty()),
            ("header", credential.header.is_empty()),
            ("value", credential.value.expose().is_empty()),
            ("user` or `shared", credential.user.is_none() && !credential.shared),
        ];
        for (name, _) in required.into_iter().filter(|(_, is_missing)| *is_missing) {
            problems.push(Problem { origin: place(""), key: key.clone(), reason: Reason::Missing { name } });
        }
        if credential.user.is_some() && credential.shared {
            let reason = Reason::Twice { first: "user".to_owned(), second: "shared".to_owned() };
            problems.push(Problem { origin: place("shared"), key: key.clone(), reason });
        }
        match expand(credential.value.expose(), variable) {
            Ok(value) => resolved.push(NetworkCredential { value: Secret::new(value), ..credential.clone() }),
            Err(error) => {
                let message = match error {
                    ExpandError::Missing(variable) => {
                        format!("{variable} is not set: set it in the environment or in .env")
                    }
                    ExpandError::Malformed => "write ${VAR}, ${VAR:-default} or ${env:VAR}".to_owned(),
                    ExpandError::TooLong => "it is too long with its variables expanded".to_owned(),
                };
                let (origin, key) = (place("value"), format!("{key}.value"));
                problems.push(Problem { origin, key, reason: Reason::Unparsable { message } });
            }
        }
    }
    resolved
}
