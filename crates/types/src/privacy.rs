use serde::{Deserialize, Serialize};

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
}
