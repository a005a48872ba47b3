//! Rate limit for sign-in attempts: a few are free, and each further one doubles the wait.
//!
//! An attempt counts as failed from its start, so that parallel attempts are limited as well.

use crate::names::user_name;
use coracle_store::TokenDigest;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Number of failures per name that cause no wait. Each further one doubles the wait.
const FREE_FOR_NAME: u32 = 5;
/// Longest wait for a name. It is short, so that attempts of others cannot lock out the user for long.
const LONGEST_FOR_NAME: Duration = Duration::from_mins(1);
/// Number of failures per address that cause no wait. Several users may share an address.
const FREE_FOR_ADDRESS: u32 = 20;
const LONGEST_FOR_ADDRESS: Duration = Duration::from_mins(15);
/// Time without a failure after which earlier failures are forgotten.
const FORGOTTEN: Duration = Duration::from_mins(30);
/// Maximum number of remembered names and addresses. If there are more, the least recent ones are forgotten.
const MAX_REMEMBERED: usize = 20_000;

/// Too many attempts, with the time to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany(pub(crate) Duration);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Who {
    /// A name at any address, as a digest because names can have any length.
    Name(TokenDigest),
    /// An address; for IPv6, its /64 network.
    Address(IpAddr),
}

impl Who {
    fn slow_down(&self) -> (u32, Duration) {
        match self {
            Self::Name(_) => (FREE_FOR_NAME, LONGEST_FOR_NAME),
            Self::Address(_) => (FREE_FOR_ADDRESS, LONGEST_FOR_ADDRESS),
        }
    }
}

#[derive(Debug)]
struct Entry {
    failures: u32,
    last: Instant,
    /// Time of the next permitted attempt.
    next: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<HashMap<Who, Entry>>);

/// A running attempt.
#[must_use]
pub(crate) struct Attempt<'a> {
    attempts: &'a Attempts,
    who: Vec<Who>,
}

impl Attempts {
    /// Starts an attempt. An empty name is not counted.
    pub(crate) fn begin(&self, name: &str, from: IpAddr) -> Result<Attempt<'_>, TooMany> {
        self.begin_at(name, from, Instant::now())
    }

    fn begin_at(&self, name: &str, from: IpAddr, now: Instant) -> Result<Attempt<'_>, TooMany> {
        // All spellings of a user name count as one; invalid names are counted as they are.
        let name = user_name(name).map_or_else(|_| name.trim().to_lowercase(), |name| name.to_string());
        let mut who = vec![Who::Address(network(from))];
        if !name.is_empty() {
            who.push(Who::Name(TokenDigest::of(&name)));
        }
        let mut all = self.lock();
        let wait =
            who.iter().filter_map(|who| all.get(who)).map(|entry| entry.next.saturating_duration_since(now)).max();
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            return Err(TooMany(wait));
        }
        if all.len() + who.len() > MAX_REMEMBERED {
            make_room(&mut all, now);
        }
        for one in &who {
            let entry = all.entry(one.clone()).or_insert(Entry { failures: 0, last: now, next: now });
            if now.saturating_duration_since(entry.last) >= FORGOTTEN {
                entry.failures = 0;
            }
            entry.failures = entry.failures.saturating_add(1);
            entry.last = now;
            let (free, longest) = one.slow_down();
            if let Some(doublings) = entry.failures.checked_sub(free) {
                entry.next = now + Duration::from_secs(1 << doublings.min(20)).min(longest);
            }
        }
        Ok(Attempt { attempts: self, who })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Who, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt<'_> {
    /// Records a success: the name is forgotten, and the address has one failure less. It does not lose all of them,
    /// because the owner of one account could then try other names without a limit.
    pub(crate) fn succeeded(self) {
        let mut all = self.attempts.lock();
        for who in &self.who {
            match who {
                Who::Name(_) => {
                    all.remove(who);
                }
                Who::Address(_) => {
                    if let Some(entry) = all.get_mut(who) {
                        entry.failures = entry.failures.saturating_sub(1);
                        entry.next = entry.last;
                    }
                }
            }
        }
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mut segments = address.segments();
            segments[4..].fill(0);
            IpAddr::from(segments)
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Forgets expired entries and, if that is not enough, the less recent half.
fn make_room(all: &mut HashMap<Who, Entry>, now: Instant) {
    all.retain(|_, entry| now.saturating_duration_since(entry.last) < FORGOTTEN);
    if all.len() > MAX_REMEMBERED / 2 {
        let mut times: Vec<Instant> = all.values().map(|entry| entry.last).collect();
        times.sort_unstable();
        let middle = times[times.len() / 2];
        all.retain(|_, entry| entry.last > middle || entry.next > now);
    }
    if all.len() >= MAX_REMEMBERED {
        all.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{Attempts, FORGOTTEN, FREE_FOR_ADDRESS, FREE_FOR_NAME, MAX_REMEMBERED, TooMany};
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::time::{Duration, Instant};

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn elsewhere(number: u32) -> IpAddr {
        Ipv4Addr::from(0x0a00_0000 + number).into()
    }

    #[test]
    fn attempts_for_a_name_slow_down_across_addresses() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        for number in 0..FREE_FOR_NAME {
            assert!(attempts.begin_at("ann", elsewhere(number), now).is_ok());
        }
        let wait = |name, at| attempts.begin_at(name, HERE, at).err();
        assert_eq!(wait(" Ann", now), Some(TooMany(Duration::from_secs(1))));
        assert_eq!(wait("bob", now), None);
        let mut at = now + Duration::from_secs(1);
        for seconds in [2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(wait("ann", at), None);
            assert_eq!(wait("ann", at), Some(TooMany(Duration::from_secs(seconds))));
            at += Duration::from_secs(seconds);
        }
        assert_eq!(wait("ann", at + FORGOTTEN), None);
        assert_eq!(wait("ann", at + FORGOTTEN), None);
    }

    #[test]
    fn attempts_from_an_address_slow_down_across_names_despite_successes() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        for number in 0..FREE_FOR_ADDRESS {
            assert!(attempts.begin_at(&format!("user{number}"), HERE, now).is_ok());
            if let Ok(own) = attempts.begin_at("own", HERE, now) {
                own.succeeded();
            }
        }
        assert!(attempts.begin_at("another", HERE, now).is_err());
        assert!(attempts.begin_at("another", elsewhere(1), now).is_ok());
        let neighbour = |last| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, last));
        for number in 0..FREE_FOR_ADDRESS {
            assert!(attempts.begin_at(&format!("name{number}"), neighbour(number as u16), now).is_ok());
        }
        assert!(attempts.begin_at("x", neighbour(99), now).is_err());
    }

    #[test]
    fn a_success_resets_the_count_of_the_name() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        for _ in 0..FREE_FOR_NAME - 1 {
            assert!(attempts.begin_at("ann", HERE, now).is_ok());
        }
        attempts.begin_at("ann", HERE, now).ok().unwrap().succeeded();
        assert!(attempts.begin_at("ann", HERE, now).is_ok());
    }

    #[test]
    fn memory_is_bounded() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        for number in 0..MAX_REMEMBERED as u32 {
            let _ = attempts.begin_at(&format!("user{number}"), elsewhere(number), now);
        }
        assert!(attempts.lock().len() <= MAX_REMEMBERED);
    }
}
