//! System calls that sandboxed code may make, by name.
//!
//! A second copy on purpose: a call that is added to `seccomp.rs` must also be added here, with the reason in the
//! commit.

use std::collections::BTreeMap;

/// Last number that is tried, beyond those of current kernels.
pub(crate) const LAST: i64 = 480;

macro_rules! numbers {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name)),*] };
}

type Numbers = &'static [(&'static str, libc::c_long)];

#[rustfmt::skip]
const ALLOWED: Numbers = numbers![
    SYS_read SYS_write SYS_readv SYS_writev SYS_pread64 SYS_pwrite64 SYS_preadv SYS_pwritev SYS_preadv2 SYS_pwritev2
    SYS_openat SYS_close SYS_close_range SYS_lseek SYS_fstat SYS_newfstatat SYS_statx SYS_faccessat SYS_faccessat2
    SYS_readlinkat SYS_getdents64 SYS_mkdirat SYS_mknodat SYS_unlinkat SYS_renameat SYS_renameat2 SYS_linkat
    SYS_symlinkat SYS_fchmod SYS_fchmodat SYS_fchown SYS_fchownat SYS_utimensat SYS_truncate SYS_ftruncate
    SYS_fallocate SYS_fsync SYS_fdatasync SYS_sync SYS_syncfs SYS_sync_file_range SYS_fadvise64 SYS_readahead
    SYS_flock SYS_copy_file_range SYS_sendfile SYS_splice SYS_tee SYS_vmsplice SYS_statfs SYS_fstatfs SYS_getcwd
    SYS_chdir SYS_fchdir SYS_umask SYS_dup SYS_dup3 SYS_fcntl SYS_ioctl SYS_pipe2 SYS_memfd_create SYS_getxattr
    SYS_lgetxattr SYS_fgetxattr SYS_listxattr SYS_llistxattr SYS_flistxattr SYS_setxattr SYS_lsetxattr SYS_fsetxattr
    SYS_removexattr SYS_lremovexattr SYS_fremovexattr SYS_ppoll SYS_pselect6 SYS_epoll_create1 SYS_epoll_ctl
    SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2 SYS_signalfd4 SYS_timerfd_create SYS_timerfd_settime
    SYS_timerfd_gettime SYS_nanosleep SYS_clock_nanosleep SYS_brk SYS_mmap SYS_munmap SYS_mremap SYS_mprotect
    SYS_madvise SYS_msync SYS_mincore SYS_mlock SYS_mlock2 SYS_munlock SYS_mlockall SYS_munlockall SYS_membarrier
    SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect SYS_get_mempolicy SYS_clone SYS_execve SYS_execveat SYS_exit
    SYS_exit_group SYS_wait4 SYS_waitid SYS_kill SYS_tkill SYS_tgkill SYS_pidfd_open SYS_pidfd_send_signal
    SYS_getpid SYS_getppid SYS_gettid SYS_getpgid SYS_setpgid SYS_getsid SYS_setsid SYS_set_tid_address
    SYS_set_robust_list SYS_get_robust_list SYS_rseq SYS_futex SYS_sched_yield SYS_sched_getaffinity
    SYS_sched_setaffinity SYS_sched_getparam SYS_sched_getscheduler SYS_sched_getattr SYS_sched_get_priority_max
    SYS_sched_get_priority_min SYS_sched_rr_get_interval SYS_getpriority SYS_setpriority SYS_getcpu SYS_prctl
    SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getresuid SYS_getresgid SYS_getgroups SYS_capget SYS_setuid
    SYS_setgid SYS_setreuid SYS_setregid SYS_setresuid SYS_setresgid SYS_rt_sigaction SYS_rt_sigprocmask
    SYS_rt_sigreturn SYS_rt_sigpending SYS_rt_sigsuspend SYS_rt_sigtimedwait SYS_rt_sigqueueinfo
    SYS_rt_tgsigqueueinfo SYS_sigaltstack SYS_restart_syscall SYS_clock_gettime SYS_clock_getres SYS_gettimeofday
    SYS_times SYS_getitimer SYS_setitimer SYS_timer_create SYS_timer_settime SYS_timer_gettime SYS_timer_getoverrun
    SYS_timer_delete SYS_getrandom SYS_uname SYS_getrlimit SYS_setrlimit SYS_prlimit64 SYS_getrusage SYS_sysinfo
    SYS_socketpair SYS_sendto SYS_recvfrom SYS_recvmsg SYS_recvmmsg SYS_shutdown
    SYS_getsockname SYS_getpeername SYS_getsockopt SYS_setsockopt
];

/// Calls without a name in `libc`.
const ALLOWED_NEW: Numbers = &[("SYS_futex_waitv", 449), ("SYS_fchmodat2", 452)];

#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ALLOWED_LEGACY: Numbers = numbers![
    SYS_open SYS_creat SYS_stat SYS_lstat SYS_access SYS_readlink SYS_getdents SYS_mkdir SYS_rmdir SYS_mknod
    SYS_unlink SYS_rename SYS_link SYS_symlink SYS_chmod SYS_chown SYS_lchown SYS_utime SYS_utimes SYS_futimesat
    SYS_dup2 SYS_pipe SYS_poll SYS_select SYS_epoll_create SYS_epoll_wait SYS_eventfd SYS_signalfd SYS_fork
    SYS_vfork SYS_getpgrp SYS_alarm SYS_pause SYS_time SYS_arch_prctl
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_LEGACY: Numbers = &[];

/// Other calls that probes name.
#[rustfmt::skip]
const PROBED: Numbers = numbers![
    SYS_accept SYS_accept4 SYS_acct SYS_add_key SYS_adjtimex SYS_bind SYS_bpf SYS_capset SYS_chroot
    SYS_clock_settime SYS_clone3 SYS_connect SYS_delete_module SYS_fanotify_init SYS_finit_module SYS_fsconfig
    SYS_fsmount SYS_fsopen SYS_fspick SYS_init_module SYS_inotify_init1 SYS_io_uring_enter SYS_io_uring_register
    SYS_io_uring_setup SYS_kcmp SYS_kexec_load SYS_keyctl SYS_landlock_add_rule SYS_landlock_create_ruleset
    SYS_landlock_restrict_self SYS_listen SYS_memfd_secret SYS_mount SYS_mount_setattr SYS_move_mount SYS_mq_open
    SYS_msgget SYS_name_to_handle_at SYS_open_by_handle_at SYS_open_tree SYS_openat2 SYS_perf_event_open
    SYS_personality SYS_pidfd_getfd SYS_pivot_root SYS_process_vm_readv SYS_process_vm_writev SYS_ptrace
    SYS_quotactl SYS_reboot SYS_request_key SYS_sched_setattr SYS_sched_setscheduler SYS_seccomp SYS_semget
    SYS_sendmmsg SYS_sendmsg
    SYS_set_mempolicy SYS_setdomainname SYS_setgroups SYS_sethostname SYS_setns SYS_settimeofday SYS_shmget
    SYS_socket SYS_swapoff SYS_swapon SYS_syslog SYS_umount2 SYS_unshare SYS_userfaultfd
];

#[cfg(target_arch = "x86_64")]
const PROBED_LEGACY: Numbers = numbers![SYS_modify_ldt SYS_iopl SYS_ioperm];
#[cfg(not(target_arch = "x86_64"))]
const PROBED_LEGACY: Numbers = &[];

/// Permitted calls.
pub(crate) fn allowed() -> BTreeMap<&'static str, libc::c_long> {
    by_name(&[ALLOWED, ALLOWED_NEW, ALLOWED_LEGACY])
}

/// Numbers of all calls that a probe can name.
pub(crate) fn named() -> BTreeMap<&'static str, libc::c_long> {
    by_name(&[ALLOWED, ALLOWED_NEW, ALLOWED_LEGACY, PROBED, PROBED_LEGACY])
}

fn by_name(lists: &[Numbers]) -> BTreeMap<&'static str, libc::c_long> {
    let all = lists.iter().copied().flatten();
    all.map(|(name, number)| (name.trim_start_matches("SYS_"), *number)).collect()
}
