//! Tokens of language models, counted by user and day.

use crate::StoreError;
use async_trait::async_trait;
use coracle_types::UserId;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// The number of days for which token counts are kept.
pub const KEPT_TOKEN_DAYS: u32 = 400;
/// The largest count of one day. More is counted as this.
pub const MAX_DAY_TOKENS: u64 = 1 << 60;

/// A day in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Day(u32);

impl Day {
    const SECONDS: u64 = 86_400;

    /// The day of a moment. Moments before 1970 belong to the first day.
    pub fn of(time: SystemTime) -> Self {
        let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self(u32::try_from(seconds / Self::SECONDS).unwrap_or(u32::MAX))
    }

    /// The day with this number.
    pub(crate) fn with_number(number: u32) -> Self {
        Self(number)
    }

    /// The beginning of the day.
    pub fn start(self) -> SystemTime {
        UNIX_EPOCH + std::time::Duration::from_secs(u64::from(self.0) * Self::SECONDS)
    }

    /// The number of days since 1970.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The last day whose counts are no longer kept when this one is counted.
    pub(crate) fn forgotten(self) -> Option<u32> {
        self.0.checked_sub(KEPT_TOKEN_DAYS)
    }
}

/// The part of a store that counts tokens. Its contract is that of [`crate::Store`]; concurrent counts add up.
#[async_trait]
pub trait TokenUse: Send + Sync + fmt::Debug {
    /// Adds tokens to the count of a user's day, up to [`MAX_DAY_TOKENS`], and deletes counts that are older than
    /// [`KEPT_TOKEN_DAYS`].
    async fn add_tokens(&self, user: &UserId, day: Day, tokens: u64) -> Result<(), StoreError>;

    /// The tokens of a user's day.
    async fn tokens_used(&self, user: &UserId, day: Day) -> Result<u64, StoreError>;

    /// The days on which a user has used tokens, oldest first, with their counts.
    async fn token_days(&self, user: &UserId) -> Result<Vec<(Day, u64)>, StoreError>;
}
