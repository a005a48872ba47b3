use serde::{Serialize, Serializer};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second that RFC 3339 can express: the end of the year 9999.
const LAST: Duration = Duration::from_secs(253_402_300_799);

/// A moment as Coracle writes it everywhere, in JSON and in logs: RFC 3339 in UTC, with milliseconds.
///
/// Moments before 1970 or after 9999, which code can give to its files, become the nearest of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(SystemTime);

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Self(time.clamp(UNIX_EPOCH, UNIX_EPOCH + LAST))
    }
}

impl From<Timestamp> for SystemTime {
    fn from(timestamp: Timestamp) -> Self {
        timestamp.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_rfc3339_millis(self.0).fmt(formatter)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_timestamp_is_rfc_3339_in_utc() {
        let at = |time| serde_json::to_value(Timestamp::from(time)).unwrap();
        assert_eq!(at(UNIX_EPOCH + Duration::from_millis(1_794_953_631_250)), "2026-11-17T22:13:51.250Z");
        for (time, nearest) in [
            (UNIX_EPOCH - Duration::from_hours(24), "1970-01-01T00:00:00.000Z"),
            (UNIX_EPOCH + Duration::from_hours(24 * 366 * 9_000), "9999-12-31T23:59:59.000Z"),
        ] {
            assert_eq!(at(time), nearest);
        }
    }
}
