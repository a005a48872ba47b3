//! The file tree that all sandboxes of a zygote share: read-only, created once.
//!
//! An empty tmpfs with the host's programs bound read-only, a few generated files, and empty folders where each child
//! mounts its own. Nothing else of the host is visible.

use super::LaunchError;
use super::kernel::{NO_DEVICES, NO_SUID, READ_ONLY, restrict_mount};
use crate::native::messages::Start;
use crate::{Access, Place};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change, move_mount,
    open_tree, unmount,
};
use std::ffi::CStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The user and group ID of code inside a sandbox.
pub(super) const INSIDE_ID: u32 = 1000;

/// A part of the host that sandboxes see.
pub(super) struct Shared {
    /// A detached mount, taken while the launcher could still access it.
    tree: OwnedFd,
    /// The path in the tree, without the leading slash.
    target: PathBuf,
    kind: SharedKind,
}

/// The parts that all sandboxes see, whatever the settings.
pub(super) struct Common {
    folders: Vec<Shared>,
    /// This program, which is mounted on top of a file of the guest.
    program: Option<Shared>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SharedKind {
    Folder,
    Device,
    /// Mounted on top of an existing file.
    Program,
}

const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Top-level links, or folders of older layouts, for programs and libraries.
const PROGRAM_FOLDERS: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Small files of the host that programs need to start and to know the time zone. Missing ones are left out.
const COPIED: [&str; 2] = ["etc/ld.so.cache", "etc/localtime"];

/// The certificates that programs trust, where distributions have them. Only sandboxes with a network need them.
const CERTIFICATES: [&str; 4] = [
    "etc/ssl/certs/ca-certificates.crt",
    "etc/pki/tls/certs/ca-bundle.crt",
    "etc/ssl/ca-bundle.pem",
    "etc/ssl/cert.pem",
];

/// The configuration for `fc-list`, which Matplotlib asks for fonts; without it, `fc-list` prints a warning.
const FONTS: &str = "<fontconfig><dir>/usr/share/fonts</dir><dir>/usr/local/share/fonts</dir>\
    <cachedir>/tmp/.cache/fontconfig</cachedir></fontconfig>\n";

/// The step that fails if the host's `/proc` is masked, as in a container.
pub(super) const MOUNT_PROC: &str = "mount /proc";

/// Takes detached mounts of everything that does not depend on the settings.
pub(super) fn common() -> Result<Common, LaunchError> {
    let mut folders = vec![Shared::folder(Path::new("/usr"), "usr")?];
    for name in PROGRAM_FOLDERS {
        let path = Path::new("/").join(name);
        if path.is_dir() && !path.is_symlink() {
            folders.push(Shared::folder(&path, name)?);
        }
    }
    if Path::new("/etc/alternatives").is_dir() {
        folders.push(Shared::folder(Path::new("/etc/alternatives"), "etc/alternatives")?);
    }
    for name in DEVICES {
        let path = Path::new("/dev").join(name);
        folders.push(Shared { tree: detached(&path)?, target: Path::new("dev").join(name), kind: SharedKind::Device });
    }
    Ok(Common { folders, program: program() })
}

/// Takes detached mounts of the guest's files and of the configured folders, in this order. Those of places follow.
pub(super) fn named(start: &Start) -> Result<Vec<OwnedFd>, LaunchError> {
    let folders = start.folders.iter().map(|(folder, _)| folder.as_path());
    [start.guest_dir.as_path()].into_iter().chain(folders).map(read_only).collect()
}

/// Takes a detached mount of a place, without its submounts.
pub(super) fn place(place: &Place) -> Result<OwnedFd, LaunchError> {
    match place.access {
        Access::Read => modules(&place.path),
        Access::Write => user_folder(&place.path),
    }
}

/// Those of the folders that are outside the folders that every sandbox may read.
pub(super) fn readable(start: &Start) -> Vec<String> {
    let old_layout =
        PROGRAM_FOLDERS.iter().map(|name| Path::new("/").join(name)).filter(|path| path.is_dir() && !path.is_symlink());
    let seen = start.folders.iter().map(|(_, seen_at)| seen_at.clone());
    let places = start.places.iter().map(|place| place.path.clone());
    old_layout.chain(seen).chain(places).map(|path| path.display().to_string()).collect()
}

/// The places that sandboxes may write.
pub(super) fn writable(start: &Start) -> Vec<String> {
    let writable = start.places.iter().filter(|place| place.access == Access::Write);
    writable.map(|place| place.path.display().to_string()).collect()
}

/// This program, which inside a sandbox runs TypeScript and is the command `tool`. If its path no longer exists, as
/// after an upgrade, sandboxes do without it, and report that when it is needed.
fn program() -> Option<Shared> {
    let path = std::env::current_exe().ok()?;
    let tree = detached(&path).ok()?;
    restrict_mount(tree.as_fd(), READ_ONLY | NO_SUID | NO_DEVICES).ok()?;
    Some(Shared { tree, target: Path::new("coracle").join(coracle_guest::PROGRAM), kind: SharedKind::Program })
}

impl Shared {
    fn folder(path: &Path, target: impl AsRef<Path>) -> Result<Self, LaunchError> {
        Ok(Self { tree: read_only(path)?, target: target.as_ref().to_owned(), kind: SharedKind::Folder })
    }

    /// Mounts it in the tree that is being created.
    fn place(self) -> Result<(), LaunchError> {
        let Self { tree, target, kind } = self;
        match kind {
            SharedKind::Folder => fs::create_dir_all(&target),
            SharedKind::Device => fs::write(&target, ""),
            SharedKind::Program => Ok(()),
        }
        .map_err(|error| LaunchError::io(format!("make /{}", target.display()), &error))?;
        move_mount(tree, "", CWD, &target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
            .map_err(|errno| LaunchError::step(format!("bind /{}", target.display()), errno))
    }
}

fn read_only(path: &Path) -> Result<OwnedFd, LaunchError> {
    let tree = detached(path)?;
    restrict_mount(tree.as_fd(), READ_ONLY | NO_SUID | NO_DEVICES)
        .map_err(|errno| LaunchError::step(format!("make {} read-only", path.display()), errno))?;
    Ok(tree)
}

impl Common {
    /// Uses the existing `/proc`, for a zygote that cannot mount its own. Every child hides it behind an empty folder.
    pub(super) fn with_foreign_proc(mut self) -> Result<Self, LaunchError> {
        let tree = detached(Path::new("/proc"))?;
        self.folders.push(Shared { tree, target: "proc".into(), kind: SharedKind::Folder });
        Ok(self)
    }
}

/// A detached copy of the mount at `path` and everything below it.
pub(super) fn detached(path: &Path) -> Result<OwnedFd, LaunchError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags)
        .map_err(|errno| LaunchError::step(format!("take the mount of {}", path.display()), errno))
}

/// Where the tree is created, hiding what is there: a folder that exists on every system, and that contains nothing
/// that goes into the tree.
const SCRATCH: &str = "/proc";

/// How `/proc` is mounted while the tree is created.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcMount {
    pub(super) flags: MountFlags,
    pub(super) options: &'static CStr,
}

/// A tree that is being created, in the current folder. Everything outside of it is still accessible, except for
/// `/proc`.
pub(super) struct Growing {
    root: OwnedFd,
    program: Option<Shared>,
}

impl Growing {
    /// Creates everything that does not depend on the settings. The caller is in a new mount namespace.
    pub(super) fn begin(common: Common, proc: Option<ProcMount>) -> Result<Self, LaunchError> {
        let step = |name: &'static str| move |errno| LaunchError::step(name, errno);
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).map_err(step("make mounts private"))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("tmpfs", SCRATCH, "tmpfs", flags, c"size=8m,mode=0755").map_err(step("mount the root"))?;
        std::env::set_current_dir(SCRATCH).map_err(|error| LaunchError::io("enter the root", &error))?;
        let root = open_tree(CWD, ".", OpenTreeFlags::OPEN_TREE_CLOEXEC).map_err(step("open the root"))?;
        furnish().map_err(|error| LaunchError::io("furnish the root", &error))?;
        common.folders.into_iter().try_for_each(Shared::place)?;
        if let Some(ProcMount { flags, options }) = proc {
            mount("proc", "proc", "proc", flags, options).map_err(step(MOUNT_PROC))?;
        }
        Ok(Self { root, program: common.program })
    }

    /// Adds the mounts of [`named`] and of places.
    pub(super) fn add(&mut self, named: Vec<OwnedFd>, start: &Start) -> Result<(), LaunchError> {
        let seen = start.folders.iter().map(|(_, seen_at)| seen_at.as_path());
        let targets = [Path::new("coracle")].into_iter().chain(seen);
        let targets = targets.chain(start.places.iter().map(|place| place.path.as_path()));
        for (tree, target) in named.into_iter().zip(targets) {
            let target = target.strip_prefix("/").unwrap_or(target).to_owned();
            Shared { tree, target, kind: SharedKind::Folder }.place()?;
        }
        self.program.take().map_or(Ok(()), Shared::place)
    }

    /// Makes the tree the root. Nothing else is accessible afterwards.
    pub(super) fn enter(self) -> Result<(), LaunchError> {
        let step = |name: &'static str| move |errno| LaunchError::step(name, errno);
        rustix::process::pivot_root(".", ".").map_err(step("pivot_root"))?;
        unmount(".", UnmountFlags::DETACH).map_err(step("leave the old root"))?;
        std::env::set_current_dir("/").map_err(|error| LaunchError::io("enter /", &error))?;
        super::kernel::restrict_one_mount(self.root.as_fd(), READ_ONLY).map_err(step("make / read-only"))
    }
}

/// Creates folders, links and files that are not bound, in the folder that will become the root.
fn furnish() -> std::io::Result<()> {
    for folder in ["proc", "dev", "etc", "etc/fonts", "tmp", "workspace", "artifacts", "usr", "skills", "tools"] {
        fs::create_dir(folder)?;
    }
    for name in PROGRAM_FOLDERS {
        if let Ok(target) = fs::read_link(Path::new("/").join(name)) {
            symlink(target, name)?;
        }
    }
    let links = [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ];
    for (name, target) in links {
        symlink(target, Path::new("dev").join(name))?;
    }
    symlink("/tmp", "dev/shm")?;
    for path in COPIED {
        if let Ok(content) = fs::read(Path::new("/").join(path)) {
            fs::write(path, content)?;
        }
    }
    fs::write(
        "etc/passwd",
        format!("coderunner:x:{INSIDE_ID}:{INSIDE_ID}::/tmp:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n"),
    )?;
    fs::write("etc/group", format!("coderunner:x:{INSIDE_ID}:\nnogroup:x:65534:\n"))?;
    fs::write("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n")?;
    fs::write("etc/hostname", "coracle\n")?;
    fs::write("etc/fonts/fonts.conf", FONTS)?;
    fs::write("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")
}

/// Copies the certificates that the host's programs trust into the tree that is being created, the current folder.
pub(super) fn add_certificates() -> std::io::Result<()> {
    for path in CERTIFICATES.map(Path::new) {
        if let Ok(content) = fs::read(Path::new("/").join(path)) {
            fs::create_dir_all(path.parent().unwrap_or(path))?;
            fs::write(path, content)?;
        }
    }
    Ok(())
}

/// A detached mount of a user's folder, without its submounts, set-id programs and devices.
pub(super) fn user_folder(path: &Path) -> Result<OwnedFd, LaunchError> {
    restricted(path, NO_SUID | NO_DEVICES)
}

/// A detached mount of the modules of servers, or of skills.
pub(super) fn modules(path: &Path) -> Result<OwnedFd, LaunchError> {
    restricted(path, NO_SUID | NO_DEVICES | READ_ONLY)
}

/// A folder below a mount, to mount something on. `None` if it does not exist.
pub(super) fn below(tree: &OwnedFd, folder: &Path) -> Result<Option<OwnedFd>, LaunchError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match rustix::fs::openat2(tree, folder, flags, Mode::empty(), resolve) {
        Ok(folder) => Ok(Some(folder)),
        // Another file system is mounted there, which is not part of the copy.
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(LaunchError::step(format!("hide {}", folder.display()), errno)),
    }
}

fn restricted(path: &Path, attributes: u64) -> Result<OwnedFd, LaunchError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let failed = |errno| LaunchError::step(format!("take the mount of {}", path.display()), errno);
    let tree = open_tree(CWD, path, flags).map_err(failed)?;
    restrict_mount(tree.as_fd(), attributes).map_err(failed)?;
    Ok(tree)
}

/// Identifies the folder of a mount, to compare it with what another process saw.
pub(super) fn identity(tree: &OwnedFd) -> Result<(u64, u64, u32, u32), LaunchError> {
    let stat = rustix::fs::statat(tree, "", AtFlags::EMPTY_PATH)
        .map_err(|errno| LaunchError::step("look at a folder", errno))?;
    Ok((stat.st_dev, stat.st_ino, stat.st_uid, stat.st_gid))
}
