//! Table of open connections. Limits their number per address and chooses which one to close to make room.
//!
//! A new connection is always accepted. If the table or the share of its address is full, another connection is closed:
//! first those that keep the server waiting, then idle ones, and last those that were used a moment ago, because their
//! clients may use them again. Connections whose request is being answered are never closed. If none can be closed, the
//! new connection only serves probes.

use ipnet::IpNet;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// One address may use one in this many connections.
const SHARE: usize = 4;
/// Maximum number of connections for probes only: this many, or one for each `ASIDE_PART` regular ones if that is less.
/// Beyond it, the oldest one is closed.
const ASIDE: usize = 64;
const ASIDE_PART: usize = 4;
/// A client that keeps the server waiting for longer than this is slow.
const PROMPT: Duration = Duration::from_secs(1);
/// A connection that finished a request less than this ago is likely to be used again.
const RECENT: Duration = Duration::from_secs(5);
/// If there is no room, up to one in this many connections is closed at once, because searching for them takes a while.
const CLEARED: usize = 32;
/// Minimum age of the connections that are closed this way, if there are others.
const SETTLED: Duration = Duration::from_millis(200);

/// All connections.
#[derive(Clone, Debug)]
pub(crate) struct Table(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    max: usize,
    share: usize,
    aside: usize,
    proxies: Vec<IpNet>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    all: HashMap<u64, Entry>,
    /// Regular connections by address.
    by_address: HashMap<IpAddr, usize>,
    aside: usize,
}

#[derive(Debug)]
struct Entry {
    address: IpAddr,
    lane: Lane,
    progress: Arc<Mutex<Progress>>,
    close: CancellationToken,
    since: Instant,
}

/// Kind of requests that a connection serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Every request.
    Regular,
    /// Probes such as `/health`, because there is no room for others.
    Aside,
}

/// Current activity of a connection.
#[derive(Debug)]
struct Progress {
    phase: Phase,
    /// Start of the phase.
    since: Instant,
    /// Start of waiting for a request body.
    reading: Option<Instant>,
    /// Start of waiting for the client to read.
    writing: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No request has arrived yet.
    New,
    /// A request is being answered.
    Busy,
    /// At least one request was answered.
    Idle,
}

/// Order in which connections are closed, first to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    Slow,
    Idle,
    Young,
    Recent,
}

impl Progress {
    /// Returns the worth and since when it applies, or `None` while a request is being answered.
    fn worth(&self, now: Instant) -> Option<(Worth, Instant)> {
        let waits = match self.phase {
            Phase::New => Some(self.since),
            Phase::Idle if self.writing.is_none() => {
                let is_recent = now.saturating_duration_since(self.since) < RECENT;
                return Some((if is_recent { Worth::Recent } else { Worth::Idle }, self.since));
            }
            Phase::Busy | Phase::Idle => [self.reading, self.writing].into_iter().flatten().min(),
        };
        let since = waits?;
        let worth = if now.saturating_duration_since(since) > PROMPT { Worth::Slow } else { Worth::Young };
        Some((worth, since))
    }
}

impl Table {
    /// Creates a table for `max` regular connections. Addresses of trusted proxies are shared by many clients and have
    /// no limit.
    pub(crate) fn new(max: usize, proxies: Vec<IpNet>) -> Self {
        let (share, aside) = ((max / SHARE).max(1), (max / ASIDE_PART).clamp(1, ASIDE));
        Self(Arc::new(Shared { max: max.max(1), share, aside, proxies, inner: Mutex::default() }))
    }

    /// Admits a connection, and closes another one if necessary.
    pub(crate) fn admit(&self, peer: IpAddr) -> Ticket {
        let shared = &self.0;
        let address = address(peer);
        let mut inner = shared.lock();
        let mut lane = Lane::Regular;
        if !shared.is_proxy(peer)
            && inner.of(address) >= shared.share
            && inner.clear(shared.share / CLEARED, Some(address)) == 0
        {
            lane = Lane::Aside;
        }
        if lane == Lane::Regular && inner.regular() >= shared.max && inner.clear(shared.max / CLEARED, None) == 0 {
            lane = Lane::Aside;
        }
        if lane == Lane::Aside && inner.aside >= shared.aside {
            inner.clear_aside();
        }
        let now = Instant::now();
        let progress = Progress { phase: Phase::New, since: now, reading: None, writing: None };
        let (progress, close) = (Arc::new(Mutex::new(progress)), CancellationToken::new());
        let id = inner.next;
        inner.next += 1;
        let entry = Entry { address, lane, progress: Arc::clone(&progress), close: close.clone(), since: now };
        inner.insert(id, entry);
        drop(inner);
        Ticket { id, peer, lane, close, record: Record(progress), table: self.clone() }
    }

    /// Closes some connections because the system is out of a resource, such as descriptors. Returns their number.
    pub(crate) fn relieve(&self) -> usize {
        let mut inner = self.0.lock();
        let some = (inner.all.len() / 8).max(1);
        inner.clear(some, None)
    }

    /// Assigns a connection of a trusted proxy to a client. Returns whether the client has room for it.
    fn assign(&self, id: u64, client: IpAddr) -> bool {
        let shared = &self.0;
        let address = address(client);
        let mut inner = shared.lock();
        let Some(mut entry) = inner.remove(id) else { return true };
        let fits = shared.is_proxy(client) || inner.of(address) < shared.share || inner.clear(1, Some(address)) > 0;
        if fits {
            entry.address = address;
        }
        inner.insert(id, entry);
        fits
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_proxy(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.proxies.iter().any(|network| network.contains(&peer))
    }
}

impl Inner {
    fn of(&self, address: IpAddr) -> usize {
        self.by_address.get(&address).copied().unwrap_or_default()
    }

    fn regular(&self) -> usize {
        self.all.len() - self.aside
    }

    fn insert(&mut self, id: u64, entry: Entry) {
        match entry.lane {
            Lane::Regular => *self.by_address.entry(entry.address).or_default() += 1,
            Lane::Aside => self.aside += 1,
        }
        self.all.insert(id, entry);
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.all.remove(&id)?;
        match entry.lane {
            Lane::Aside => self.aside -= 1,
            Lane::Regular => {
                if let Some(count) = self.by_address.get_mut(&entry.address) {
                    *count -= 1;
                    if *count == 0 {
                        self.by_address.remove(&entry.address);
                    }
                }
            }
        }
        Some(entry)
    }

    /// Closes up to `wanted` connections that keep the server waiting, or else a single idle or new one. The address
    /// with most connections comes first, and then those that have waited longest. Returns their number.
    fn clear(&mut self, wanted: usize, only: Option<IpAddr>) -> usize {
        let now = Instant::now();
        let regular = self.all.iter().filter(|(_, entry)| entry.lane == Lane::Regular);
        let asked = regular.filter(|(_, entry)| only.is_none_or(|only| entry.address == only));
        let mut found: Vec<_> = asked
            .filter_map(|(id, entry)| {
                let (worth, since) = entry.progress.lock().unwrap_or_else(PoisonError::into_inner).worth(now)?;
                Some((worth, Reverse(self.of(entry.address)), since, *id))
            })
            .collect();
        found.sort_unstable();
        let is_waited_for = |worth: Worth, since: Instant| match worth {
            Worth::Slow => true,
            Worth::Idle | Worth::Recent => false,
            Worth::Young => now.saturating_duration_since(since) > SETTLED,
        };
        let waited = found.iter().take(wanted.max(1)).take_while(|(worth, _, since, _)| is_waited_for(*worth, *since));
        let chosen = waited.count().max(1).min(found.len());
        for (.., id) in found.into_iter().take(chosen) {
            self.close(id);
        }
        chosen
    }

    fn clear_aside(&mut self) {
        let aside = self.all.iter().filter(|(_, entry)| entry.lane == Lane::Aside);
        if let Some(id) = aside.min_by_key(|(_, entry)| entry.since).map(|(id, _)| *id) {
            self.close(id);
        }
    }

    /// Removes a connection from the table and asks its task to close it.
    fn close(&mut self, id: u64) {
        if let Some(entry) = self.remove(id) {
            entry.close.cancel();
        }
    }
}

/// Key of a client: the address or, for IPv6, its /64 network.
fn address(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(long) => {
            let [a, b, c, d, ..] = long.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        short @ IpAddr::V4(_) => short,
    }
}

/// Entry of a connection in the table, removed when dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    id: u64,
    peer: IpAddr,
    pub(crate) lane: Lane,
    /// Cancelled when the connection must be closed.
    pub(crate) close: CancellationToken,
    pub(crate) record: Record,
    table: Table,
}

impl Ticket {
    /// Records the start of a request from this client. Returns whether there is room for it.
    pub(crate) fn begin(&self, client: IpAddr) -> bool {
        self.record.enter(Phase::Busy);
        client == self.peer || self.table.assign(self.id, client)
    }

    /// Records the end of a request. The next one may be from another client of the same proxy.
    pub(crate) fn end(&self) {
        self.record.enter(Phase::Idle);
        if self.table.0.is_proxy(self.peer) {
            self.table.assign(self.id, self.peer);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.table.0.lock().remove(self.id);
    }
}

/// Handle for recording the activity of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Record(Arc<Mutex<Progress>>);

impl Record {
    fn with(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn enter(&self, phase: Phase) {
        self.with(|progress| (progress.phase, progress.since) = (phase, Instant::now()));
    }

    /// Records that the server waits for a request body.
    pub(crate) fn reads(&self) {
        self.with(|progress| _ = progress.reading.get_or_insert_with(Instant::now));
    }

    /// Records that the body has arrived or is no longer needed.
    pub(crate) fn has_read(&self) {
        self.with(|progress| progress.reading = None);
    }

    /// Records that the client is not reading.
    pub(crate) fn writes(&self) {
        self.with(|progress| _ = progress.writing.get_or_insert_with(Instant::now));
    }

    /// Records that the client has read everything.
    pub(crate) fn has_written(&self) {
        self.with(|progress| progress.writing = None);
    }

    /// Whether the client has not read everything.
    pub(crate) fn is_unread(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).writing.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::{Lane, Phase, Table, Ticket};
    use std::net::IpAddr;
    use std::time::Duration;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Backdates the activity of a connection by this many seconds.
    fn aged(ticket: Ticket, seconds: u64) -> Ticket {
        let past = Duration::from_secs(seconds);
        ticket.record.with(|progress| {
            progress.since -= past;
            for since in [&mut progress.reading, &mut progress.writing].into_iter().flatten() {
                *since -= past;
            }
        });
        ticket
    }

    fn closed(tickets: &[Ticket]) -> Vec<usize> {
        (0..tickets.len()).filter(|at| tickets[*at].close.is_cancelled()).collect()
    }

    #[test]
    fn slow_connections_are_closed_before_idle_ones_and_busy_ones_never() {
        let table = Table::new(4, Vec::new());
        let busy = table.admit(ip("10.0.0.1"));
        assert!(busy.begin(ip("10.0.0.1")));
        let idle = aged(table.admit(ip("10.0.0.2")), 60);
        idle.record.enter(Phase::Idle);
        let reading = table.admit(ip("10.0.0.3"));
        assert!(reading.begin(ip("10.0.0.3")));
        reading.record.reads();
        let reading = aged(reading, 5);
        let silent = aged(table.admit(ip("10.0.0.4")), 20);
        let all = [busy, idle, reading, silent];
        let mut later = Vec::new();
        for (host, expected) in [("10.0.1.1", vec![3]), ("10.0.1.2", vec![2, 3]), ("10.0.1.3", vec![1, 2, 3])] {
            let next = table.admit(ip(host));
            assert!(next.lane == Lane::Regular && next.begin(ip(host)));
            later.push(next);
            assert_eq!(closed(&all), expected);
        }
        // All connections are busy, so none can be closed.
        let probe = table.admit(ip("10.0.2.1"));
        assert_eq!(probe.lane, Lane::Aside);
        assert_eq!(closed(&all), [1, 2, 3]);
    }

    #[test]
    fn a_recently_used_connection_is_closed_last() {
        let table = Table::new(3, Vec::new());
        let used = table.admit(ip("10.0.0.1"));
        assert!(used.begin(ip("10.0.0.1")));
        used.end();
        let idle = table.admit(ip("10.0.0.2"));
        assert!(idle.begin(ip("10.0.0.2")));
        idle.end();
        let all = [used, aged(idle, 60), table.admit(ip("10.0.0.3"))];
        let mut later = Vec::new();
        for (host, expected) in [("10.0.1.1", vec![1]), ("10.0.1.2", vec![1, 2]), ("10.0.1.3", vec![0, 1, 2])] {
            let next = table.admit(ip(host));
            assert!(next.begin(ip(host)));
            later.push(next);
            assert_eq!(closed(&all), expected);
        }
    }

    #[test]
    fn an_address_has_a_share_but_a_proxy_does_not() {
        let table = Table::new(16, vec!["10.0.0.9/32".parse().unwrap()]);
        let mine: Vec<Ticket> = (0..6).map(|_| table.admit(ip("10.0.0.1"))).collect();
        assert_eq!(closed(&mine), [0, 1], "the oldest ones of the address are closed");
        let proxied: Vec<Ticket> = (0..10).map(|_| table.admit(ip("10.0.0.9"))).collect();
        assert_eq!(closed(&proxied), [0; 0], "a proxy has no limit");
        let served = proxied.iter().map(|ticket| ticket.begin(ip("192.0.2.1"))).collect::<Vec<_>>();
        assert_eq!(
            served,
            [true, true, true, true, false, false, false, false, false, false],
            "a client of the proxy has one"
        );
        assert!(proxied[9].begin(ip("192.0.2.2")), "other clients are not affected");
        proxied[0].end();
        assert!(proxied[8].begin(ip("192.0.2.1")), "the client has room again");
        let neighbours: Vec<Ticket> = (1..=5).map(|host| table.admit(ip(&format!("2001:db8::{host}")))).collect();
        assert!(neighbours[0].close.is_cancelled(), "an IPv6 network is one client");
    }

    #[test]
    fn probe_connections_are_limited_and_the_newest_is_served() {
        let table = Table::new(8, Vec::new());
        let hosts = (1..=8).map(|host| ip(&format!("10.0.0.{host}")));
        let busy: Vec<Ticket> = hosts.map(|host| table.admit(host)).collect();
        assert!(busy.iter().all(|ticket| ticket.begin(ticket.peer)));
        let probes: Vec<Ticket> = (0..6).map(|_| table.admit(ip("10.0.1.1"))).collect();
        assert!(probes.iter().all(|probe| probe.lane == Lane::Aside));
        assert_eq!(closed(&probes), [0, 1, 2, 3]);
        drop(probes);
        busy[0].end();
        assert_eq!(table.admit(ip("10.0.1.1")).lane, Lane::Regular);
        assert_eq!(closed(&busy), [0]);
    }
}
