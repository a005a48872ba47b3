//! The messages between server and launcher: JSON with descriptors attached, over a sequenced-packet socket.

use crate::{Network, Place};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// The number of a sandbox. Never reused.
pub(crate) type Slot = u64;

/// Resource limits that are set when a workspace is bound, in this order.
pub(crate) const RLIMITS: [libc::__rlimit_resource_t; 4] =
    [libc::RLIMIT_DATA, libc::RLIMIT_NPROC, libc::RLIMIT_NOFILE, libc::RLIMIT_FSIZE];

/// The first message, with everything that the launcher needs to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    /// The name for cgroups.
    pub(crate) instance: String,
    /// The folder of this instance.
    pub(crate) run_dir: PathBuf,
    /// The guest's files, mounted at `/coracle`.
    pub(crate) guest_dir: PathBuf,
    /// The interpreter, with symbolic links resolved.
    pub(crate) python: PathBuf,
    /// Folders outside `/usr` that every sandbox may read, with their paths inside.
    pub(crate) folders: Vec<(PathBuf, PathBuf)>,
    /// Folders of a user that every sandbox may use, at the same paths, parents first.
    pub(crate) places: Vec<Place>,
    /// If set, import modules in advance, including these.
    pub(crate) preload: Option<Vec<String>>,
    pub(crate) tmp_bytes: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) processes: u64,
    /// The network of its sandboxes.
    pub(crate) network: Network,
}

/// A request of the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(crate) enum Ask {
    /// Creates a sandbox. Answered by `prepared` or `prepare_failed`. It waits until it is bound, now or later.
    Prepare { slot: Slot, rehearse: bool, bind: Option<Bind> },
    /// Binds a workspace to a sandbox and lets it run. Answered only if it fails.
    Bind { slot: Slot, bind: Bind },
    /// Reads the counters of its cgroup. Answered by `counted`.
    Count { slot: Slot },
}

/// A workspace and limits for a prepared sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bind {
    pub(crate) workspace: PathBuf,
    /// The device of the folder that the server saw at that path. It must be the same folder.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// The folder at `/coracle/servers`, if any.
    pub(crate) servers: Option<PathBuf>,
    /// The folder at `/coracle/skills`, if any.
    pub(crate) skills: Option<PathBuf>,
    pub(crate) memory_bytes: u64,
    pub(crate) processes: u64,
    pub(crate) open_files: u64,
    pub(crate) file_bytes: u64,
    /// The hidden folder of the workspace, if any.
    pub(crate) hidden: Option<Hidden>,
}

/// A folder below a workspace that code must not see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hidden {
    /// The path relative to the workspace.
    pub(crate) folder: PathBuf,
    /// An empty folder that is mounted over it.
    pub(crate) instead: PathBuf,
}

/// A message of the launcher.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub(crate) enum Say {
    /// The zygote is running.
    Started(Started),
    /// The zygote could not be started. The launcher exits.
    StartFailed {
        reason: String,
    },
    /// A sandbox was created. Has four descriptors: channel, stdout, stderr, pidfd.
    Prepared {
        slot: Slot,
        kills: Option<Kills>,
    },
    PrepareFailed {
        slot: Slot,
        reason: String,
    },
    BindFailed {
        slot: Slot,
        reason: String,
    },
    /// The sandbox was lost with the process that created it. `exited` follows.
    Lost {
        slot: Slot,
        reason: String,
    },
    Counted {
        slot: Slot,
        counters: Counters,
    },
    /// The sandbox is gone, with this wait status.
    Exited {
        slot: Slot,
        status: i32,
        counters: Counters,
        /// Whether a step of its confinement failed after it had been given a workspace: no untrusted code has run.
        unsealed: bool,
    },
}

/// What the launcher found out by trying.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Started {
    /// The version that the zygote reported. `None` without a zygote.
    pub(crate) python_version: Option<[u32; 3]>,
    /// Modules that could not be imported in advance.
    pub(crate) not_preloaded: Vec<String>,
    /// `root` or `ordinary`.
    pub(crate) privilege: String,
    /// The version of the ABI, or why it is not available.
    pub(crate) landlock: Result<u32, String>,
    /// The kind of cgroup, or why there is none.
    pub(crate) cgroup: Result<CgroupKind, String>,
    /// Whether each sandbox has a private `/proc`.
    pub(crate) own_proc: bool,
    /// The host user ID that code runs as.
    pub(crate) host_uid: u32,
}

/// The version of the cgroup interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CgroupKind {
    Cgroup1,
    Cgroup2,
}

/// The counters of the kernel for one sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// Number of processes killed for memory.
    pub(crate) oom_kills: u64,
    /// Number of refused forks. Zero if only a resource limit refuses them.
    pub(crate) forks_refused: u64,
}

/// The counter of a sandbox's processes that the kernel killed for memory, which the server can read without the
/// launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kills {
    pub(crate) file: PathBuf,
    /// The value before the sandbox existed.
    pub(crate) before: u64,
}

/// The maximum length of a message, except for the first one, which names all folders.
const MAX_MESSAGE: usize = 16 << 10;
const MAX_START: usize = 192 << 10;
/// The maximum number of descriptors of a message.
pub(crate) const MAX_FDS: usize = 8;

/// Sends one message.
pub(crate) fn send<T: Serialize>(socket: BorrowedFd<'_>, message: &T, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_bytes(socket, &serde_json::to_vec(message)?, fds)
}

/// Sends one message of raw bytes.
pub(crate) fn send_bytes(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    loop {
        match sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            other => return other.map(drop).map_err(Into::into),
        }
    }
}

/// Receives one message. `None` at the end.
pub(crate) fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    receive_within(socket, MAX_MESSAGE)
}

/// Receives the message that contains a [`Start`].
pub(crate) fn receive_start<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    receive_within(socket, MAX_START)
}

fn receive_within<T: DeserializeOwned>(socket: BorrowedFd<'_>, most: usize) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let (bytes, fds) = receive_bytes_within(socket, most)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&bytes)?, fds)))
}

/// Receives the first byte of a stream, and the descriptor that comes with it, if any. Empty at the end.
pub(crate) fn receive_byte(socket: BorrowedFd<'_>) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let (bytes, fds) = receive_bytes_within(socket, 1)?;
    Ok((bytes, fds.into_iter().next()))
}

/// Receives one message of raw bytes. Empty at the end.
pub(crate) fn receive_bytes(socket: BorrowedFd<'_>) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    receive_bytes_within(socket, MAX_MESSAGE)
}

fn receive_bytes_within(socket: BorrowedFd<'_>, most: usize) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut bytes = vec![0; most];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    let fds = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    if received.flags.contains(rustix::net::ReturnFlags::TRUNC) {
        return Err(io::Error::other("message too long"));
    }
    bytes.truncate(received.bytes);
    Ok((bytes, fds))
}

#[cfg(test)]
mod tests {
    use super::{MAX_MESSAGE, Start, receive, receive_start, send};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::os::fd::AsFd;
    use std::path::PathBuf;

    #[test]
    fn the_first_message_may_name_many_folders() {
        let folder = |number: usize| PathBuf::from(format!("/{}/skill-{number}", "deep/".repeat(60)));
        let start = Start {
            instance: "one".to_owned(),
            run_dir: PathBuf::new(),
            guest_dir: PathBuf::new(),
            python: PathBuf::new(),
            folders: (0..200).map(|number| (folder(number), PathBuf::from(format!("/skills/{number}")))).collect(),
            places: Vec::new(),
            preload: None,
            tmp_bytes: 0,
            memory_bytes: 0,
            processes: 0,
            network: crate::Network::Off,
        };
        let pair = || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let (ours, theirs) = pair();
        send(ours.as_fd(), &start, &[]).unwrap();
        let (received, _) = receive_start::<Start>(theirs.as_fd()).unwrap().unwrap();
        assert_eq!(received.folders, start.folders);
        // Other messages of this length are rejected and not truncated.
        send(ours.as_fd(), &start, &[]).unwrap();
        assert!(serde_json::to_vec(&start).unwrap().len() > MAX_MESSAGE);
        assert!(receive::<Start>(theirs.as_fd()).is_err());
    }
}
