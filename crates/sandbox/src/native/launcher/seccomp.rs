//! The system calls that a sandbox may make.
//!
//! Three filters stack, and the strictest answer wins. `base` (an allow-list: other calls do not exist) and `refused`
//! (these calls get a readable EPERM) are installed in the zygote and inherited by every child at no cost. `seal` is
//! small. Each child installs it after it has set itself up, and it removes the calls that are only needed for that.
//!
//! Trust boundary: every call in `ALLOWED` is attack surface of the host's kernel.

use super::allow_list::{Narrowed, allow_only};
use crate::Network;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule as Rule, TargetArch, sock_filter,
};
use std::collections::BTreeMap;

/// How the memory of a sandbox is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryCount {
    /// By the kernel, in a cgroup: all memory counts.
    Kernel,
    /// By adding up processes: a file in memory (`memfd_create`) would not count, so it is not allowed.
    Processes,
}

/// Why a filter cannot be compiled.
#[derive(Debug, thiserror::Error)]
#[error("seccomp filter: {0}")]
pub(super) struct FilterError(#[from] seccompiler::BackendError);

/// Calls that code in a sandbox may make. All others get ENOSYS, so that libraries use their fallbacks. Absent on
/// purpose: inotify, which would reveal which programs others run from the shared `/usr`.
#[rustfmt::skip]
const ALLOWED: &[i64] = &[
    // files
    libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev, libc::SYS_pread64, libc::SYS_pwrite64,
    libc::SYS_preadv, libc::SYS_pwritev, libc::SYS_preadv2, libc::SYS_pwritev2, libc::SYS_openat, libc::SYS_close,
    libc::SYS_close_range, libc::SYS_lseek, libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_faccessat,
    libc::SYS_faccessat2, libc::SYS_readlinkat, libc::SYS_getdents64, libc::SYS_mkdirat, libc::SYS_mknodat,
    libc::SYS_unlinkat, libc::SYS_renameat, libc::SYS_renameat2, libc::SYS_linkat, libc::SYS_symlinkat,
    libc::SYS_fchmod, libc::SYS_fchmodat, SYS_FCHMODAT2, libc::SYS_fchown, libc::SYS_fchownat, libc::SYS_utimensat,
    libc::SYS_truncate, libc::SYS_ftruncate, libc::SYS_fallocate, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_sync,
    libc::SYS_syncfs, libc::SYS_sync_file_range, libc::SYS_fadvise64, libc::SYS_readahead, libc::SYS_flock,
    libc::SYS_copy_file_range, libc::SYS_sendfile, libc::SYS_splice, libc::SYS_tee, libc::SYS_vmsplice,
    libc::SYS_statfs, libc::SYS_fstatfs, libc::SYS_getcwd, libc::SYS_chdir, libc::SYS_fchdir, libc::SYS_umask,
    libc::SYS_dup, libc::SYS_dup3, libc::SYS_fcntl, libc::SYS_ioctl, libc::SYS_pipe2, libc::SYS_memfd_create,
    libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_fgetxattr, libc::SYS_listxattr, libc::SYS_llistxattr,
    libc::SYS_flistxattr, libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr, libc::SYS_removexattr,
    libc::SYS_lremovexattr, libc::SYS_fremovexattr,
    // waiting
    libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2, libc::SYS_eventfd2, libc::SYS_signalfd4, libc::SYS_timerfd_create, libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime, libc::SYS_nanosleep, libc::SYS_clock_nanosleep,
    // memory
    libc::SYS_brk, libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect, libc::SYS_madvise,
    libc::SYS_msync, libc::SYS_mincore, libc::SYS_mlock, libc::SYS_mlock2, libc::SYS_munlock, libc::SYS_mlockall,
    libc::SYS_munlockall, libc::SYS_membarrier, libc::SYS_pkey_alloc, libc::SYS_pkey_free, libc::SYS_pkey_mprotect,
    libc::SYS_get_mempolicy,
    // processes and threads
    libc::SYS_clone, libc::SYS_execve, libc::SYS_execveat, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_wait4,
    libc::SYS_waitid, libc::SYS_kill, libc::SYS_tkill, libc::SYS_tgkill, libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal, libc::SYS_getpid, libc::SYS_getppid, libc::SYS_gettid, libc::SYS_getpgid,
    libc::SYS_setpgid, libc::SYS_getsid, libc::SYS_setsid, libc::SYS_set_tid_address, libc::SYS_set_robust_list,
    libc::SYS_get_robust_list, libc::SYS_rseq, libc::SYS_futex, SYS_FUTEX_WAITV, libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity, libc::SYS_sched_setaffinity, libc::SYS_sched_getparam, libc::SYS_sched_getscheduler,
    libc::SYS_sched_getattr, libc::SYS_sched_get_priority_max, libc::SYS_sched_get_priority_min,
    libc::SYS_sched_rr_get_interval, libc::SYS_getpriority, libc::SYS_setpriority, libc::SYS_getcpu, libc::SYS_prctl,
    // identity
    libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid, libc::SYS_getresuid, libc::SYS_getresgid,
    libc::SYS_getgroups, libc::SYS_capget, libc::SYS_setuid, libc::SYS_setgid, libc::SYS_setreuid, libc::SYS_setregid,
    libc::SYS_setresuid, libc::SYS_setresgid,
    // signals
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_rt_sigpending,
    libc::SYS_rt_sigsuspend, libc::SYS_rt_sigtimedwait, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_sigaltstack, libc::SYS_restart_syscall,
    // time
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_gettimeofday, libc::SYS_times, libc::SYS_getitimer,
    libc::SYS_setitimer, libc::SYS_timer_create, libc::SYS_timer_settime, libc::SYS_timer_gettime,
    libc::SYS_timer_getoverrun, libc::SYS_timer_delete,
    // the rest
    libc::SYS_getrandom, libc::SYS_uname, libc::SYS_getrlimit, libc::SYS_setrlimit, libc::SYS_prlimit64,
    libc::SYS_getrusage, libc::SYS_sysinfo,
    // sockets: pairs, and what is done with them
    libc::SYS_socketpair, libc::SYS_sendto, libc::SYS_recvfrom, libc::SYS_recvmsg, libc::SYS_recvmmsg, libc::SYS_shutdown, libc::SYS_getsockname, libc::SYS_getpeername,
    libc::SYS_getsockopt, libc::SYS_setsockopt,
];

/// Calls of older programs, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ALLOWED_LEGACY: &[i64] = &[
    libc::SYS_open, libc::SYS_creat, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink,
    libc::SYS_getdents, libc::SYS_mkdir, libc::SYS_rmdir, libc::SYS_mknod, libc::SYS_unlink, libc::SYS_rename,
    libc::SYS_link, libc::SYS_symlink, libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime,
    libc::SYS_utimes, libc::SYS_futimesat, libc::SYS_dup2, libc::SYS_pipe, libc::SYS_poll, libc::SYS_select,
    libc::SYS_epoll_create, libc::SYS_epoll_wait, libc::SYS_eventfd, libc::SYS_signalfd,
    libc::SYS_fork, libc::SYS_vfork, libc::SYS_getpgrp, libc::SYS_alarm, libc::SYS_pause, libc::SYS_time,
    libc::SYS_arch_prctl, libc::SYS_getrlimit,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_LEGACY: &[i64] = &[];

const SYS_FCHMODAT2: i64 = 452;
const SYS_FUTEX_WAITV: i64 = 449;

/// Calls that a child needs to set itself up, and that `seal` removes. The zygote sends descriptors (`sendmsg`); code
/// must not: descriptors in transit are counted per user, who is the same for all sandboxes, and a deleted file that
/// exists only there takes up invisible space on the disk.
#[rustfmt::skip]
const SETTING_UP: &[i64] = &[
    libc::SYS_sendmsg,
    libc::SYS_mount, libc::SYS_move_mount, libc::SYS_umount2, libc::SYS_capset, libc::SYS_seccomp,
    libc::SYS_landlock_create_ruleset, libc::SYS_landlock_add_rule, libc::SYS_landlock_restrict_self,
];

/// Calls that get EPERM instead of ENOSYS, so that the error explains itself.
#[rustfmt::skip]
const REFUSED: &[i64] = &[
    libc::SYS_sendmmsg, libc::SYS_socket, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4, libc::SYS_connect,
    libc::SYS_unshare, libc::SYS_setns, libc::SYS_pivot_root, libc::SYS_chroot, libc::SYS_open_tree,
    libc::SYS_mount_setattr, libc::SYS_fsopen, libc::SYS_fsmount, libc::SYS_fsconfig, libc::SYS_fspick,
    libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_pidfd_getfd, libc::SYS_kcmp,
    libc::SYS_keyctl, libc::SYS_add_key, libc::SYS_request_key, libc::SYS_bpf, libc::SYS_perf_event_open,
    libc::SYS_userfaultfd, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register,
    libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module, libc::SYS_kexec_load, libc::SYS_reboot,
    libc::SYS_swapon, libc::SYS_swapoff, libc::SYS_acct, libc::SYS_quotactl, libc::SYS_sethostname,
    libc::SYS_setdomainname, libc::SYS_settimeofday, libc::SYS_clock_settime, libc::SYS_adjtimex, libc::SYS_syslog,
    libc::SYS_open_by_handle_at, libc::SYS_name_to_handle_at, libc::SYS_fanotify_init, libc::SYS_setgroups,
    libc::SYS_personality, libc::SYS_shmget, libc::SYS_msgget, libc::SYS_semget, libc::SYS_mq_open,
];

/// Allowed operations of `prctl`. Dropping capabilities is for setting up, and harmless without any.
#[rustfmt::skip]
const PRCTL: &[i32] = &[
    libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_PDEATHSIG, libc::PR_GET_PDEATHSIG, libc::PR_GET_DUMPABLE,
    libc::PR_SET_DUMPABLE, libc::PR_GET_SECCOMP, libc::PR_CAPBSET_READ, libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_SET_NO_NEW_PRIVS, libc::PR_SET_TIMERSLACK, libc::PR_GET_TIMERSLACK, libc::PR_SET_THP_DISABLE,
    libc::PR_GET_THP_DISABLE, libc::PR_SET_VMA, libc::PR_GET_SECUREBITS, libc::PR_SET_CHILD_SUBREAPER,
    libc::PR_GET_CHILD_SUBREAPER, libc::PR_GET_KEEPCAPS, libc::PR_CAPBSET_DROP,
];

/// Flags of `clone` that make namespaces.
const NEW_NAMESPACE: &[i32] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWCGROUP,
    CLONE_NEWTIME,
];
const CLONE_NEWTIME: i32 = 0x80;

/// Requests that inject input into a terminal, and those that open the namespaces around a process. The last three are
/// other forms of `fallocate`, on every file system; see [`ALLOCATION`].
#[rustfmt::skip]
const IOCTL: &[u64] = &[
    libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSCTTY, libc::TIOCSETD, NS_GET_USERNS, NS_GET_PARENT,
    FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE,
];
const NS_GET_USERNS: u64 = 0xb701;
const NS_GET_PARENT: u64 = 0xb702;
const FS_IOC_RESVSP: u64 = 0x4030_5828;
const FS_IOC_RESVSP64: u64 = 0x4030_582a;
const FS_IOC_ZERO_RANGE: u64 = 0x4030_5839;

/// `fallocate` may only give space back: it can take gigabytes of disk instantly, before the watch on a quota notices.
/// The C library's `posix_fallocate` then writes instead.
const ALLOCATION: Narrowed = Narrowed {
    number: libc::SYS_fallocate as u32,
    argument: 1,
    values: &[(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u32, libc::FALLOC_FL_COLLAPSE_RANGE as u32],
    errno: libc::EOPNOTSUPP as u16,
};

/// Commands of `fcntl` that affect others: a lease blocks the next process that opens the file, which may be the host;
/// a notification reveals what others do in a shared folder.
const FCNTL: &[u64] = &[libc::F_SETLEASE as u64, libc::F_NOTIFY as u64];

/// Options that give a socket an abstract name without `bind`, in a network namespace that sandboxes share.
const CREDENTIALS: &[u64] = &[libc::SO_PASSCRED as u64, SO_PASSPIDFD];
const SO_PASSPIDFD: u64 = 76;

/// Mode bits that must not be set on a file in a workspace, because they change the user who runs it.
const SET_ID: &[u64] = &[libc::S_ISUID as u64, libc::S_ISGID as u64];

/// Calls of [`REFUSED`] that a network needs. `connect` reaches only what the network namespace has.
const NETWORKING: &[i64] = &[libc::SYS_socket, libc::SYS_connect];

/// Calls of [`REFUSED`] that a child with a network makes before the seal.
const LISTENING: &[i64] = &[libc::SYS_bind, libc::SYS_listen];

/// The bits of a socket's type that are not flags.
const TYPE: u64 = 0xf;

/// Options of sockets that clients need, by level. All others are refused with a network: TCP sockets have many more,
/// which replace the protocol or run filters in the kernel.
#[rustfmt::skip]
const SOCKET_OPTIONS: [(i32, &[i32]); 2] = [
    (libc::SOL_SOCKET, &[
        libc::SO_REUSEADDR, libc::SO_SNDBUF, libc::SO_RCVBUF, libc::SO_KEEPALIVE, libc::SO_LINGER,
        libc::SO_RCVTIMEO, libc::SO_SNDTIMEO,
    ]),
    (libc::IPPROTO_TCP, &[
        libc::TCP_NODELAY, libc::TCP_CORK, libc::TCP_KEEPIDLE, libc::TCP_KEEPINTVL, libc::TCP_KEEPCNT,
        libc::TCP_QUICKACK, libc::TCP_USER_TIMEOUT, libc::TCP_NOTSENT_LOWAT,
    ]),
];

type Rules = BTreeMap<i64, Vec<Rule>>;

/// The filters of the zygote, in the order of installation.
pub(super) fn of_zygote(memory: MemoryCount, network: Network) -> Result<[BpfProgram; 2], FilterError> {
    let named = ALLOWED.iter().chain(ALLOWED_LEGACY).chain(SETTING_UP).chain(REFUSED);
    let base = named.map(|number| *number as u32).collect();
    let mut refused = Rules::new();
    for number in REFUSED {
        refused.insert(*number, Vec::new());
    }
    refused.insert(libc::SYS_socketpair, vec![rule(&[(0, Op::Ne, libc::AF_UNIX as u64)])?]);
    for (number, argument, values) in
        [(libc::SYS_ioctl, 1, IOCTL), (libc::SYS_fcntl, 1, FCNTL), (libc::SYS_setsockopt, 2, CREDENTIALS)]
    {
        let any = values.iter().map(|value| rule(&[(argument, Op::Eq, *value)])).collect::<Result<_, _>>()?;
        refused.insert(number, any);
    }
    let not_listed: Vec<_> = PRCTL.iter().map(|option| (0, Op::Ne, *option as u64)).collect();
    refused.insert(libc::SYS_prctl, vec![rule(&not_listed)?]);
    if memory == MemoryCount::Processes {
        refused.insert(libc::SYS_memfd_create, Vec::new());
    }
    set_id_rules(&mut refused)?;
    if network == Network::Proxy {
        network_rules(&mut refused)?;
    }
    Ok([allow_only(&base, &[ALLOCATION], libc::ENOSYS as u16), compile(refused)?])
}

/// Replaces the rules for sockets by those of a sandbox with a network: TCP over IPv4 to connect, and pairs of connected
/// local sockets. A pair of datagram sockets could be connected to something else.
fn network_rules(refused: &mut Rules) -> Result<(), FilterError> {
    for number in NETWORKING.iter().chain(LISTENING) {
        refused.remove(number);
    }
    let not_one_of = |kinds: &[i32]| -> Result<Vec<Rule>, FilterError> {
        let others = (0..=TYPE).filter(|kind| !kinds.iter().any(|one| *one as u64 == *kind));
        others.map(|kind| rule(&[(1, Op::MaskedEq(TYPE), kind)])).collect()
    };
    let mut socket = not_one_of(&[libc::SOCK_STREAM])?;
    socket.push(rule(&[(0, Op::Ne, libc::AF_INET as u64)])?);
    // Not MPTCP or SMC, which are also streams of this family.
    socket.push(rule(&[(2, Op::Ne, 0), (2, Op::Ne, libc::IPPROTO_TCP as u64)])?);
    refused.insert(libc::SYS_socket, socket);
    let pairs = refused.entry(libc::SYS_socketpair).or_default();
    pairs.extend(not_one_of(&[libc::SOCK_STREAM, libc::SOCK_SEQPACKET])?);
    let mut options = vec![rule(&SOCKET_OPTIONS.map(|(level, _)| (1, Op::Ne, level as u64)))?];
    for (level, names) in SOCKET_OPTIONS {
        let mut others = vec![(1, Op::Eq, level as u64)];
        others.extend(names.iter().map(|name| (2, Op::Ne, *name as u64)));
        options.push(rule(&others)?);
    }
    refused.insert(libc::SYS_setsockopt, options);
    // Connects without `connect`, which Landlock does not see.
    let fast_open = libc::MSG_FASTOPEN as u64;
    refused.insert(libc::SYS_sendto, vec![rule(&[(3, Op::MaskedEq(fast_open), fast_open)])?]);
    Ok(())
}

/// The filter that a child installs last.
pub(super) fn of_seal(network: Network) -> Result<BpfProgram, FilterError> {
    let mut rules = Rules::new();
    let listening = if network == Network::Proxy { LISTENING } else { &[] };
    for number in SETTING_UP.iter().chain(listening) {
        rules.insert(*number, Vec::new());
    }
    let new_namespace = NEW_NAMESPACE
        .iter()
        .map(|flag| rule(&[(0, Op::MaskedEq(*flag as u64), *flag as u64)]))
        .collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_clone, new_namespace);
    // The only limit whose lowering allows more: see `NO_CORE` in `confinement.rs`. Reading it, with no new value, is
    // fine.
    let core = (1, Op::Eq, u64::from(libc::RLIMIT_CORE));
    let new_value = Condition::new(2, Len::Qword, Op::Ne, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![Rule::new(vec![condition(&core)?, new_value])?]);
    rules.insert(libc::SYS_setrlimit, vec![rule(&[(0, core.1, core.2)])?]);
    compile(rules)
}

fn set_id_rules(rules: &mut Rules) -> Result<(), FilterError> {
    let create = (libc::O_CREAT as u64, libc::O_TMPFILE as u64);
    let mut plain = vec![(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (SYS_FCHMODAT2, 2), (libc::SYS_mknodat, 2)];
    let mut opening = vec![(libc::SYS_openat, 2, 3)];
    #[cfg(target_arch = "x86_64")]
    {
        plain.extend([(libc::SYS_chmod, 1), (libc::SYS_creat, 1), (libc::SYS_mknod, 1)]);
        opening.push((libc::SYS_open, 1, 2));
    }
    for (number, mode) in plain {
        let any = SET_ID.iter().map(|bit| rule(&[(mode, Op::MaskedEq(*bit), *bit)])).collect::<Result<_, _>>()?;
        rules.insert(number, any);
    }
    for (number, flags, mode) in opening {
        let mut any = Vec::new();
        for bit in SET_ID {
            any.push(rule(&[(flags, Op::MaskedEq(create.0), create.0), (mode, Op::MaskedEq(*bit), *bit)])?);
            any.push(rule(&[(flags, Op::MaskedEq(create.1), create.1), (mode, Op::MaskedEq(*bit), *bit)])?);
        }
        rules.insert(number, any);
    }
    Ok(())
}

fn rule(conditions: &[(u8, Op, u64)]) -> Result<Rule, FilterError> {
    let conditions: Result<Vec<_>, _> = conditions.iter().map(condition).collect();
    Ok(Rule::new(conditions?)?)
}

/// A condition on the lower half of an argument, which is all that the kernel uses of most. Not for pointers.
fn condition((argument, operator, value): &(u8, Op, u64)) -> Result<Condition, FilterError> {
    Ok(Condition::new(*argument, Len::Dword, operator.clone(), *value)?)
}

/// Compiles rules. Calls that match get EPERM.
fn compile(rules: Rules) -> Result<BpfProgram, FilterError> {
    let (otherwise, matched) = (SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32));
    let arch = if cfg!(target_arch = "aarch64") { TargetArch::aarch64 } else { TargetArch::x86_64 };
    Ok(SeccompFilter::new(rules, otherwise, matched, arch)?.try_into()?)
}

/// The bytes of a program in the kernel's layout.
pub(super) fn to_bytes(program: &[sock_filter]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(program.len() * 8);
    for instruction in program {
        bytes.extend_from_slice(&instruction.code.to_ne_bytes());
        bytes.extend_from_slice(&[instruction.jt, instruction.jf]);
        bytes.extend_from_slice(&instruction.k.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::{ALLOWED, ALLOWED_LEGACY, LISTENING, MemoryCount, NETWORKING, REFUSED, SETTING_UP, of_seal, of_zygote};
    use crate::Network;

    #[test]
    fn no_call_is_both_allowed_and_refused() {
        for number in ALLOWED.iter().chain(ALLOWED_LEGACY) {
            assert!(!REFUSED.contains(number) && !SETTING_UP.contains(number), "system call {number}");
        }
    }

    #[test]
    fn the_seal_is_small() {
        // Each child has to install it.
        for (network, most) in [(Network::Off, 120), (Network::Proxy, 140)] {
            let length = of_seal(network).unwrap().len();
            assert!(length < most, "{network:?}: {length}");
            assert!(of_zygote(MemoryCount::Processes, network).unwrap()[0].len() > 100);
        }
    }

    #[test]
    fn a_network_changes_only_calls_that_are_otherwise_refused() {
        for number in NETWORKING.iter().chain(LISTENING) {
            assert!(REFUSED.contains(number), "system call {number}");
        }
    }
}
