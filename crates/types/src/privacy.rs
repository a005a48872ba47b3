use serde::{Deserialize, Serialize};
use std::fmt;

/// Where personal data is replaced by tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrivacyMode {
    /// Personal data is not replaced.
    #[default]
    Off,
    /// In everything that a model sees. Code works on the data itself.
    Model,
    /// In everything that a model or code sees. Tools get the data itself.
    Strict,
}

/// Label of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerLabel {
    /// The server has personal or confidential data.
    Private,
    /// Strangers can write what the server returns: web pages, incoming mail, issues.
    Untrusted,
    /// Data that the server gets can leave the organization.
    Exfil,
}

impl ServerLabel {
    /// All labels.
    pub const ALL: [Self; 3] = [Self::Private, Self::Untrusted, Self::Exfil];

    /// The name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Untrusted => "untrusted",
            Self::Exfil => "exfil",
        }
    }

    /// The label with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|label| label.as_str() == name)
    }
}

impl fmt::Display for ServerLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
