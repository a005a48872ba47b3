//! What the system lets this process have: open files, and threads. A server that has too little of them says so when it
//! starts, and one that has little of them does less at once instead of failing later.

use crate::status::Mistake;
use rustix::process::{Resource, getrlimit};

/// A server needs so many open files before it does anything.
const LEAST: u64 = 128;
/// Of its own: the store, the launcher, prepared sandboxes, MCP servers.
const RESERVED: u64 = 80;
/// What one sandbox takes.
const EACH: u64 = 5;
/// Connections get one of so many.
const FOR_CONNECTIONS: u64 = 4;
/// A server that cannot start so many threads would end in the middle of something.
const THREADS: usize = 24;

/// How many things may be open at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) connections: usize,
    pub(crate) sandboxes: usize,
}

/// Shares out what there is, or says that it is too little.
pub(crate) fn share() -> Result<Share, Mistake> {
    let share = shared(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))?;
    threads("a server", THREADS)?;
    Ok(share)
}

fn shared(files: u64) -> Result<Share, Mistake> {
    if files < LEAST {
        let message = format!("a server needs at least {LEAST} open files, and this process may have {files}");
        let hint = "raise `ulimit -n`, or LimitNOFILE= of its systemd unit";
        return Err(Mistake::new(message, Some(hint)));
    }
    let connections = files / FOR_CONNECTIONS;
    let sandboxes = (files.saturating_sub(connections + RESERVED) / EACH).max(2);
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).min(1 << 20);
    Ok(Share { connections: number(connections), sandboxes: number(sandboxes) })
}

/// By trying: the limit counts all processes of this user, here and elsewhere.
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
                "{who} needs at least {needed} threads, and {count} could be started: {error} (limit on processes: {limit})"
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
    fn what_is_shared_out_is_there() {
        assert!(shared(64).is_err());
        for files in [128, 256, 1_024, 4_096, 1 << 20] {
            let share = shared(files).unwrap();
            let taken = share.connections as u64 + RESERVED.min(files / 2) + share.sandboxes as u64 * EACH;
            assert!(taken <= files + EACH, "{files}: {share:?}");
            assert!(share.connections >= 32 && share.sandboxes >= 2, "{files}: {share:?}");
        }
    }
}
