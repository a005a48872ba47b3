//! Settings of the machine that decide whether a sandbox can start.

use std::fs;
use std::path::Path;

/// Values from `/proc`, `/sys` and `/etc`. Unreadable values are unknown, never an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) kernel: String,
    /// Debian's old setting: 0 forbids user namespaces for ordinary users.
    pub(crate) userns_clone: Option<u64>,
    /// 0 forbids user namespaces for all users.
    pub(crate) max_user_namespaces: Option<u64>,
    /// Ubuntu's setting: 1 removes all capabilities from user namespaces of programs without a profile.
    pub(crate) apparmor_restricts: Option<u64>,
    /// Whether there is a profile for Coracle where the Debian package installs it.
    pub(crate) apparmor_profile: bool,
    /// Active security modules; unknown if securityfs is not mounted.
    pub(crate) security_modules: Option<Vec<String>>,
    /// Whether cgroup v2 is mounted where systemd mounts it.
    pub(crate) cgroup2: bool,
    /// Whether systemd is running.
    pub(crate) systemd: bool,
    /// Whether there are signs of Docker, Podman or Kubernetes.
    pub(crate) container: bool,
    pub(crate) distribution: Distribution,
}

/// Distribution, as far as fixes depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Distribution {
    pub(crate) name: Option<String>,
    pub(crate) family: Family,
}

/// Family of distributions with the same package manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Family {
    Debian,
    Fedora,
    Arch,
    Alpine,
    Suse,
    #[default]
    Unknown,
}

impl Machine {
    /// Reads the tree at `root`, which is `/` except in tests.
    pub(crate) fn read(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        let number = |path: &str| text(path)?.trim().parse().ok();
        let exists = |path: &str| root.join(path).exists();
        let modules = text("sys/kernel/security/lsm");
        Self {
            kernel: text("proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            userns_clone: number("proc/sys/kernel/unprivileged_userns_clone"),
            max_user_namespaces: number("proc/sys/user/max_user_namespaces"),
            apparmor_restricts: number("proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            apparmor_profile: exists("etc/apparmor.d/coracle"),
            security_modules: modules.map(|modules| modules.trim().split(',').map(str::to_owned).collect()),
            cgroup2: exists("sys/fs/cgroup/cgroup.controllers"),
            systemd: exists("run/systemd/system"),
            container: exists(".dockerenv") || exists("run/.containerenv") || exists("run/secrets/kubernetes.io"),
            distribution: Distribution::of(&text("etc/os-release").unwrap_or_default()),
        }
    }

    /// Major and minor version of the kernel.
    pub(crate) fn kernel_version(&self) -> Option<(u32, u32)> {
        coracle_sandbox::kernel_version(&self.kernel)
    }
}

impl Distribution {
    fn of(os_release: &str) -> Self {
        let value = |key: &str| {
            let line = os_release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
            Some(line.trim_matches(['"', '\'']).to_owned())
        };
        let ids = format!("{} {}", value("ID").unwrap_or_default(), value("ID_LIKE").unwrap_or_default());
        let family = ids.split_whitespace().find_map(|id| match id {
            "debian" | "ubuntu" => Some(Family::Debian),
            "fedora" | "rhel" | "centos" => Some(Family::Fedora),
            "arch" => Some(Family::Arch),
            "alpine" => Some(Family::Alpine),
            "suse" | "opensuse" => Some(Family::Suse),
            _ => None,
        });
        Self { name: value("PRETTY_NAME"), family: family.unwrap_or_default() }
    }
}
