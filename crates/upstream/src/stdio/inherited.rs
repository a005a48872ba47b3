//! The environment variables that a server inherits from this process.
//!
//! A server gets the variables that it needs to find its files and interpreter and to reach the network, but none that
//! makes a loader or an interpreter run more code, and no credentials. Only the environment of the process counts, and
//! never `.env`.

use coracle_types::{ServerSpec, Transport};
use std::ffi::{OsStr, OsString};

/// Variables for programs, files and languages.
const PLACES: &[&str] = &[
    "HOME",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    "XDG_DATA_DIRS",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];

/// Variables for trusted certificates.
const CERTIFICATES: &[&str] = &[
    "AWS_CA_BUNDLE",
    "BUNDLE_SSL_CA_CERT",
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "DENO_CERT",
    "DENO_TLS_CA_STORE",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "HTTPLIB2_CA_CERTS",
    "NIX_SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "NODE_USE_SYSTEM_CA",
    "NPM_CONFIG_CAFILE",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "npm_config_cafile",
];

/// Variables for the network, other than URLs.
const NETWORK: &[&str] = &["NODE_USE_ENV_PROXY", "NO_PROXY", "no_proxy"];

/// URLs of proxies and package indexes. One that contains a user name or password is withheld.
const ADDRESSES: &[&str] = &[
    "ALL_PROXY",
    "FTP_PROXY",
    "GOPROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NPM_CONFIG_HTTPS_PROXY",
    "NPM_CONFIG_PROXY",
    "NPM_CONFIG_REGISTRY",
    "PIP_EXTRA_INDEX_URL",
    "PIP_INDEX_URL",
    "PIP_PROXY",
    "SOCKS_PROXY",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_PYTHON_INSTALL_MIRROR",
    "WSS_PROXY",
    "WS_PROXY",
    "all_proxy",
    "ftp_proxy",
    "http_proxy",
    "https_proxy",
    "npm_config_https_proxy",
    "npm_config_proxy",
    "npm_config_registry",
    "socks_proxy",
    "ws_proxy",
    "wss_proxy",
];

/// Variables for interpreters, their versions and their packages.
const INTERPRETERS: &[&str] = &[
    "ASDF_DATA_DIR",
    "ASDF_DIR",
    "BUN_INSTALL",
    "CARGO_HOME",
    "CONDA_DEFAULT_ENV",
    "CONDA_PREFIX",
    "DENO_DIR",
    "DOTNET_ROOT",
    "FNM_DIR",
    "FNM_MULTISHELL_PATH",
    "GOBIN",
    "GOPATH",
    "GOROOT",
    "HOMEBREW_PREFIX",
    "JAVA_HOME",
    "MAMBA_ROOT_PREFIX",
    "MISE_CACHE_DIR",
    "MISE_CONFIG_DIR",
    "MISE_DATA_DIR",
    "NIX_PROFILES",
    "NODENV_ROOT",
    "NPM_CONFIG_CACHE",
    "NPM_CONFIG_PREFIX",
    "NPM_CONFIG_USERCONFIG",
    "NVM_BIN",
    "NVM_DIR",
    "N_PREFIX",
    "PIPX_BIN_DIR",
    "PIPX_HOME",
    "PIP_CACHE_DIR",
    "PIP_CONFIG_FILE",
    "PLAYWRIGHT_BROWSERS_PATH",
    "PNPM_HOME",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "SDKMAN_DIR",
    "UV_CACHE_DIR",
    "UV_CONFIG_FILE",
    "UV_OFFLINE",
    "UV_PYTHON",
    "UV_PYTHON_INSTALL_DIR",
    "UV_TOOL_BIN_DIR",
    "UV_TOOL_DIR",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
    "npm_config_cache",
    "npm_config_prefix",
    "npm_config_userconfig",
];

/// The names of the environment variables that a server gets, and of those that are withheld. Never their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedEnvironment {
    /// Names from this process's environment and from the server's entry, sorted.
    pub passed: Vec<String>,
    /// Names that are set in this process's environment but withheld, because the URL contains a user name or password.
    pub withheld: Vec<String>,
}

impl PassedEnvironment {
    /// The variables that the program of this server gets if it is started now. Empty for a server with a URL.
    pub fn of(spec: &ServerSpec) -> Self {
        let Transport::Stdio { env, .. } = &spec.transport else { return Self::default() };
        let inherited = Inherited::read(|name| std::env::var_os(name));
        let mut passed: Vec<String> = inherited.variables.iter().map(|(name, _)| (*name).to_owned()).collect();
        passed.extend(env.keys().cloned());
        passed.sort();
        passed.dedup();
        let withheld = inherited.withheld.into_iter().filter(|name| !env.contains_key(*name));
        Self { passed, withheld: withheld.map(str::to_owned).collect() }
    }

    /// How to pass withheld variables, if there are any.
    pub fn hint(&self) -> Option<String> {
        let name = self.withheld.first()?;
        let names = self.withheld.join(", ");
        Some(format!(
            "{names}: not passed on, because the address contains a user name or password; to pass it on, put `env: \
             {{ {name}: \"${{{name}}}\" }}` into the server's entry"
        ))
    }
}

/// The variables that every server gets, whatever its entry says.
pub(crate) struct Inherited {
    pub(crate) variables: Vec<(&'static str, OsString)>,
    withheld: Vec<&'static str>,
}

impl Inherited {
    pub(crate) fn read(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let mut inherited = Self { variables: Vec::new(), withheld: Vec::new() };
        for name in [PLACES, CERTIFICATES, NETWORK, INTERPRETERS].into_iter().flatten() {
            inherited.variables.extend(variable(name).map(|value| (*name, value)));
        }
        for name in ADDRESSES {
            match variable(name) {
                Some(value) if has_credential(&value) => inherited.withheld.push(name),
                Some(value) => inherited.variables.push((name, value)),
                None => {}
            }
        }
        inherited
    }
}

/// Whether one or several URLs may contain a user name or password. An `@` elsewhere is rare.
fn has_credential(address: &OsStr) -> bool {
    address.as_encoded_bytes().contains(&b'@')
}

/// What the last output of a server that could not start suggests about its environment, if anything.
pub(crate) fn suspicion(words: &str, spec: &ServerSpec) -> Option<String> {
    let Transport::Stdio { command, .. } = &spec.transport else { return None };
    let words = words.to_lowercase();
    let says = |signs: &[&str]| signs.iter().any(|sign| words.contains(sign));
    let environment = PassedEnvironment::of(spec);
    let got = |names: &[&[&str]]| {
        let names = names.iter().copied().flatten().filter(|name| environment.passed.iter().any(|got| got == *name));
        names.copied().collect::<Vec<_>>().join(", ")
    };
    let of = |got: String| if got.is_empty() { "none".to_owned() } else { got };
    let advice = environment.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    if says(UNTRUSTED) {
        let got = of(got(&[CERTIFICATES]));
        return Some(format!(
            "this looks like a certificate that {command:?} does not trust: it got these variables that name trusted \
             certificates: {got}; set SSL_CERT_FILE or NODE_EXTRA_CA_CERTS in the environment of coracle, or in `env` \
             of the server's entry{advice}"
        ));
    }
    if says(UNREACHABLE) {
        let got = of(got(&[NETWORK, ADDRESSES]));
        return Some(format!(
            "this looks like a network that {command:?} cannot reach: it got these proxy variables: {got}; set \
             HTTPS_PROXY in the environment of coracle, or in `env` of the server's entry{advice}"
        ));
    }
    if says(NO_INTERPRETER) {
        return Some(
            "this looks like an interpreter that is not on PATH: coracle passes its own PATH on; start it from a shell \
             that finds the interpreter, or put `env: { PATH: … }` into the server's entry"
                .to_owned(),
        );
    }
    None
}

/// Messages of programs about an untrusted certificate.
const UNTRUSTED: &[&str] = &[
    "certificate verify failed",
    "certificate_verify_failed",
    "invalid peer certificate",
    "self signed certificate",
    "self-signed certificate",
    "self_signed_cert",
    "ssl certificate problem",
    "unable to get issuer cert",
    "unable to get local issuer",
    "unable_to_get_issuer_cert",
    "unable_to_verify_leaf_signature",
    "unknownissuer",
    "x509: ",
];

/// Messages about an unreachable network.
const UNREACHABLE: &[&str] = &[
    "407 proxy",
    "connect timeout",
    "connection refused",
    "could not resolve host",
    "could not resolve proxy",
    "dns error",
    "eai_again",
    "econnrefused",
    "enetunreach",
    "enotfound",
    "error sending request for url",
    "etimedout",
    "failed to fetch",
    "getaddrinfo",
    "name or service not known",
    "network is unreachable",
    "network request failed",
    "proxy authentication required",
    "proxyerror",
    "temporary failure in name resolution",
    "tunneling socket could not be established",
];

/// Messages about a missing interpreter.
const NO_INTERPRETER: &[&str] =
    &["/usr/bin/env: ", "env: can't execute", "env: node: ", "exit status: 127", "no interpreter found"];

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_types::{Scope, Secret, ServerName};
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn read(set: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let inherited = Inherited::read(|name| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        });
        let names = inherited.variables.into_iter().map(|(name, _)| name.to_owned()).collect();
        (names, inherited.withheld.into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn proxies_and_certificates_are_passed_and_credentials_are_not() {
        let (passed, withheld) = read(&[
            ("PATH", "/bin"),
            ("SSL_CERT_FILE", "/etc/ca.pem"),
            ("NODE_EXTRA_CA_CERTS", "/etc/ca.pem"),
            ("https_proxy", "http://proxy:3128"),
            ("HTTPS_PROXY", "http://me:secret@proxy:3128"),
            ("HTTP_PROXY", "me:secret@proxy:3128"),
            ("ALL_PROXY", "socks5h://token@proxy"),
            ("UV_INDEX", "a=https://one/simple b=https://me:pw@two/simple"),
            ("NO_PROXY", "localhost,@odd"),
            ("UV_PYTHON_INSTALL_DIR", "/opt/python"),
        ]);
        assert_eq!(
            passed,
            ["PATH", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "NO_PROXY", "UV_PYTHON_INSTALL_DIR", "https_proxy"]
        );
        assert_eq!(withheld, ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "UV_INDEX"]);
    }

    #[test]
    fn no_variable_that_loads_code_is_listed() {
        for name in [PLACES, CERTIFICATES, NETWORK, ADDRESSES, INTERPRETERS].into_iter().flatten() {
            let upper = name.to_uppercase();
            for part in ["_OPTIONS", "LD_", "DYLD_", "PYTHONPATH", "PYTHONSTARTUP", "NODE_PATH", "RUBYOPT", "BASH_ENV"]
            {
                assert!(!upper.contains(part), "{name}");
            }
            for part in ["TOKEN", "SECRET", "PASSWORD", "_KEY", "CREDENTIAL", "AUTH"] {
                assert!(!upper.contains(part), "{name}");
            }
        }
    }

    #[test]
    fn a_failure_that_may_come_from_the_environment_has_a_hint() {
        let spec = ServerSpec {
            name: ServerName::new("git").unwrap(),
            transport: Transport::Stdio {
                command: "uvx".to_owned(),
                args: Vec::new(),
                env: BTreeMap::from([("SSL_CERT_FILE".to_owned(), Secret::new("/canary/ca.pem"))]),
                cwd: None,
            },
            scope: Scope::User,
            description: None,
            category: None,
            client: None,
            start_timeout: Duration::from_mins(1),
            call_timeout: Duration::from_mins(1),
        };
        let told = suspicion("error: invalid peer certificate: UnknownIssuer", &spec).unwrap();
        assert!(told.contains("certificate that \"uvx\" does not trust") && told.contains("SSL_CERT_FILE"), "{told}");
        assert!(!told.contains("canary"), "{told}");
        let told = suspicion("npm error code ENOTFOUND", &spec).unwrap();
        assert!(told.contains("HTTPS_PROXY"), "{told}");
        let told = suspicion("/usr/bin/env: 'node': No such file or directory", &spec).unwrap();
        assert!(told.contains("PATH"), "{told}");
        assert_eq!(suspicion("missing key GITHUB_TOKEN", &spec), None);
    }
}
