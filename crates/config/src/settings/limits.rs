//! The limits of executions as settings, made from the table in `coracle_types`.

use coracle_types::{LIMITS, Limit, Limits, Unit};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Number, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// Default limits of one execution. In the settings file, time is in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutionLimits(Limits);

impl ExecutionLimits {
    /// Converts the limits to those of the engine.
    pub fn to_limits(&self) -> Limits {
        self.0.clone()
    }
}

impl Deref for ExecutionLimits {
    type Target = Limits;

    fn deref(&self) -> &Limits {
        &self.0
    }
}

impl DerefMut for ExecutionLimits {
    fn deref_mut(&mut self) -> &mut Limits {
        &mut self.0
    }
}

/// The name of the setting for a limit, below `execution.limits`.
pub(crate) fn setting(limit: &Limit) -> &'static str {
    match limit.unit {
        Unit::Milliseconds => "time",
        _ => limit.name,
    }
}

/// The value of a setting for a value of a limit.
fn written(limit: &Limit, value: u64) -> Value {
    match limit.unit {
        Unit::Milliseconds => Duration::from_millis(value).as_secs_f64().into(),
        _ => value.into(),
    }
}

fn description(limit: &Limit) -> String {
    let Limit { what, remarks, unit, .. } = limit;
    let unit = match unit {
        Unit::Milliseconds => ", in seconds",
        Unit::Megabytes => ", in MB (10^6 bytes)",
        Unit::Bytes => ", in bytes",
        Unit::Count => "",
    };
    format!("{what}{unit}. {remarks}").trim_end().to_owned()
}

impl Serialize for ExecutionLimits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(LIMITS.len()))?;
        for limit in LIMITS {
            map.serialize_entry(setting(limit), &written(limit, (limit.get)(&self.0)))?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for ExecutionLimits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut limits = Limits::default();
        for (name, number) in BTreeMap::<String, Number>::deserialize(deserializer)? {
            let Some(limit) = LIMITS.iter().find(|limit| setting(limit) == name) else {
                return Err(D::Error::custom(format!("unknown field `{name}`")));
            };
            let value = match limit.unit {
                Unit::Milliseconds => number.as_f64().and_then(Limits::wall_ms_of),
                _ => number.as_u64(),
            };
            let value = value.ok_or_else(|| D::Error::custom(format!("`{name}` is {number}: not a valid limit")))?;
            (limit.set)(&mut limits, value);
        }
        Ok(Self(limits))
    }
}

impl JsonSchema for ExecutionLimits {
    fn schema_name() -> Cow<'static, str> {
        "ExecutionLimits".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let properties: Map<String, Value> = LIMITS
            .iter()
            .map(|limit| {
                let (kind, format, most) = match limit.unit {
                    Unit::Milliseconds => ("number", "double", (limit.most / 1000).into()),
                    _ => ("integer", "uint64", written(limit, limit.most)),
                };
                let schema = json!({
                    "type": kind,
                    "format": format,
                    "description": description(limit),
                    "default": written(limit, limit.default),
                    "minimum": written(limit, limit.least),
                    "maximum": most,
                });
                (setting(limit).to_owned(), schema)
            })
            .collect();
        schemars::json_schema!({
            "type": "object",
            "description": "Default limits of one execution.",
            "properties": properties,
            "additionalProperties": false,
        })
    }
}
