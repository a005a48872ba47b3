use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::SystemTime;

/// A record of a log, as it was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Number of the record, from 1.
    pub seq: u64,
    /// Time in RFC 3339, in UTC.
    pub time: String,
    /// What happened.
    pub kind: String,
    /// The user who caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Everything else, except the codes.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl Record {
    /// Parses a line. The code of the record is not checked.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let mut record: Self = serde_json::from_slice(line).ok()?;
        record.fields.remove("prev");
        record.fields.remove("mac");
        Some(record)
    }

    /// The time of the record.
    pub fn time(&self) -> Option<SystemTime> {
        humantime::parse_rfc3339(&self.time).ok()
    }
}
