//! Compares the settings of a server on both sides.

use crate::stdio::Inherited;
use coracle_types::{ServerSpec, Transport, sorted_json};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::ffi::OsString;
use std::path::PathBuf;

/// Variables that the HTTP client reads.
const READ_BY_HTTP: &[&str] = &[
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// The type of the terminal. The server's streams are pipes, so it makes no difference to the server, and it differs
/// more often than any other variable.
const TERMINAL: &str = "TERM";

/// The namespaces that determine the files and the network that a process sees.
const NAMESPACES: &[&str] = &["/proc/self/ns/mnt", "/proc/self/ns/net", "/proc/self/ns/user"];

/// SHA-256 digests of everything that defines a server, in three parts, so that a log can name the one that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// The entry in the settings with all variables expanded: command, arguments, environment, URL, headers, client.
    entry: String,
    /// The inherited environment, and the chain of Coracles.
    environment: String,
    /// The working directory and the namespaces.
    place: String,
}

impl Settings {
    /// The settings of a server in this process.
    pub(crate) fn of(spec: &ServerSpec, chain: &[String]) -> Self {
        Self::with(spec, chain, |name| std::env::var_os(name), std::env::current_dir().ok())
    }

    fn with(
        spec: &ServerSpec,
        chain: &[String],
        variable: impl Fn(&str) -> Option<OsString>,
        folder: Option<PathBuf>,
    ) -> Self {
        let (variables, folder) = match &spec.transport {
            Transport::Stdio { .. } => (Inherited::read(&variable).variables, folder),
            Transport::Http { .. } | Transport::Sse { .. } => {
                let variables = READ_BY_HTTP.iter().filter_map(|name| Some((*name, variable(name)?)));
                (variables.collect(), None)
            }
        };
        let counts = variables.iter().filter(|(name, _)| *name != TERMINAL);
        let variables: Vec<(&str, &[u8])> = counts.map(|(name, value)| (*name, value.as_encoded_bytes())).collect();
        let folder = folder.as_deref().map(|folder| folder.as_os_str().as_encoded_bytes());
        let namespaces: Vec<Option<PathBuf>> = NAMESPACES.iter().map(|path| std::fs::read_link(path).ok()).collect();
        Self {
            entry: digest("entry", &(&spec.transport, spec.scope, &spec.client)),
            environment: digest("environment", &(variables, chain)),
            place: digest("place", &(folder, namespaces)),
        }
    }

    /// A description of the part that differs.
    pub(crate) fn difference(&self, other: &Self) -> Option<&'static str> {
        if self.entry != other.entry {
            Some("its entry in the settings differs")
        } else if self.environment != other.environment {
            Some("the environment that it gets differs")
        } else if self.place != other.place {
            Some("the folder or the namespaces that it is started in differ")
        } else {
            None
        }
    }
}

/// Hashes a value as JSON with sorted keys, so that equal settings have equal digests.
fn digest(part: &str, value: &impl Serialize) -> String {
    hex::encode(Sha256::digest(sorted_json(&(part, value)).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_types::{OauthClient, Scope, Secret, ServerName};
    use std::collections::BTreeMap;
    use std::time::Duration;

    #[test]
    fn the_order_of_keys_makes_no_difference() {
        let of = |text: &str| digest("entry", &serde_json::from_str::<serde_json::Value>(text).unwrap());
        assert_eq!(of(r#"{"b":1,"a":{"d":2,"c":3}}"#), of(r#"{"a":{"c":3,"d":2},"b":1}"#));
        assert_ne!(of(r#"{"b":1,"a":{"d":2,"c":3}}"#), of(r#"{"a":{"c":3,"d":2},"b":2}"#));
    }

    fn spec(transport: Transport) -> ServerSpec {
        ServerSpec {
            name: ServerName::new("git").unwrap(),
            transport,
            scope: Scope::User,
            description: None,
            category: None,
            client: None,
            start_timeout: Duration::from_mins(1),
            call_timeout: Duration::from_mins(1),
        }
    }

    fn stdio(argument: &str, value: &str) -> ServerSpec {
        spec(Transport::Stdio {
            command: "uvx".to_owned(),
            args: vec![Secret::new(argument)],
            env: BTreeMap::from([("TOKEN".to_owned(), Secret::new(value))]),
            cwd: None,
        })
    }

    fn of(spec: &ServerSpec, variables: &[(&str, &str)], folder: &str) -> Settings {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
        Settings::with(spec, &["one".to_owned()], variable, Some(folder.into()))
    }

    #[test]
    fn every_part_counts() {
        let (server, variables) = (stdio("a", "canary"), [("PATH", "/bin")]);
        let settings = of(&server, &variables, "/here");
        assert_eq!(settings.difference(&of(&server, &variables, "/here")), None);
        // Variables that the server does not get do not count, nor does the terminal.
        let more = [("PATH", "/bin"), ("SECRET", "1"), ("TERM", "xterm")];
        assert_eq!(settings.difference(&of(&server, &more, "/here")), None);
        for other in [stdio("b", "canary"), stdio("a", "other")] {
            assert_eq!(
                settings.difference(&of(&other, &variables, "/here")),
                Some("its entry in the settings differs")
            );
        }
        let mut client = server.clone();
        client.client = Some(OauthClient { id: "me".to_owned(), secret: None });
        assert!(settings.difference(&of(&client, &variables, "/here")).is_some());
        let mut shared = server.clone();
        shared.scope = Scope::Shared;
        assert!(settings.difference(&of(&shared, &variables, "/here")).is_some());
        assert_eq!(
            settings.difference(&of(&server, &[("PATH", "/usr/bin")], "/here")),
            Some("the environment that it gets differs")
        );
        assert_eq!(
            settings.difference(&of(&server, &variables, "/there")),
            Some("the folder or the namespaces that it is started in differ")
        );
        let text = serde_json::to_string(&settings).unwrap();
        assert!(!text.contains("canary") && !text.contains("/bin"), "{text}");
    }

    #[test]
    fn a_url_depends_on_proxies_and_not_on_folders() {
        let server = spec(Transport::Http { url: Secret::new("https://a.example"), headers: BTreeMap::new() });
        let settings = of(&server, &[("PATH", "/bin")], "/here");
        assert_eq!(settings.difference(&of(&server, &[("PATH", "/usr/bin")], "/there")), None);
        let proxied = of(&server, &[("HTTPS_PROXY", "http://me:secret@proxy")], "/here");
        assert_eq!(settings.difference(&proxied), Some("the environment that it gets differs"));
    }
}
