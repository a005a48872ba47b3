//! System calls that no safe crate offers. The other unsafe code of this crate is one call in `privilege.rs`.
#![expect(unsafe_code, reason = "raw system calls: clone, mount_setattr, seccomp, landlock's version, signals")]

use rustix::io::Errno;
use seccompiler::sock_filter;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Which process this is after [`fork_into`].
pub(crate) enum Forked {
    /// The new process.
    Child,
    /// The old process, with the process ID and a handle of the new one.
    Parent(u32, OwnedFd),
}

fn result(value: libc::c_long) -> Result<libc::c_long, Errno> {
    if value == -1 { Err(last_errno()) } else { Ok(value) }
}

fn last_errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

/// Forks this process into new namespaces. The process must be single-threaded.
pub(crate) fn fork_into(namespaces: i32) -> Result<Forked, Errno> {
    let mut pidfd: libc::c_int = -1;
    let flags = namespaces | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: without CLONE_VM and without a stack this is fork(2): the child continues with a copy of this memory. The
    // launcher has one thread, so no lock of another thread is copied in a locked state. `pidfd` outlives the call.
    let pid = result(unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) })?;
    if pid == 0 {
        return Ok(Forked::Child);
    }
    let pid = u32::try_from(pid).map_err(|_| Errno::CHILD)?;
    // SAFETY: the kernel has just created this descriptor for us, and no one else knows it.
    Ok(Forked::Parent(pid, unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

const AT_RECURSIVE: libc::c_uint = 0x8000;
const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

/// Attributes of a mount.
pub(super) const READ_ONLY: u64 = 0x1;
pub(super) const NO_SUID: u64 = 0x2;
pub(super) const NO_DEVICES: u64 = 0x4;

/// Sets attributes on a mount and all below it.
pub(super) fn restrict_mount(tree: BorrowedFd<'_>, attributes: u64) -> Result<(), Errno> {
    let flags = AT_RECURSIVE | libc::AT_EMPTY_PATH as libc::c_uint;
    set_attributes(tree, flags, &MountAttributes { set: attributes, clear: 0, propagation: 0, userns: 0 })
}

/// Sets attributes on one mount, but not below it.
pub(super) fn restrict_one_mount(tree: BorrowedFd<'_>, attributes: u64) -> Result<(), Errno> {
    let attributes = MountAttributes { set: attributes, clear: 0, propagation: 0, userns: 0 };
    set_attributes(tree, libc::AT_EMPTY_PATH as libc::c_uint, &attributes)
}

/// Applies the id mapping of a user namespace to a detached mount.
pub(super) fn map_ids(tree: BorrowedFd<'_>, userns: BorrowedFd<'_>) -> Result<(), Errno> {
    let userns = u64::try_from(userns.as_raw_fd()).map_err(|_| Errno::BADF)?;
    let attributes = MountAttributes { set: MOUNT_ATTR_IDMAP, clear: 0, propagation: 0, userns };
    set_attributes(tree, libc::AT_EMPTY_PATH as libc::c_uint, &attributes)
}

fn set_attributes(tree: BorrowedFd<'_>, flags: libc::c_uint, attributes: &MountAttributes) -> Result<(), Errno> {
    let (size, fd) = (size_of::<MountAttributes>(), tree.as_raw_fd());
    // SAFETY: the path is an empty C string, `attributes` is a struct mount_attr of the size given, and both outlive
    // it.
    result(unsafe {
        libc::syscall(libc::SYS_mount_setattr, fd, c"".as_ptr(), flags, std::ptr::from_ref(attributes), size)
    })
    .map(drop)
}

/// Installs a filter for this process and its future children. `no_new_privs` must be set.
pub(super) fn install_filter(program: &[sock_filter]) -> Result<(), Errno> {
    let len = libc::c_ushort::try_from(program.len()).map_err(|_| Errno::TOOBIG)?;
    let descriptor = libc::sock_fprog { len, filter: program.as_ptr().cast_mut().cast() };
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: `descriptor` points to `len` instructions of the kernel's layout (both structs are repr(C) with the same
    // fields); the kernel copies them before the call returns and does not write.
    result(unsafe { libc::syscall(libc::SYS_seccomp, mode, 0, &raw const descriptor) }).map(drop)
}

/// The version of Landlock's interface.
pub(super) fn landlock_abi() -> Result<u32, Errno> {
    const VERSION: libc::c_uint = 1;
    let none: *const libc::c_void = std::ptr::null();
    // SAFETY: with this flag and no attribute the call only returns a number.
    let version = result(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, VERSION) })?;
    u32::try_from(version).map_err(|_| Errno::RANGE)
}

/// Exits this process immediately, without running any handlers.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: never returns and touches no memory.
    unsafe { libc::_exit(status) }
}

/// Resets all signals to their default actions: a started program would inherit the signals that this one or its parent
/// ignores.
pub(super) fn default_signals() {
    const LAST: libc::c_int = 64;
    (1..=LAST).for_each(default_signal);
}

/// Resets SIGCHLD: if it is ignored, the kernel reaps children by itself and they cannot be waited for.
pub(super) fn reset_sigchld() {
    default_signal(libc::SIGCHLD);
}

fn default_signal(number: libc::c_int) {
    // SIG_DFL is zero, and so are no flags and no mask.
    let usual = [0_u64; 4];
    let none: *const libc::c_void = std::ptr::null();
    // SAFETY: `usual` is a struct sigaction of the kernel's layout and outlives the call. It fails for the two signals
    // that cannot be ignored.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, number, usual.as_ptr(), none, size_of::<u64>()) };
}

/// Resets the personality and the scheduling class to the defaults.
pub(super) fn usual_personality() {
    let usual = libc::sched_param { sched_priority: 0 };
    // SAFETY: `usual` outlives the call; neither touches memory. If they are refused, nothing changes.
    unsafe {
        libc::personality(0);
        libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const usual);
    }
}

/// Makes one call of a plan.
pub(super) fn call(number: i64, args: [u64; 6]) -> Result<i64, Errno> {
    // SAFETY: plans are written by this launcher; their pointers are to bytes of the plan, which outlive the call.
    result(unsafe { libc::syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]) })
}

/// What happens to a descriptor when a program is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterExec {
    Stays,
    Closes,
}

/// Moves descriptors to fixed numbers and closes all others except `kept`, whose number is above them. For a process
/// that is about to become another program: it must neither use nor drop a descriptor by its old number.
pub(super) fn arrange(fixed: &[(BorrowedFd<'_>, i32, AfterExec)], kept: BorrowedFd<'_>) -> Result<(), Errno> {
    let kept = kept.as_raw_fd();
    let mut copies = Vec::with_capacity(fixed.len());
    for (descriptor, ..) in fixed {
        copies.push(rustix::io::fcntl_dupfd_cloexec(descriptor, kept + 1)?);
    }
    for (copy, (_, number, after)) in copies.iter().zip(fixed) {
        let flags = if *after == AfterExec::Closes { libc::O_CLOEXEC } else { 0 };
        // SAFETY: the descriptor with this number belongs to a part of the launcher that this process no longer is.
        result(unsafe { libc::dup3(copy.as_raw_fd(), *number, flags) }.into())?;
    }
    drop(copies);
    let mut first = 0;
    for number in fixed.iter().map(|(_, number, _)| *number).chain([kept]) {
        if first < number {
            close_between(first, number - 1)?;
        }
        first = number + 1;
    }
    close_between(first, i32::MAX)
}

fn close_between(first: i32, last: i32) -> Result<(), Errno> {
    // SAFETY: as above.
    result(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) }).map(drop)
}

/// Passes `descriptor` at `number` to a program that is started now, besides the standard streams.
pub(super) fn pass_only(descriptor: BorrowedFd<'_>, number: i32) -> Result<(), Errno> {
    const CLOSE_ON_EXEC: libc::c_uint = 4;
    let first = libc::c_uint::try_from(number).map_err(|_| Errno::BADF)?;
    // SAFETY: marks descriptors and closes none, so no descriptor changes.
    result(unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, CLOSE_ON_EXEC) })?;
    // SAFETY: `number` may belong to a part of the launcher, but this process is about to become another program and
    // uses none of them again.
    let placed = unsafe { libc::dup2(descriptor.as_raw_fd(), number) };
    result(placed.into()).map(drop)
}
