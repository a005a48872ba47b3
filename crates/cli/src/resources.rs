//! Resources of this process: open files and threads. A server with too few reports it on startup, and a server with
//! few limits its parallelism instead of failing later.

use crate::status::Mistake;
use rustix::process::{Resource, getrlimit};

/// Minimum number of open files for a server.
const LEAST: u64 = 128;
/// Files for the server itself: the store, the launcher, prepared sandboxes, MCP servers.
const RESERVED: u64 = 80;
/// Files per sandbox.
const EACH: u64 = 5;
/// Connections get one in this many files.
const FOR_CONNECTIONS: u64 = 4;
/// Number of threads that a server must be able to start.
const THREADS: usize = 24;

/// Limits on what may be open at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) connections: usize,
    pub(crate) sandboxes: usize,
}

/// Divides the available files, or reports that there are too few.
pub(crate) fn share() -> Result<Share, Mistake> {
    let share = shared(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))?;
    threads("a server", THREADS)?;
    Ok(share)
}

fn shared(files: u64) -> Result<Share, Mistake> {
    if files < LEAST {
        let message = format!("a server needs at least {LEAST} open files, but the limit is {files}");
        let hint = "raise `ulimit -n`, or LimitNOFILE= of its systemd unit";
        return Err(Mistake::new(message, Some(hint)));
    }
    let connections = files / FOR_CONNECTIONS;
    let sandboxes = (files.saturating_sub(connections + RESERVED) / EACH).max(2);
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).min(1 << 20);
    Ok(Share { connections: number(connections), sandboxes: number(sandboxes) })
}

/// Starts threads to check that there can be enough: the limit counts all processes of the user, here and elsewhere.
pub(crate) fn threads(who: &str, needed: usize) -> Result<(), Mistake> {
    let (open, closed) = std::sync::mpsc::channel::<()>();
    let closed = std::sync::Arc::new(std::sync::Mutex::new(closed));
    let mut started = Vec::new();
    let mut failed = None;
    for _ in 0..needed {
        let closed = std::sync::Arc::clone(&closed);
        let waiting = move || drop(closed.lock().map(|closed| closed.recv()));
        match std::thread::Builder::new().stack_size(64 << 10).spawn(waiting) {
            Ok(thread) => started.push(thread),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    drop(open);
    let count = started.len();
    for thread in started {
        let _ = thread.join();
    }
    match failed {
        None => Ok(()),
        Some(error) => {
            let limit = getrlimit(Resource::Nproc).current;
            let limit = limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
            let message = format!(
                "{who} needs at least {needed} threads, but only {count} could be started: {error} (limit on processes: {limit})"
            );
            let hint = "raise `ulimit -u`, or TasksMax= and LimitNPROC= of its systemd unit";
            Err(Mistake::new(message, Some(hint)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EACH, RESERVED, shared};

    #[test]
    fn shares_stay_within_the_limit() {
        assert!(shared(64).is_err());
        for files in [128, 256, 1_024, 4_096, 1 << 20] {
            let share = shared(files).unwrap();
            let taken = share.connections as u64 + RESERVED.min(files / 2) + share.sandboxes as u64 * EACH;
            assert!(taken <= files + EACH, "{files}: {share:?}");
            assert!(share.connections >= 32 && share.sandboxes >= 2, "{files}: {share:?}");
        }
    }
}
