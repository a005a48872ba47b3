//! Id-mapped mounts: a host user's folder appears as owned by the sandbox's user, without changing any file.

use super::kernel::{Forked, fork_into, map_ids};
use super::privilege::Privilege;
use super::{LaunchError, root};
use crate::native::messages::{Bind, Start};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// User namespaces that hold the mappings, one per owner.
#[derive(Debug, Default)]
pub(super) struct IdMaps {
    by_owner: HashMap<(u32, u32), File>,
}

/// The mounts of a user's folders for a sandbox.
#[derive(Debug)]
pub(super) struct Mounts {
    pub(super) workspace: OwnedFd,
    pub(super) servers: Option<OwnedFd>,
    pub(super) skills: Option<OwnedFd>,
    /// A hidden folder of the workspace, and the folder that is mounted over it.
    pub(super) hidden: Option<[OwnedFd; 2]>,
}

impl IdMaps {
    /// Creates it with the mapping for root, which needs a short-lived process.
    pub(super) fn of_root(privilege: Privilege) -> Self {
        let mut maps = Self::default();
        if privilege == Privilege::Root
            && let Ok(namespace) = mapping((0, 0), privilege.sandbox_ids())
        {
            maps.by_owner.insert((0, 0), namespace);
        }
        maps
    }

    /// Takes the mounts for a sandbox.
    pub(super) fn mounts(&mut self, bind: &Bind, privilege: Privilege) -> Result<Mounts, LaunchError> {
        let servers = bind.servers.as_deref().map(root::modules).transpose()?;
        let skills = bind.skills.as_deref().map(|path| self.skills(path, privilege)).transpose()?;
        let workspace = self.workspace(bind, privilege)?;
        let hidden = match &bind.hidden {
            Some(hidden) => match root::below(&workspace, &hidden.folder)? {
                Some(folder) => Some([folder, root::modules(&hidden.instead)?]),
                None => None,
            },
            None => None,
        };
        Ok(Mounts { workspace, servers, skills, hidden })
    }

    /// The mounts of places, in their order.
    pub(super) fn places(&mut self, start: &Start, privilege: Privilege) -> Result<Vec<OwnedFd>, LaunchError> {
        let mount = |place| {
            let tree = root::place(place)?;
            if privilege == Privilege::Root {
                let (_, _, uid, gid) = root::identity(&tree)?;
                self.apply(&tree, (uid, gid), privilege.sandbox_ids())?;
            }
            Ok(tree)
        };
        start.places.iter().map(mount).collect()
    }

    /// The mount of a user's skills, which may be accessible only to the user.
    fn skills(&mut self, path: &Path, privilege: Privilege) -> Result<OwnedFd, LaunchError> {
        let tree = root::modules(path)?;
        if privilege == Privilege::Root {
            let (_, _, uid, gid) = root::identity(&tree)?;
            self.apply(&tree, (uid, gid), privilege.sandbox_ids())?;
        }
        Ok(tree)
    }

    /// The mount of a workspace, which must be the folder that the server checked.
    fn workspace(&mut self, bind: &Bind, privilege: Privilege) -> Result<OwnedFd, LaunchError> {
        let tree = root::user_folder(&bind.workspace)?;
        let (device, inode, uid, gid) = root::identity(&tree)?;
        if (device, inode) != (bind.device, bind.inode) {
            return Err(LaunchError::other(bind.workspace.display().to_string(), "is not the folder that was checked"));
        }
        if privilege == Privilege::Root {
            self.apply(&tree, (uid, gid), privilege.sandbox_ids())?;
        }
        Ok(tree)
    }

    /// Makes `tree`, whose folder belongs to `owner`, appear to belong to `target`.
    fn apply(&mut self, tree: &OwnedFd, owner: (u32, u32), target: (u32, u32)) -> Result<(), LaunchError> {
        if owner == target {
            return Ok(());
        }
        let namespace = match self.by_owner.entry(owner) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(mapping(owner, target)?),
        };
        map_ids(tree.as_fd(), namespace.as_fd())
            .map_err(|errno| LaunchError::step("map the owner of the folder", errno))
    }
}

/// A user namespace that maps `inside` to `outside`. A process must exist in it while it is created.
fn mapping(inside: (u32, u32), outside: (u32, u32)) -> Result<File, LaunchError> {
    let step = |errno| LaunchError::step("make an id mapping", errno);
    let io = |error: std::io::Error| LaunchError::io("make an id mapping", &error);
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(step)?;
    match fork_into(libc::CLONE_NEWUSER).map_err(step)? {
        Forked::Child => {
            drop(writer);
            // Waits until the other end is closed, on purpose or by death.
            let _ = rustix::io::read(&reader, &mut [0_u8]);
            super::kernel::exit_now(0)
        }
        Forked::Parent(pid, pidfd) => {
            let made = (|| {
                fs::write(format!("/proc/{pid}/uid_map"), format!("{} {} 1", inside.0, outside.0))?;
                fs::write(format!("/proc/{pid}/gid_map"), format!("{} {} 1", inside.1, outside.1))?;
                File::open(format!("/proc/{pid}/ns/user"))
            })();
            drop(writer);
            let waited = rustix::process::waitid(
                rustix::process::WaitId::PidFd(pidfd.as_fd()),
                rustix::process::WaitIdOptions::EXITED,
            );
            waited.map_err(step)?;
            made.map_err(io)
        }
    }
}
