//! The privileges of the launcher: root, or an ordinary user in a new user namespace.

use super::LaunchError;
use rustix::fs::Mode;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getegid, geteuid, getrlimit, set_dumpable_behavior, setrlimit,
};
use rustix::thread::UnshareFlags;
use std::fs;
use std::path::Path;

/// The host user ID of sandboxes when Coracle runs as root, which no distribution assigns.
const SANDBOX_ID: u32 = 61_042;

/// The privileges of the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Privilege {
    /// Real root: cgroups and id-mapped mounts are available, and the zygote drops its privileges.
    Root,
    /// Any other user.
    Ordinary,
}

impl Privilege {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Ordinary => "ordinary",
        }
    }

    /// The IDs of the zygote and all sandboxes on the host.
    pub(super) fn sandbox_ids(self) -> (u32, u32) {
        match self {
            Self::Root => (SANDBOX_ID, SANDBOX_ID),
            Self::Ordinary => (geteuid().as_raw(), getegid().as_raw()),
        }
    }
}

/// Enters a mount namespace in which mounts can be created. For an ordinary user, this needs a user namespace.
pub(super) fn enter_mount_namespace() -> Result<Privilege, LaunchError> {
    if geteuid().is_root() && !is_mapped(SANDBOX_ID, &uid_map()) {
        if outside_of(0, &uid_map()) == Some(0) {
            return Err(unmapped());
        }
    } else if geteuid().is_root() {
        if unshare(UnshareFlags::NEWNS).is_ok() {
            receive_mounts()?;
            return Ok(Privilege::Root);
        }
        // Root without privileges, as in a container: code must never run as any root.
        drop_root()?;
    }
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)
        .map_err(|errno| LaunchError::step("make a user namespace", errno))?;
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{uid} {uid} 1")),
        ("gid_map", format!("{gid} {gid} 1")),
    ];
    for (file, text) in maps {
        fs::write(format!("/proc/self/{file}"), text)
            .map_err(|error| LaunchError::io(format!("write /proc/self/{file}"), &error))?;
    }
    receive_mounts()?;
    Ok(Privilege::Ordinary)
}

/// The privileges with which sandboxes can be created without entering a namespace. Drops privileges that are of no
/// use.
pub(super) fn find() -> Result<Privilege, LaunchError> {
    if !geteuid().is_root() {
        return Ok(Privilege::Ordinary);
    }
    if is_mapped(SANDBOX_ID, &uid_map()) {
        // Found by trying, because root of a container often cannot do it.
        if super::root::detached(Path::new("/usr")).is_ok() {
            rustix::thread::set_thread_groups(&[]).map_err(|errno| LaunchError::step("leave all groups", errno))?;
            return Ok(Privilege::Root);
        }
        drop_root()?;
    } else if outside_of(0, &uid_map()) == Some(0) {
        return Err(unmapped());
    }
    Ok(Privilege::Ordinary)
}

/// Root of a user namespace with few IDs, as in a rootless container, is an ordinary user of the host, unless the
/// host's root has mapped itself.
fn unmapped() -> LaunchError {
    let cause = format!("user {SANDBOX_ID} is not mapped in this user namespace, and root is the host's");
    LaunchError::other("leave root", cause)
}

fn uid_map() -> String {
    fs::read_to_string("/proc/self/uid_map").unwrap_or_default()
}

fn is_mapped(id: u32, map: &str) -> bool {
    outside_of(id, map).is_some()
}

/// The ID outside this user namespace. The map has lines of inside, outside, count.
fn outside_of(id: u32, map: &str) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().filter_map(|number| number.parse::<u32>().ok());
        let (inside, outside, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let distance = id.checked_sub(inside)?;
        (distance < count).then(|| outside.checked_add(distance))?
    })
}

/// Receives mounts that the host creates later, but does not propagate ours to the host.
fn receive_mounts() -> Result<(), LaunchError> {
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .map_err(|errno| LaunchError::step("keep mounts from the host", errno))
}

#[expect(unsafe_code, reason = "unshare of namespaces that are no file descriptor table")]
fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: the flags do not contain FILES, which could break assumptions of the standard library.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Becomes the sandbox's host user permanently.
pub(super) fn drop_root() -> Result<(), LaunchError> {
    let (uid, gid) = (rustix::thread::Uid::from_raw(SANDBOX_ID), rustix::thread::Gid::from_raw(SANDBOX_ID));
    let step = |errno| LaunchError::step(format!("become user {SANDBOX_ID}"), errno);
    rustix::thread::set_thread_groups(&[]).map_err(step)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(step)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(step)?;
    // Otherwise, /proc/self belongs to root and the maps of a user namespace cannot be written.
    set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(step)
}

/// Becomes the only mapped user in a new user namespace.
pub(super) fn become_inside(id: u32) -> Result<(), LaunchError> {
    let (uid, gid) = (rustix::thread::Uid::from_raw(id), rustix::thread::Gid::from_raw(id));
    let step = |errno| LaunchError::step("become the sandbox's user", errno);
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(step)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(step)?;
    set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(step)
}

/// Resets what the parent of Coracle has set for its own processes: sandboxes get the defaults of a machine. An
/// ordinary user cannot undo lowered hard limits.
pub(super) fn leave_surroundings() {
    super::kernel::reset_sigchld();
    rustix::process::umask(Mode::from_raw_mode(0o022));
    // An ordinary user cannot raise the priority.
    let _ = rustix::process::setpriority_process(None, 0);
    super::kernel::usual_personality();
    for (resource, current, maximum) in USUAL {
        if setrlimit(resource, Rlimit { current, maximum }).is_err() {
            let maximum = getrlimit(resource).maximum;
            let current = match (current, maximum) {
                (Some(current), Some(maximum)) => Some(current.min(maximum)),
                (current, maximum) => current.or(maximum),
            };
            let _ = setrlimit(resource, Rlimit { current, maximum });
        }
    }
}

const STACK_BYTES: u64 = 8 << 20;

/// The default resource limits of a process, except for those that every sandbox sets itself.
const USUAL: [(Resource, Option<u64>, Option<u64>); 13] = [
    (Resource::As, None, None),
    (Resource::Core, Some(0), None),
    (Resource::Cpu, None, None),
    (Resource::Data, None, None),
    (Resource::Fsize, None, None),
    (Resource::Locks, None, None),
    (Resource::Nice, Some(0), Some(0)),
    // Counted per user namespace, up to the limit of its creator.
    (Resource::Nproc, None, None),
    (Resource::Rss, None, None),
    (Resource::Rtprio, Some(0), Some(0)),
    (Resource::Rttime, None, None),
    (Resource::Sigpending, None, None),
    (Resource::Stack, Some(STACK_BYTES), None),
];

/// The requested amount of a resource, or less if a limit of this process is lower.
pub(super) fn at_most(resource: Resource, wanted: u64) -> u64 {
    getrlimit(resource).maximum.map_or(wanted, |maximum| wanted.min(maximum))
}

/// Raises the limit on open files: a thousand prepared sandboxes need thousands of descriptors.
pub(super) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

#[cfg(test)]
mod tests {
    use super::outside_of;

    #[test]
    fn ids_are_found_in_a_map_of_several_lines() {
        let map = "         0       1000          1\n         1     100000      65536\n";
        assert_eq!(outside_of(0, map), Some(1000));
        assert_eq!(outside_of(61_042, map), Some(161_041));
        assert_eq!(outside_of(70_000, map), None);
        assert_eq!(outside_of(0, "0 0 4294967295"), Some(0));
    }
}
