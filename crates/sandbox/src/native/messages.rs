//! What the server and the launcher say to each other, and how: one JSON message with descriptors beside it, over a
//! sequenced-packet socket.

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

/// A sandbox that is being prepared or used; never used twice.
pub(crate) type Slot = u64;

/// Resource limits that are set when a workspace is bound, in this order.
pub(crate) const RLIMITS: [libc::__rlimit_resource_t; 4] =
    [libc::RLIMIT_DATA, libc::RLIMIT_NPROC, libc::RLIMIT_NOFILE, libc::RLIMIT_FSIZE];

/// The first message: all that the launcher needs to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    /// Names the cgroups.
    pub(crate) instance: String,
    /// A folder of this instance alone.
    pub(crate) run_dir: PathBuf,
    /// The guest's files, mounted at `/coracle`.
    pub(crate) guest_dir: PathBuf,
    /// The interpreter, without symbolic links.
    pub(crate) python: PathBuf,
    /// Folders outside `/usr` that every sandbox may read, and where it sees them.
    pub(crate) folders: Vec<(PathBuf, PathBuf)>,
    /// Import what a long-lived server wants to have imported, and these modules.
    pub(crate) preload: Option<Vec<String>>,
    pub(crate) tmp_bytes: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) processes: u64,
}

/// What the server asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(crate) enum Ask {
    /// Make a sandbox; answered by `prepared` or `prepare_failed`. It waits until it is bound, now or later.
    Prepare { slot: Slot, rehearse: bool, bind: Option<Bind> },
    /// Bind a workspace to it and let it run; answered only if it fails.
    Bind { slot: Slot, bind: Bind },
    /// Read the counters of its cgroup; answered by `counted`.
    Count { slot: Slot },
}

/// A workspace and limits for a prepared sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bind {
    pub(crate) workspace: PathBuf,
    /// What the server saw at that path: it must be the same folder.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// What is seen at `/coracle/servers`, if anything.
    pub(crate) servers: Option<PathBuf>,
    /// What is seen at `/coracle/skills`, if anything.
    pub(crate) skills: Option<PathBuf>,
    pub(crate) memory_bytes: u64,
    pub(crate) processes: u64,
    pub(crate) open_files: u64,
    pub(crate) file_bytes: u64,
    /// What is not seen of the workspace, if anything.
    pub(crate) hidden: Option<Hidden>,
}

/// A folder somewhere below a workspace that code must not see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hidden {
    /// Relative to the workspace.
    pub(crate) folder: PathBuf,
    /// An empty folder that is seen in its place.
    pub(crate) instead: PathBuf,
}

/// What the launcher says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub(crate) enum Say {
    /// The zygote is up; what holds.
    Started(Started),
    /// No zygote could be had; the launcher ends.
    StartFailed {
        reason: String,
    },
    /// With four descriptors: channel, stdout, stderr, pidfd.
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
    /// The sandbox went down with what had made it; `exited` follows.
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
        /// It had been given a workspace, and a step of its confinement failed: no foreign code has run.
        unsealed: bool,
    },
}

/// What the launcher found out by trying.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Started {
    /// What the zygote said; without one nobody has asked.
    pub(crate) python_version: Option<[u32; 3]>,
    /// Modules that were to be imported in advance and could not be.
    pub(crate) not_preloaded: Vec<String>,
    /// `root` or `ordinary`.
    pub(crate) privilege: String,
    /// The version of its interface or the reason for none.
    pub(crate) landlock: Result<u32, String>,
    /// `cgroup1`, `cgroup2` or the reason for none.
    pub(crate) cgroup: Result<CgroupKind, String>,
    /// Each sandbox has its own `/proc`.
    pub(crate) own_proc: bool,
    /// The host id that code runs as.
    pub(crate) host_uid: u32,
}

/// Which cgroup interface holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CgroupKind {
    Cgroup1,
    Cgroup2,
}

/// What the kernel counted for one sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// Processes killed for memory.
    pub(crate) oom_kills: u64,
    /// Forks refused; none where only a resource limit refuses them.
    pub(crate) forks_refused: u64,
}

/// Where the kernel counts the processes of a sandbox that it has killed for memory, so that the server can look without
/// asking the launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kills {
    pub(crate) file: PathBuf,
    /// What it said before the sandbox was there.
    pub(crate) before: u64,
}

/// No message is longer, but for the first one, which names all folders.
const MAX_MESSAGE: usize = 16 << 10;
const MAX_START: usize = 192 << 10;
/// No message carries more descriptors.
pub(crate) const MAX_FDS: usize = 8;

/// Sends one message.
pub(crate) fn send<T: Serialize>(socket: BorrowedFd<'_>, message: &T, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_bytes(socket, &serde_json::to_vec(message)?, fds)
}

/// Sends one message of bytes.
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

/// Receives one message; `None` at the end.
pub(crate) fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    receive_within(socket, MAX_MESSAGE)
}

/// Receives the message that has a [`Start`] in it.
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

/// Receives one message of bytes; none of them at the end.
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
            preload: None,
            tmp_bytes: 0,
            memory_bytes: 0,
            processes: 0,
        };
        let pair = || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let (ours, theirs) = pair();
        send(ours.as_fd(), &start, &[]).unwrap();
        let (received, _) = receive_start::<Start>(theirs.as_fd()).unwrap().unwrap();
        assert_eq!(received.folders, start.folders);
        // Others are told that it is too long, and not given a part of it.
        send(ours.as_fd(), &start, &[]).unwrap();
        assert!(serde_json::to_vec(&start).unwrap().len() > MAX_MESSAGE);
        assert!(receive::<Start>(theirs.as_fd()).is_err());
    }
}
