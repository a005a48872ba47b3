//! Times as stored in databases: whole milliseconds since 1970, negative before.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) fn to_millis(time: SystemTime) -> i64 {
    let whole = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => whole(since),
        Err(before) => -whole(before.duration()),
    }
}

pub(crate) fn from_millis(millis: i64) -> SystemTime {
    let distance = Duration::from_millis(millis.unsigned_abs());
    let time = if millis < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    time.unwrap_or(UNIX_EPOCH)
}

/// Rounds a time to the precision of a store.
pub(crate) fn kept(time: SystemTime) -> SystemTime {
    from_millis(to_millis(time))
}

#[cfg(test)]
mod tests {
    use super::{from_millis, to_millis};

    #[test]
    fn milliseconds_survive_both_ways() {
        for millis in [0, 1, -1, 1_790_000_000_123, -62_000_000_000_000] {
            assert_eq!(to_millis(from_millis(millis)), millis);
        }
    }
}
