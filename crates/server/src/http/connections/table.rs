//! Which connections there are, how many each address may have, and which one is closed to make room for another.
//!
//! A new connection is always accepted. If the table or the share of its address is full, a connection that is not
//! working gives way: first those that have kept the server waiting, then idle ones, and last those that were used a moment
//! ago: a client may be about to use such a connection again. Connections whose request is being answered are never
//! closed. If there is nothing to close, the new connection is admitted on the side, for probes only.

use ipnet::IpNet;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// One address may have this part of all connections.
const SHARE: usize = 4;
/// Connections on the side at once, and as a part of the regular ones where these are few. With a further one the oldest
/// of them is closed.
const ASIDE: usize = 64;
const ASIDE_PART: usize = 4;
/// A client that keeps the server waiting for longer than this is slow.
const PROMPT: Duration = Duration::from_secs(1);
/// A connection on which a request was answered less than this ago is likely to be used again.
const RECENT: Duration = Duration::from_secs(5);
/// When there is no room, this part of the waiting connections is cleared at once: looking for them takes a while.
const CLEARED: usize = 32;
/// None of those is younger, if there are others.
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

/// What a connection is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Every request.
    Regular,
    /// Probes such as `/health`, because there is no room for anything else.
    Aside,
}

/// What a connection is doing.
#[derive(Debug)]
struct Progress {
    phase: Phase,
    /// Since when it is in this phase.
    since: Instant,
    /// Since when a body is being read.
    reading: Option<Instant>,
    /// Since when the client does not take what is written.
    writing: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No request has come yet.
    New,
    /// A request is being answered.
    Busy,
    /// At least one request was answered.
    Idle,
}

/// How willingly a connection is closed: the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    Slow,
    Idle,
    Young,
    Recent,
}

impl Progress {
    /// None while there is work under way for it. Also: since when it has been so.
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
    /// At most `max` regular connections. The addresses of trusted proxies stand for many clients and have no share.
    pub(crate) fn new(max: usize, proxies: Vec<IpNet>) -> Self {
        let (share, aside) = ((max / SHARE).max(1), (max / ASIDE_PART).clamp(1, ASIDE));
        Self(Arc::new(Shared { max: max.max(1), share, aside, proxies, inner: Mutex::default() }))
    }

    /// Admits a connection, and closes another one for it if need be.
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

    /// Closes some connections because the system has run out of something, such as descriptors. Returns how many.
    pub(crate) fn relieve(&self) -> usize {
        let mut inner = self.0.lock();
        let some = (inner.all.len() / 8).max(1);
        inner.clear(some, None)
    }

    /// A trusted proxy says for whom the request on this connection is. Returns whether there is room for it.
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

    /// Closes connections that are waited for, as many as are wanted, else a single one that is idle or quite new: those of
    /// the address that has most of them, and of these the ones that have been so for longest. Returns how many.
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

    /// It no longer counts, whenever its task comes to close it.
    fn close(&mut self, id: u64) {
        if let Some(entry) = self.remove(id) {
            entry.close.cancel();
        }
    }
}

/// One client, as far as an address tells: with IPv6 everybody has a whole network.
fn address(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(long) => {
            let [a, b, c, d, ..] = long.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        short @ IpAddr::V4(_) => short,
    }
}

/// The place of a connection in the table, until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    id: u64,
    peer: IpAddr,
    pub(crate) lane: Lane,
    /// Cancelled when the connection has to give way.
    pub(crate) close: CancellationToken,
    pub(crate) record: Record,
    table: Table,
}

impl Ticket {
    /// A request has come, for this client. Returns whether there is room for it.
    pub(crate) fn begin(&self, client: IpAddr) -> bool {
        self.record.enter(Phase::Busy);
        client == self.peer || self.table.assign(self.id, client)
    }

    /// The request is answered. The next one may be for another client of the same proxy.
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

/// Where it is written down what a connection is doing.
#[derive(Clone, Debug)]
pub(crate) struct Record(Arc<Mutex<Progress>>);

impl Record {
    fn with(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn enter(&self, phase: Phase) {
        self.with(|progress| (progress.phase, progress.since) = (phase, Instant::now()));
    }

    /// The body of a request is waited for.
    pub(crate) fn reads(&self) {
        self.with(|progress| _ = progress.reading.get_or_insert_with(Instant::now));
    }

    /// The body of a request is there, or nobody wants it.
    pub(crate) fn has_read(&self) {
        self.with(|progress| progress.reading = None);
    }

    /// The client does not take what is written.
    pub(crate) fn writes(&self) {
        self.with(|progress| _ = progress.writing.get_or_insert_with(Instant::now));
    }

    /// The client has taken everything.
    pub(crate) fn has_written(&self) {
        self.with(|progress| progress.writing = None);
    }

    /// Whether the client owes it to us to read.
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

    /// As if it had been so for this many seconds.
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
    fn slow_ones_give_way_before_idle_ones_and_busy_ones_never() {
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
        // All of them work: there is nobody to close.
        let probe = table.admit(ip("10.0.2.1"));
        assert_eq!(probe.lane, Lane::Aside);
        assert_eq!(closed(&all), [1, 2, 3]);
    }

    #[test]
    fn a_connection_that_was_just_used_gives_way_last() {
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
    fn an_address_has_a_share_and_a_proxy_has_none_of_its_own() {
        let table = Table::new(16, vec!["10.0.0.9/32".parse().unwrap()]);
        let mine: Vec<Ticket> = (0..6).map(|_| table.admit(ip("10.0.0.1"))).collect();
        assert_eq!(closed(&mine), [0, 1], "its own oldest");
        let proxied: Vec<Ticket> = (0..10).map(|_| table.admit(ip("10.0.0.9"))).collect();
        assert_eq!(closed(&proxied), [0; 0], "a proxy stands for many");
        let served = proxied.iter().map(|ticket| ticket.begin(ip("192.0.2.1"))).collect::<Vec<_>>();
        assert_eq!(served, [true, true, true, true, false, false, false, false, false, false], "its client does not");
        assert!(proxied[9].begin(ip("192.0.2.2")), "and others are not hindered");
        proxied[0].end();
        assert!(proxied[8].begin(ip("192.0.2.1")), "the next one of the client");
        let neighbours: Vec<Ticket> = (1..=5).map(|host| table.admit(ip(&format!("2001:db8::{host}")))).collect();
        assert!(neighbours[0].close.is_cancelled(), "one network of IPv6 is one client");
    }

    #[test]
    fn those_on_the_side_are_bounded_and_the_newest_gets_through() {
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
