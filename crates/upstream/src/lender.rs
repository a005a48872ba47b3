//! The lender: a running `coracle up` that listens for commands.

mod lent;

use crate::lending::{Answer, MAX_HANDSHAKE, Place, Settings, VERSION, Wish, is_socket, line, not_private, own_uid};
use crate::lines::{Line, Lines};
use crate::upstream::Upstream;
use coracle_types::UserId;
use rustix::fs::{AtFlags, Mode};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The maximum number of connections that are lent at a time. Further commands start their own servers.
const MAX_LENT: usize = 64;
/// Maximum time for a command to send its request.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);
/// The pause after a failed accept, which is usually due to a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// The mode of the socket: only its owner may connect.
const PRIVATE: Mode = Mode::from_raw_mode(0o600);

/// A socket on which connections are lent. Its file is removed on drop.
pub struct Lender {
    listener: UnixListener,
    place: Place,
    /// Device and inode of the file.
    file: (u64, u64),
}

impl Lender {
    /// Listens at `path`, in a folder that only its owner can enter. Replaces an existing socket: the caller must make
    /// sure that no one else listens there. Must be called within a runtime.
    pub fn open(path: &Path) -> io::Result<Self> {
        let place = Place::open(path)?;
        match place.look()? {
            None => {}
            Some(found) if is_socket(&found) => {
                rustix::fs::unlinkat(&place.folder, &*place.name, AtFlags::empty())?;
            }
            Some(_) => {
                let reason = format!("{} exists and is not a socket: move it away", path.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason));
            }
        }
        let listener = UnixListener::bind(place.address())?;
        // Until now, access to the folder was the only restriction.
        rustix::fs::chmodat(&place.folder, &*place.name, PRIVATE, AtFlags::empty())?;
        let made = place.look()?.filter(is_socket).ok_or_else(|| not_private(path))?;
        Ok(Self { listener, place, file: (made.st_dev, made.st_ino) })
    }

    /// Lends the operator's connections and shared ones until `stop`, which also ends the lent ones.
    pub async fn serve(self, upstream: Upstream, stop: CancellationToken) {
        let places = Arc::new(Semaphore::new(MAX_LENT));
        let tasks = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept the connection of a command");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                tracing::debug!(MAX_LENT, "refused a command: the maximum number of connections is lent");
                continue;
            };
            let (upstream, stop) = (upstream.clone(), stop.clone());
            tasks.spawn(async move {
                if let Err(error) = lend(stream, &upstream, stop).await {
                    tracing::debug!(%error, "a command did not get a connection");
                }
                drop(place);
            });
        }
        // New commands no longer find the socket while the current ones finish.
        drop(self);
        tasks.close();
        tasks.wait().await;
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        let is_ours = |found: rustix::fs::Stat| (found.st_dev, found.st_ino) == self.file;
        if self.place.look().is_ok_and(|found| found.is_some_and(is_ours)) {
            // A socket that is left behind is replaced by the next lender.
            let _ = rustix::fs::unlinkat(&self.place.folder, &*self.place.name, AtFlags::empty());
        }
    }
}

impl std::fmt::Debug for Lender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lender").field("path", &self.place.path).finish_non_exhaustive()
    }
}

/// Serves one command, which uses one server.
async fn lend(stream: UnixStream, upstream: &Upstream, stop: CancellationToken) -> io::Result<()> {
    let uid = stream.peer_cred()?.uid();
    if uid != own_uid() {
        tracing::warn!(uid, "refused a connection to another user");
        return Ok(());
    }
    let (read, mut write) = stream.into_split();
    let mut lines = Lines::new(read, MAX_HANDSHAKE);
    let wish = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        wish = tokio::time::timeout(HANDSHAKE_WITHIN, wish(&mut lines)) => wish.map_err(|_| io::ErrorKind::TimedOut)??,
    };
    // Connections of other users are never lent.
    let user = UserId::local();
    let settings = upstream.spec(&wish.server).map(|spec| Settings::of(&spec, upstream.chain()));
    let refused = match settings {
        _ if wish.version != VERSION => Some("it is another version of Coracle".to_owned()),
        Err(error) => Some(error.to_string()),
        Ok(settings) => settings.difference(&wish.settings).map(str::to_owned),
    };
    if let Some(reason) = refused {
        return say(&mut write, &Answer::Refused { reason }).await;
    }
    say(&mut write, &Answer::Wait).await?;
    let changes = upstream.changes();
    let slot = upstream.slot(&user, &wish.server).map_err(io::Error::other)?;
    let lease = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        // The command sends nothing yet, but may disconnect. The start continues, and the next command finds it done.
        _ = lines.next() => return Ok(()),
        lease = slot.lease() => lease,
    };
    let lease = match lease {
        Ok(lease) if lease.is_signed_in() => {
            // A command must notice when the sign-in has been revoked.
            let reason = "its connection uses a stored sign-in".to_owned();
            return say(&mut write, &Answer::Refused { reason }).await;
        }
        Ok(lease) => lease,
        Err(error) => return say(&mut write, &Answer::Refused { reason: error.to_string() }).await,
    };
    say(&mut write, &Answer::Lent).await?;
    lent::serve(lease, lines, write, changes, &stop).await;
    Ok(())
}

async fn wish(lines: &mut Lines<OwnedReadHalf>) -> io::Result<Wish> {
    if lines.next().await? != Line::Whole {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let wish = serde_json::from_slice(lines.current())?;
    lines.clear();
    Ok(wish)
}

async fn say(write: &mut OwnedWriteHalf, answer: &Answer) -> io::Result<()> {
    write.write_all(&line(answer)?).await
}
