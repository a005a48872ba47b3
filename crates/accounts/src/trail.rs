//! What happens to accounts, as the audit log records it.
//!
//! A change that gives somebody something is recorded before it is made, and refused if that is not possible. Sign-ins,
//! and changes that take something away, are never refused because of the log.

use crate::AccountError;
use coracle_audit::{AccountChange, AuditLog, Entry, Event, KeyChange, SignInMethod};
use coracle_types::UserId;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval for which failed sign-ins are counted.
const INTERVAL: Duration = Duration::from_mins(1);
/// Number of failed sign-ins that are recorded one by one in each interval. More are only counted, so that guessing does
/// not fill the disk.
const RECORDED: u32 = 60;

/// The audit log, and the person who acts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trail {
    log: Option<Arc<dyn AuditLog>>,
    /// `None` for the operator at the terminal.
    by: Option<UserId>,
    failures: Arc<Mutex<Failures>>,
}

#[derive(Debug, Default)]
struct Failures {
    since: Option<Instant>,
    recorded: u32,
    unrecorded: u64,
}

impl Failures {
    /// Counts a failure. If it has to be recorded, returns how many before it were not.
    fn count(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= INTERVAL) {
            (self.since, self.recorded) = (Some(now), 0);
        }
        if self.recorded >= RECORDED {
            self.unrecorded += 1;
            return None;
        }
        self.recorded += 1;
        Some(std::mem::take(&mut self.unrecorded))
    }
}

impl Trail {
    pub(crate) fn with_log(&self, log: Arc<dyn AuditLog>) -> Self {
        Self { log: Some(log), ..self.clone() }
    }

    pub(crate) fn by(&self, user: &UserId) -> Self {
        Self { by: Some(user.clone()), ..self.clone() }
    }

    pub(crate) fn log(&self) -> Option<&Arc<dyn AuditLog>> {
        self.log.as_ref()
    }

    fn entry(&self, event: Event) -> Entry {
        Entry { user: self.by.clone(), event }
    }

    /// Records what is about to be done.
    pub(crate) async fn before(&self, event: Event) -> Result<(), AccountError> {
        match &self.log {
            Some(log) => Ok(log.append(self.entry(event)).await?),
            None => Ok(()),
        }
    }

    /// Records what has been done.
    pub(crate) fn after(&self, event: Event) {
        if let Some(log) = &self.log {
            log.append_later(self.entry(event));
        }
    }

    pub(crate) async fn before_account(&self, account: &UserId, change: AccountChange) -> Result<(), AccountError> {
        self.before(Event::AccountChanged { account: account.clone(), change }).await
    }

    pub(crate) fn after_account(&self, account: &UserId, change: AccountChange) {
        self.after(Event::AccountChanged { account: account.clone(), change });
    }

    pub(crate) async fn before_key(&self, key: &str, account: &UserId) -> Result<(), AccountError> {
        let (key, account) = (key.to_owned(), Some(account.clone()));
        self.before(Event::KeyChanged { key, account, change: KeyChange::Created }).await
    }

    pub(crate) fn after_key(&self, key: &str, account: Option<&UserId>) {
        let (key, account) = (key.to_owned(), account.cloned());
        self.after(Event::KeyChanged { key, account, change: KeyChange::Revoked });
    }

    pub(crate) fn signed_in(&self, user: &UserId, method: SignInMethod, from: Option<IpAddr>) {
        if let Some(log) = &self.log {
            log.append_later(Entry::of(user, Event::SignedIn { method, address: kind_of(from) }));
        }
    }

    /// Records a failed sign-in. `user` is only known if there is such an account: what somebody typed is not recorded,
    /// because it may be a password.
    pub(crate) fn sign_in_failed(
        &self,
        user: Option<&UserId>,
        method: SignInMethod,
        from: Option<IpAddr>,
        reason: &'static str,
    ) {
        let Some(log) = &self.log else { return };
        let counted = self.failures.lock().unwrap_or_else(PoisonError::into_inner).count(Instant::now());
        if let Some(unrecorded) = counted {
            let event = Event::SignInFailed { method, address: kind_of(from), reason, unrecorded };
            log.append_later(Entry { user: user.cloned(), event });
        }
    }
}

/// The kind of an address. The address itself is personal data.
fn kind_of(address: Option<IpAddr>) -> &'static str {
    let Some(address) = address.map(|address| address.to_canonical()) else { return "unknown" };
    let is_private = match address {
        IpAddr::V4(address) => address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => address.is_unique_local() || address.is_unicast_link_local(),
    };
    match () {
        () if address.is_loopback() => "loopback",
        () if is_private => "private",
        () => "public",
    }
}

#[cfg(test)]
mod tests {
    use super::{Failures, INTERVAL, RECORDED, kind_of};
    use std::time::Instant;

    #[test]
    fn failures_beyond_the_limit_are_counted_and_reported_later() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        for _ in 0..RECORDED {
            assert_eq!(failures.count(now), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(failures.count(now), None);
        }
        assert_eq!(failures.count(now + INTERVAL), Some(7));
        assert_eq!(failures.count(now + INTERVAL), Some(0));
    }

    #[test]
    fn addresses_are_only_classified() {
        for (address, kind) in [
            ("127.0.0.1", "loopback"),
            ("::1", "loopback"),
            ("::ffff:10.1.2.3", "private"),
            ("192.168.1.1", "private"),
            ("fe80::1", "private"),
            ("8.8.8.8", "public"),
            ("2606:4700::1111", "public"),
        ] {
            assert_eq!(kind_of(Some(address.parse().unwrap())), kind, "{address}");
        }
        assert_eq!(kind_of(None), "unknown");
    }
}
