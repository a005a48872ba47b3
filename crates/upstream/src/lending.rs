//! A running `coracle up` lends its connections to commands of the same user, so that they need not start the same
//! servers again.
//!
//! The lender listens on a UNIX socket in the data folder (`lender.rs`). A command requests one server by name, with
//! digests of everything that defines the server (`settings.rs`); the values themselves are never sent. If the digests
//! match, the rest of the stream is MCP with `initialize`, one message per line. The lender forwards requests unchanged
//! (`lent.rs`), and for the command the stream is a transport like others (`borrowed.rs`).
//!
//! **Invariants:** both sides only talk to processes of the same user. Only the operator's connections and shared ones
//! are lent, and none that uses a stored sign-in, because a command must notice when that is revoked. Policy,
//! approvals, records and answers to a server's questions belong to the command. If anything fails before a connection
//! is lent, the command starts the server itself.

mod borrowed;
mod lender;
mod lent;
mod settings;

pub(crate) use borrowed::{Borrowed, NotLent, borrow};
pub use lender::Lender;

use coracle_types::ServerName;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use serde::{Deserialize, Serialize};
use settings::Settings;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// The version of the handshake before MCP begins.
const VERSION: u32 = 1;
/// The maximum length of a line before MCP begins.
const MAX_HANDSHAKE: usize = 4 * 1024;
/// The maximum length of a socket's path, without the terminating zero byte.
const MAX_ADDRESS: usize = 107;
/// Permissions that only the owner may have.
const OTHERS: u32 = 0o077;

/// The request of a command.
#[derive(Debug, Serialize, Deserialize)]
struct Wish {
    version: u32,
    server: ServerName,
    settings: Settings,
}

/// The lender's reply.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
enum Answer {
    /// The command gets the connection as soon as it is ready.
    Wait,
    /// MCP begins with the next line.
    Lent,
    /// The command has to start the server itself.
    Refused {
        /// The reason, for a log.
        reason: String,
    },
}

/// The last line, with the reason why the stream ends.
#[derive(Debug, Serialize, Deserialize)]
struct Ended {
    ended: String,
}

/// A socket in a folder that only its owner can enter.
struct Place {
    folder: OwnedFd,
    name: Box<OsStr>,
    path: PathBuf,
}

impl Place {
    /// Opens the folder. Fails if other users have access to it.
    fn open(path: &Path) -> io::Result<Self> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidFilename.into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(folder, flags, Mode::empty())?;
        if !is_private(&rustix::fs::fstat(&opened)?) {
            return Err(not_private(folder));
        }
        Ok(Self { folder: opened, name: name.into(), path: path.to_owned() })
    }

    /// The file at the path of the socket, if any.
    fn look(&self) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.folder, &*self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A path to the socket that fits into a socket address, however long the real path is.
    fn address(&self) -> PathBuf {
        if self.path.as_os_str().len() <= MAX_ADDRESS {
            return self.path.clone();
        }
        Path::new("/proc/self/fd").join(self.folder.as_raw_fd().to_string()).join(&*self.name)
    }
}

fn is_socket(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Socket
}

fn is_private(found: &Stat) -> bool {
    found.st_uid == own_uid() && found.st_mode & OTHERS == 0
}

fn not_private(path: &Path) -> io::Error {
    let reason = format!("{} must belong to the current user, with no permissions for others", path.display());
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value).map_err(io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}
