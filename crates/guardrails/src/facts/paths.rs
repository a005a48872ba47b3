//! Files of the system that code has no business with.

use crate::rules::Rule;
use crate::value::GAP;

/// What is wrong with using this file, if anything. Unknown parts of the path are [`GAP`]s.
#[expect(clippy::match_same_arms, reason = "each arm is about one folder")]
pub(crate) fn file(path: &str) -> Option<(Rule, &'static str)> {
    let path = path.strip_prefix("file://").unwrap_or(path);
    if !path.starts_with('/') {
        return None;
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let is_process = |part: &str| {
        part == "self"
            || part == "thread-self"
            || part == "*"
            || part == "$$"
            || part.contains(GAP)
            || part.bytes().all(|byte| byte.is_ascii_digit())
            || part.contains(['*', '?', '['])
    };
    let what = match parts.as_slice() {
        ["proc", "sysrq-trigger" | "kcore" | "kmem" | "kallsyms" | "keys" | "sched_debug", ..] => "the kernel",
        ["proc", "sys", "kernel", ..] => "the kernel",
        ["proc", process, rest @ ..] if is_process(process) => match rest {
            ["mem" | "environ" | "maps" | "pagemap" | "stack" | "auxv" | "syscall", ..] => {
                "the memory or the environment of a process"
            }
            ["root" | "cwd" | "exe" | "fd" | "ns" | "task" | "map_files", ..]
                if *process != "self" || rest.len() > 1 =>
            {
                "the files of another process"
            }
            ["root" | "exe" | "ns", ..] => "the files of another process",
            ["uid_map" | "gid_map" | "setgroups" | "oom_score_adj" | "attr", ..] => "the privileges of a process",
            _ => return None,
        },
        ["sys", "fs", "cgroup", .., "release_agent" | "cgroup.procs" | "notify_on_release" | "devices.allow"] => {
            "the limits of the sandbox"
        }
        ["sys", "kernel" | "firmware" | "power", ..] => "the kernel",
        ["dev", "mem" | "kmem" | "kmsg" | "port" | "kvm" | "fuse" | "loop0" | "ptmx" | "net", ..] => "a device",
        ["dev", disk, ..] if is_disk(disk) => "a disk",
        ["dev", "tcp" | "udp", ..] => return Some((Rule::RawNetwork, "opens a raw network connection")),
        ["etc", "shadow" | "gshadow" | "sudoers" | "sudoers.d" | "ld.so.preload" | "cron.d" | "crontab", ..] => {
            "passwords or privileges of the system"
        }
        ["root", ".ssh" | ".aws" | ".kube", ..] | ["home", _, ".ssh" | ".aws" | ".kube" | ".docker" | ".gnupg", ..] => {
            "credentials"
        }
        ["var", "run", "secrets", ..] | ["run", "secrets", ..] => "credentials",
        ["var", "run", "docker.sock" | "containerd", ..] | ["run", "docker.sock" | "containerd" | "podman", ..] => {
            "the socket of a service"
        }
        ["var", "lib", "docker" | "kubelet", ..] => "the files of a service",
        ["boot" | "lib" | "lib64" | "modules", "modules", ..] => "the kernel",
        _ => return None,
    };
    Some((Rule::SystemFile, what))
}

fn is_disk(name: &str) -> bool {
    let is_numbered = |start: &str| name.strip_prefix(start).is_some_and(|rest| !rest.is_empty() && rest.len() <= 4);
    ["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "dm-"].iter().any(|start| is_numbered(start))
}

/// Whether deleting this folder with all that is in it deletes everything.
pub(crate) fn is_everything(path: &str) -> bool {
    if !path.starts_with(['/', '~', '$']) {
        return false;
    }
    let path = path.trim_end_matches(['*', '.', '/']);
    let is_home = matches!(path, "~" | "$HOME" | "${HOME}");
    let is_root = path.is_empty() || matches!(path, "/." | "/..");
    let is_system = ["/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/root", "/sbin"]
        .iter()
        .chain(&["/sys", "/usr", "/var", "/coracle"])
        .any(|folder| path == *folder);
    is_home || is_root || is_system
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_system_are_found() {
        for path in [
            "/proc/1/mem",
            "/proc/self/mem",
            "/proc/\u{fffc}/environ",
            "/dev/sda",
            "/etc/shadow",
            "//proc//1/./root/etc",
            "/var/run/docker.sock",
            "/sys/fs/cgroup/release_agent",
        ] {
            assert!(file(path).is_some(), "{path}");
        }
        for path in [
            "/proc/cpuinfo",
            "/proc/meminfo",
            "/sys/fs/cgroup/memory.max",
            "/proc/self/status",
            "/dev/null",
            "/dev/stdin",
            "/dev/shm/x",
            "/etc/hosts",
            "/workspace/proc/1/mem",
            "data/etc/shadow",
            "/tmp/sda",
            "/dev/fd/3",
        ] {
            assert_eq!(file(path), None, "{path}");
        }
    }

    #[test]
    fn everything_is_more_than_a_folder() {
        for path in ["/", "/*", "~", "~/", "/etc", "/usr/*", "//", "/."] {
            assert!(is_everything(path), "{path}");
        }
        for path in ["/workspace/build", "/tmp/x", "build", "./build/*", "*", ".", "/etc/x", "~/cache"] {
            assert!(!is_everything(path), "{path}");
        }
    }
}
