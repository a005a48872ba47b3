//! Whose containers are whose: a label names the server that made a container, so that the next one can remove what a
//! dead one has left behind.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The label of every container, with the server that made it.
pub(super) const SERVER: &str = "dev.coracle.server";

/// A process of this machine, which no other process will ever be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    /// The boot of the machine.
    boot: String,
    /// The pid namespace, in which the process ID counts.
    namespace: u64,
    pid: u32,
    /// When the process was started, in ticks since the boot.
    started: u64,
}

impl Server {
    /// This process.
    pub(super) fn current() -> io::Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let namespace = fs::metadata("/proc/self/ns/pid")?.ino();
        let pid = std::process::id();
        let started = started(pid).ok_or_else(|| io::Error::other("/proc/self/stat is unreadable"))?;
        Ok(Self { boot, namespace, pid, started })
    }

    /// The value of the label.
    pub(super) fn label(&self) -> String {
        format!("{}/{}/{}/{}", self.boot, self.namespace, self.pid, self.started)
    }

    fn parse(label: &str) -> Option<Self> {
        let mut parts = label.split('/');
        let (boot, namespace, pid, started) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let (namespace, pid, started) = (namespace.parse().ok()?, pid.parse().ok()?, started.parse().ok()?);
        parts.next().is_none().then(|| Self { boot: boot.to_owned(), namespace, pid, started })
    }

    /// Whether the server that wrote this label is certainly gone. One in another pid namespace may be alive.
    pub(super) fn knows_as_dead(&self, label: &str) -> bool {
        let Some(other) = Self::parse(label) else { return false };
        if other.boot != self.boot {
            return true;
        }
        other.namespace == self.namespace && started(other.pid) != Some(other.started)
    }
}

/// When a process was started, or `None` if there is none with this ID.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name, which may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Server;

    #[test]
    fn a_server_is_dead_if_its_process_is_gone_or_another_one() {
        let own = Server::current().unwrap();
        assert!(!own.knows_as_dead(&own.label()));
        let reused = Server { started: own.started + 1, ..own.clone() };
        let earlier_boot = Server { boot: "of-yesterday".to_owned(), ..own.clone() };
        for gone in [reused, earlier_boot] {
            assert!(own.knows_as_dead(&gone.label()), "{gone:?}");
        }
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert!(own.knows_as_dead(&Server { pid, ..own.clone() }.label()));
        // It cannot be known whether these live.
        let elsewhere = Server { namespace: own.namespace + 1, pid, ..own.clone() };
        assert!(!own.knows_as_dead(&elsewhere.label()));
        for label in ["", "a/b/c/d", "somebody else's"] {
            assert!(!own.knows_as_dead(label));
        }
    }
}
