//! Network access of code: which hosts the code of a user may reach, and with which credentials.
//!
//! A [`Doorway`] has the connections of one sandbox, for as long as that lives. While an execution runs, it has a
//! [`Passage`], which serves them by the rules of that execution; between executions they are closed. The broker decides
//! about each request (`broker/network.rs`), as it does about calls of tools.

mod doorway;

pub(crate) use doorway::{Doorway, Passage};

use coracle_egress::{
    Credential, CredentialError, Credentials, Grant, PrivateAddressError, PrivateAddresses, Proxy, RuleError, Rules,
    Share,
};
use coracle_policy::Groups;
use coracle_types::{Secret, ServerName, UserId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The name of the server, as which rules and the audit log know requests of code.
pub const NETWORK_SERVER: &str = "network";

/// The settings that have the rules, for messages.
const ALLOW: &str = "network.allow";
const USERS: &str = "network.users";
/// What a request to run code has, for messages.
const OF_REQUEST: &str = "network of the request";

/// Who may reach what.
#[derive(Clone, Debug, Default)]
pub struct NetworkConfig {
    /// Rules for the code of every user.
    pub allow: Vec<String>,
    /// Further rules by user or group.
    pub users: BTreeMap<String, Vec<String>>,
    /// The groups of users.
    pub groups: Groups,
    /// Hosts and networks that may be private.
    pub private_addresses: Vec<String>,
    /// Credentials that are added outside of the sandbox.
    pub credentials: Vec<BoundCredential>,
}

/// A credential for one host.
#[derive(Clone, Debug)]
pub struct BoundCredential {
    /// Exact host name.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Methods with which it is sent. `GET` and `HEAD` if there are none.
    pub methods: Vec<String>,
    /// Header.
    pub header: String,
    /// Value of the header.
    pub value: Secret,
    /// User whose code uses it. `None` for the code of all users.
    pub user: Option<UserId>,
}

/// Settings of the network that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// A rule.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// A name under `network.users` that no user and no group has.
    #[error("{USERS}: {0:?} is neither a group nor a user name")]
    User(String),
    /// An entry of the private addresses.
    #[error("network.private_addresses: {0}")]
    PrivateAddress(#[from] PrivateAddressError),
    /// A credential.
    #[error("network.credentials: {0}")]
    Credential(#[from] CredentialError),
}

impl NetworkError {
    /// The setting with the mistake, without positions in lists.
    pub fn key(&self) -> &str {
        match self {
            Self::Rule(error) => &error.source_name,
            Self::User(_) => USERS,
            Self::PrivateAddress(_) => "network.private_addresses",
            Self::Credential(_) => "network.credentials",
        }
    }

    /// How to fix it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Rule(error) => error.hint(),
            Self::User(_) => "use the name of a user, or of a group of policy.groups",
            Self::PrivateAddress(error) => error.hint(),
            Self::Credential(_) => {
                "a credential has an exact host, a header and a value of at least 8 characters, and no other one sets the \
                 same header of the same host"
            }
        }
    }
}

/// The network that code can reach through a proxy.
#[derive(Debug)]
pub struct Network {
    proxy: Proxy,
    config: NetworkConfig,
    private_addresses: PrivateAddresses,
    /// The connections that the sandboxes of each user may have.
    shares: Mutex<HashMap<UserId, Share>>,
}

impl Network {
    /// Checks the whole configuration.
    pub fn new(proxy: Proxy, config: NetworkConfig) -> Result<Self, NetworkError> {
        Rules::parse(ALLOW, &config.allow)?;
        for (name, lines) in &config.users {
            if !config.groups.exists(name) && UserId::new(name.as_str()).is_err() {
                return Err(NetworkError::User(name.clone()));
            }
            Rules::parse(&format!("{USERS}.{name}"), lines)?;
        }
        let private_addresses = PrivateAddresses::parse(&config.private_addresses)?;
        let network = Self { proxy, config, private_addresses, shares: Mutex::default() };
        let users: BTreeSet<Option<&UserId>> =
            network.config.credentials.iter().map(|credential| credential.user.as_ref()).collect();
        for user in users {
            network.credentials(user)?;
        }
        Ok(network)
    }

    /// Whether the code of a user may reach anything.
    pub(crate) fn is_for(&self, user: &UserId) -> bool {
        self.lines(user).next().is_some()
    }

    /// The rules for the code of a user.
    fn lines(&self, user: &UserId) -> impl Iterator<Item = &String> {
        let groups = &self.config.groups;
        let is_meant = move |name: &str| name == user.as_str() || groups.has_member(name, user);
        let own = self.config.users.iter().filter(move |(name, _)| is_meant(name)).flat_map(|(_, lines)| lines);
        self.config.allow.iter().chain(own)
    }

    /// What the code of a user may reach, within what the request allows. `None` if that is nothing.
    pub(crate) fn grant(&self, user: &UserId, narrower: Option<&[String]>) -> Result<Option<Grant>, NetworkError> {
        let mut rules = Rules::parse(ALLOW, self.lines(user))?;
        if let Some(narrower) = narrower {
            rules = rules.narrowed_by(rules_of_request(narrower)?);
        }
        if rules.is_empty() {
            return Ok(None);
        }
        let credentials = self.credentials(Some(user))?;
        Ok(Some(Grant { rules, private_addresses: self.private_addresses.clone(), credentials }))
    }

    /// The credentials that the code of a user uses, and those of all users.
    fn credentials(&self, user: Option<&UserId>) -> Result<Credentials, CredentialError> {
        let is_meant = |of: &Option<UserId>| of.is_none() || of.as_ref() == user;
        let used = self.config.credentials.iter().enumerate().filter(|(_, bound)| is_meant(&bound.user));
        Credentials::new(used.map(|(number, bound)| Credential {
            id: format!("{number} ({} of {})", bound.header, bound.host),
            host: bound.host.clone(),
            port: bound.port,
            methods: bound.methods.clone(),
            header: bound.header.clone(),
            value: bound.value.expose().to_owned().into(),
        }))
    }

    pub(crate) fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// The connections that the sandboxes of a user may have.
    pub(crate) fn share(&self, user: &UserId) -> Share {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares.entry(user.clone()).or_insert_with(|| self.proxy.share()).clone()
    }
}

/// The rules that a request has.
pub(crate) fn rules_of_request(lines: &[String]) -> Result<Rules, NetworkError> {
    Ok(Rules::parse(OF_REQUEST, lines)?)
}

/// The server as which requests are known. Its name is valid: a test says so.
pub(crate) fn server() -> Option<ServerName> {
    ServerName::new(NETWORK_SERVER).ok()
}

/// The network of an engine, if it has one. It is set once.
#[derive(Clone, Debug, Default)]
pub(crate) struct CurrentNetwork(Arc<OnceLock<Arc<Network>>>);

impl CurrentNetwork {
    pub(crate) fn set(&self, network: Arc<Network>) {
        let _ = self.0.set(network);
    }

    /// The network, if the code of this user may reach anything.
    pub(crate) fn of(&self, user: &UserId) -> Option<&Arc<Network>> {
        self.0.get().filter(|network| network.is_for(user))
    }
}

#[cfg(test)]
mod tests {
    use super::{BoundCredential, Network, NetworkConfig, NetworkError, server};
    use coracle_egress::{Limits, Proxy};
    use coracle_policy::Groups;
    use coracle_types::{Secret, UserId};

    fn network(config: NetworkConfig) -> Result<Network, NetworkError> {
        Network::new(Proxy::new(Limits::default()).unwrap(), config)
    }

    fn texts(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    fn credential(user: Option<&str>) -> BoundCredential {
        BoundCredential {
            host: "api.example.com".to_owned(),
            port: 443,
            methods: Vec::new(),
            header: "authorization".to_owned(),
            value: Secret::new("Bearer s3cret-s3cret"),
            user: user.map(|user| UserId::new(user).unwrap()),
        }
    }

    #[test]
    fn the_name_of_the_server_is_valid() {
        assert!(server().is_some());
    }

    #[test]
    fn users_have_the_rules_of_everybody_and_their_own() {
        let user = |name: &str| UserId::new(name).unwrap();
        let groups = Groups::new(&[("finance".to_owned(), texts(&["kim"]))].into()).unwrap();
        let users = [("ann".to_owned(), texts(&["a.example"])), ("finance".to_owned(), texts(&["f.example"]))];
        let config = NetworkConfig { groups, users: users.into(), ..NetworkConfig::default() };
        let own = network(config.clone()).unwrap();
        let lines = |network: &Network, name: &str| network.lines(&user(name)).cloned().collect::<Vec<_>>();
        assert_eq!(lines(&own, "ann"), ["a.example"]);
        assert_eq!(lines(&own, "kim"), ["f.example"]);
        assert!(!own.is_for(&user("bob")) && own.is_for(&user("kim")));
        let all = network(NetworkConfig { allow: texts(&["e.example"]), ..config }).unwrap();
        assert_eq!(lines(&all, "ann"), ["e.example", "a.example"]);
        assert_eq!(lines(&all, "bob"), ["e.example"]);
    }

    #[test]
    fn a_request_can_only_narrow() {
        let user = UserId::local();
        let network = network(NetworkConfig { allow: texts(&["e.example"]), ..NetworkConfig::default() }).unwrap();
        assert!(network.grant(&user, None).unwrap().is_some());
        assert!(network.grant(&user, Some(&texts(&["other.example"]))).unwrap().is_some());
        assert!(network.grant(&user, Some(&[])).unwrap().is_none());
        assert!(network.grant(&user, Some(&texts(&["https://e.example"]))).is_err());
    }

    #[test]
    fn mistakes_are_errors() {
        let wrong = |config| network(config).unwrap_err();
        let config = NetworkConfig { allow: texts(&["a.example", "http://b.example"]), ..NetworkConfig::default() };
        assert!(wrong(config).to_string().starts_with("network.allow[1]: "));
        let users = [("ann".to_owned(), texts(&["get a.example"]))].into();
        let error = wrong(NetworkConfig { users, ..NetworkConfig::default() });
        assert_eq!(error.key(), "network.users.ann");
        let users = [("no user".to_owned(), texts(&["a.example"]))].into();
        assert!(matches!(wrong(NetworkConfig { users, ..NetworkConfig::default() }), NetworkError::User(_)));
        let private_addresses = texts(&["10.0.0.0/99"]);
        let error = wrong(NetworkConfig { private_addresses, ..NetworkConfig::default() });
        assert!(matches!(error, NetworkError::PrivateAddress(_)));
    }

    #[test]
    fn credentials_of_one_user_must_not_conflict() {
        let with = |users: &[Option<&str>]| {
            let credentials = users.iter().map(|user| credential(*user)).collect();
            network(NetworkConfig { credentials, ..NetworkConfig::default() })
        };
        assert!(with(&[Some("ann"), Some("bob")]).is_ok());
        for users in [&[None, None][..], &[None, Some("ann")], &[Some("ann"), Some("ann")]] {
            let error = with(users).unwrap_err();
            assert!(matches!(error, NetworkError::Credential(_)), "{users:?}");
            assert!(!format!("{error} {error:?}").contains("s3cret"));
        }
        let network = with(&[Some("ann")]).unwrap();
        let used = |name: &str| network.credentials(Some(&UserId::new(name).unwrap())).unwrap();
        assert!(!used("ann").is_empty() && used("bob").is_empty());
    }
}
