//! What calls have used of the operator's limits.

use crate::StoreError;
use async_trait::async_trait;
use coracle_types::UserId;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The number of slices that a period has. What was used is counted for a slice as a whole, so it counts for up to one
/// slice longer than the period, and never shorter.
const SLICES: u64 = 60;

/// An amount in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millionths(u64);

impl Millionths {
    /// The largest amount, so that no sum overflows.
    const MAX: u64 = 1 << 61;
    const ONE: u64 = 1_000_000;

    /// A whole number, or the largest amount.
    pub fn whole(number: u64) -> Self {
        Self(number.saturating_mul(Self::ONE).min(Self::MAX))
    }

    /// A whole number, unless it is too large.
    pub fn checked_whole(number: u64) -> Option<Self> {
        number.checked_mul(Self::ONE).filter(|number| *number <= Self::MAX).map(Self)
    }

    /// A number, rounded up, unless it is negative or too large.
    #[expect(clippy::cast_precision_loss, reason = "both bounds are exact")]
    pub fn of_float(number: f64) -> Option<Self> {
        let millionths = (number * Self::ONE as f64).ceil();
        (0.0..=Self::MAX as f64).contains(&millionths).then_some(Self(millionths as u64))
    }

    /// The number of millionths.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// What a call uses of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitCharge {
    /// The name of the limit.
    pub limit: String,
    /// The user it is counted for, unless users are counted together.
    pub user: Option<UserId>,
    /// What else it is counted for: a server, a tool, or nothing.
    pub subject: String,
    /// The period.
    pub window: Duration,
    /// The maximum number of calls in the period.
    pub calls: Option<u64>,
    /// The amount of the call.
    pub amount: Millionths,
    /// The maximum sum of amounts in the period.
    pub max: Option<Millionths>,
}

/// Moments of a charge, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slices {
    /// The beginning of the slice that is charged.
    pub(crate) current: i64,
    /// Slices that began at this moment or before no longer count.
    pub(crate) over: i64,
}

impl LimitCharge {
    pub(crate) fn slices(&self, now: SystemTime) -> Slices {
        let whole = |number: u128| i64::try_from(number).unwrap_or(i64::MAX);
        let now = whole(now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis()));
        let window = whole(self.window.as_millis());
        let slice = (window / SLICES.cast_signed()).max(1);
        Slices { current: now - now % slice, over: now.saturating_sub(window).saturating_sub(slice) }
    }

    pub(crate) fn user_id(&self) -> &str {
        self.user.as_ref().map_or("", UserId::as_str)
    }

    /// Whether one more call fits.
    pub(crate) fn fits(&self, calls: u64, amount: u64) -> bool {
        self.calls.is_none_or(|most| calls < most)
            && self.max.is_none_or(|most| amount.saturating_add(self.amount.0) <= most.0)
    }
}

/// Whether charges were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charged {
    /// All of them.
    All,
    /// None of them: the limit of the charge with this number does not allow it.
    Exceeded(usize),
}

/// The part of a store that counts what calls use of limits. Its contract is that of [`crate::Store`]; of concurrent calls,
/// in this process and in others, only those are charged that all limits allow.
#[async_trait]
pub trait LimitUse: Send + Sync + fmt::Debug {
    /// Charges a call at a moment, if all of its limits allow it, and deletes what is over.
    async fn charge(&self, charges: &[LimitCharge], now: SystemTime) -> Result<Charged, StoreError>;

    /// Whether the limits allow a call. Charges nothing.
    async fn allows(&self, charges: &[LimitCharge], now: SystemTime) -> Result<Charged, StoreError>;

    /// Gives back what was charged at a moment.
    async fn give_back(&self, charges: &[LimitCharge], at: SystemTime) -> Result<(), StoreError>;
}
