use coracle_types::PrivacyMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Protection of personal data: what is found is replaced by tokens such as `[EMAIL_3f9a1c0d5e7b2a64]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Privacy {
    /// Where personal data is replaced: `off`, `model` (in everything that a model sees) or `strict` (also in what tools
    /// return to code). Tools get the data itself. `mcpServers.NAME.privacy` sets it for one server.
    #[schemars(with = "PrivacyText")]
    pub mode: PrivacyMode,
    /// Let the tool `restore_pii` show a model what tokens stand for.
    pub restore_to_model: bool,
    /// Number of days without use after which the vault forgets a value. Its token can then not be restored any more.
    /// Unlimited by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 36_500))]
    pub keep_days: Option<u64>,
    /// Kinds of personal data to look for.
    pub kinds: PrivacyKinds,
    /// Regular expressions for other data, by the label of their tokens, for example
    /// `EMPLOYEE_ID: 'E-[0-9]{6}'`. No look-around and no back-references.
    pub patterns: BTreeMap<String, String>,
    /// Words and phrases that are replaced wherever they are whole words, in any case. Their tokens have the label `WORD`.
    pub words: Vec<String>,
}

/// Kinds of personal data to look for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PrivacyKinds {
    /// Labels of kinds to look for besides the default ones.
    pub enable: Vec<String>,
    /// Labels of kinds not to look for.
    pub disable: Vec<String>,
}

/// Where personal data is replaced by tokens.
#[derive(JsonSchema)]
#[schemars(rename = "PrivacyMode", rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum PrivacyText {
    /// Personal data is not replaced.
    Off,
    /// In everything that a model sees. Code works on the data itself.
    Model,
    /// In everything that a model or code sees.
    Strict,
}

/// Label of a server.
#[derive(JsonSchema)]
#[schemars(rename = "ServerLabel", rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum LabelText {
    /// The server has personal or confidential data.
    Private,
    /// Strangers can write what the server returns: web pages, incoming mail, issues.
    Untrusted,
    /// Data that the server gets can leave the organization.
    Exfil,
}
