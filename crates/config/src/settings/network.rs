use super::privacy::LabelText;
use coracle_types::{Secret, ServerLabel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Network access of code, through a proxy. Without `allow`, code has no network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// Requests that the code of every user may make, one rule per item: `packages.example.com:443`,
    /// `GET,HEAD *.example.org`, `api.example.com/v1/*`. A rule without a port is for ports 80 and 443, one without
    /// methods for all of them, and `*` for all hosts.
    pub allow: Option<Vec<String>>,
    /// Further rules by user or group. They apply in addition to `allow`.
    pub users: BTreeMap<String, Vec<String>>,
    /// Hosts and networks that may be private, such as `db.internal` or `10.1.0.0/16`. Without them, names that lead to
    /// loopback, private, link-local or reserved addresses are refused.
    pub private_addresses: Vec<String>,
    /// Labels of the server `network`, as which rules know requests of code. `untrusted` and `exfil` if it is not set.
    #[schemars(with = "Option<Vec<LabelText>>")]
    pub labels: Option<Vec<ServerLabel>>,
    /// Credentials that are added to requests outside of the sandbox, so that code never sees them.
    pub credentials: Vec<NetworkCredential>,
}

/// Credential that is added to the requests to one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkCredential {
    /// Exact host name. Requests to it are sent by HTTPS only.
    pub host: String,
    /// Port. Defaults to 443.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u64>,
    /// Methods with which the credential is sent. `GET` and `HEAD` if the list is empty.
    pub methods: Vec<String>,
    /// Header, such as `authorization`.
    pub header: String,
    /// Value of the header, such as `Bearer ${TOKEN}`. Variables are expanded.
    #[schemars(with = "String")]
    pub value: Secret,
    /// User whose code uses the credential.
    pub user: Option<String>,
    /// Whether the code of all users uses the credential.
    pub shared: bool,
}
