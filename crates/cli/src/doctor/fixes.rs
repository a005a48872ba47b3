//! Fixes for what is missing, based on the machine's settings.

use super::machine::{Family, Machine};
use coracle_sandbox::OLDEST_KERNEL;
use std::path::Path;

/// Explains why no sandbox starts, as far as the machine's settings show.
pub(crate) fn no_sandbox(machine: &Machine, reason: &str, program: &Path) -> Vec<String> {
    let mut fixes = old_kernel(machine);
    fixes.extend(user_namespaces(machine, program));
    if fixes.is_empty() && machine.container {
        fixes.extend(in_container());
    }
    if reason.contains("data folder") {
        fixes.push("set CORACLE_HOME to a folder that you can write to".to_owned());
    }
    if fixes.is_empty() {
        fixes.push(
            "nothing in this machine's settings explains it: run CORACLE_LOG=debug coracle doctor for details"
                .to_owned(),
        );
    }
    fixes
}

pub(crate) fn old_kernel(machine: &Machine) -> Vec<String> {
    match machine.kernel_version() {
        Some(version) if version < OLDEST_KERNEL => {
            let (major, minor) = OLDEST_KERNEL;
            vec![format!("Linux {} is too old: {major}.{minor} or later is required", machine.kernel)]
        }
        _ => Vec::new(),
    }
}

/// Settings that forbid user namespaces, and how to change them.
pub(crate) fn user_namespaces(machine: &Machine, program: &Path) -> Vec<String> {
    let mut fixes = Vec::new();
    if machine.max_user_namespaces == Some(0) {
        fixes.push("user namespaces are disabled (user.max_user_namespaces = 0); enable them:".to_owned());
        fixes.push("  echo 'user.max_user_namespaces = 15000' | sudo tee /etc/sysctl.d/60-userns.conf".to_owned());
        fixes.push("  sudo sysctl --system".to_owned());
    }
    if machine.userns_clone == Some(0) {
        fixes.push(
            "ordinary users cannot create user namespaces (kernel.unprivileged_userns_clone = 0); allow it:".to_owned(),
        );
        fixes.push("  echo 'kernel.unprivileged_userns_clone = 1' | sudo tee /etc/sysctl.d/60-userns.conf".to_owned());
        fixes.push("  sudo sysctl --system".to_owned());
    }
    if machine.apparmor_restricts.is_some_and(|value| value != 0) {
        let program = program.display();
        fixes.push(
            "AppArmor removes the capabilities of user namespaces (kernel.apparmor_restrict_unprivileged_userns = 1)."
                .to_owned(),
        );
        if machine.apparmor_profile {
            fixes.push(
                "The profile /etc/apparmor.d/coracle allows them for the path that it names, once it is loaded:"
                    .to_owned(),
            );
            fixes.push("  sudo apparmor_parser -r /etc/apparmor.d/coracle".to_owned());
            fixes.push(format!("If it is not for {program}, replace it by this one:"));
        } else {
            fixes.push("Allow them for Coracle only, with the profile /etc/apparmor.d/coracle:".to_owned());
        }
        fixes.push("  sudo tee /etc/apparmor.d/coracle <<'END'".to_owned());
        fixes.push("  abi <abi/4.0>,".to_owned());
        fixes.push("  include <tunables/global>".to_owned());
        fixes.push(format!("  profile coracle {program} flags=(unconfined) {{ userns, }}"));
        fixes.push("  END".to_owned());
        fixes.push("  sudo apparmor_parser -r /etc/apparmor.d/coracle".to_owned());
        fixes.push("or for every program: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0".to_owned());
    }
    fixes
}

fn in_container() -> Vec<String> {
    vec![
        "this is a container, and its seccomp filter may forbid user namespaces and mounts; start it with".to_owned(),
        "  docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined …"
            .to_owned(),
    ]
}

/// How to get a separate cgroup.
pub(crate) fn cgroup(machine: &Machine, is_root: bool) -> Vec<String> {
    if machine.cgroup2 && machine.systemd && !is_root {
        return vec![
            "ask systemd for a separate cgroup:".to_owned(),
            "  systemd-run --user --scope -p Delegate=yes coracle …".to_owned(),
        ];
    }
    if machine.cgroup2 {
        return vec![
            "give Coracle a writable cgroup with the memory and pids controllers (for systemd: Delegate=yes)"
                .to_owned(),
        ];
    }
    if is_root {
        return vec!["mount a cgroup hierarchy with the memory controller, writable for Coracle".to_owned()];
    }
    vec!["cgroup v1 cannot be given to ordinary users safely: use cgroup v2 (systemd.unified_cgroup_hierarchy=1), or run as root".to_owned()]
}

pub(crate) fn landlock(machine: &Machine) -> Vec<String> {
    match (&machine.security_modules, machine.kernel_version()) {
        (_, Some(version)) if version < OLDEST_KERNEL => old_kernel(machine),
        (Some(modules), _) if !modules.iter().any(|module| module == "landlock") => {
            let all = modules.join(",");
            vec![format!("add Landlock to the kernel's command line and reboot: lsm=landlock,{all}")]
        }
        (Some(_), _) => vec![
            "the kernel supports it, so a filter around Coracle hides it: let the container or the service manager allow \
             landlock_create_ruleset, landlock_add_rule and landlock_restrict_self"
                .to_owned(),
        ],
        (None, _) => vec!["use a kernel built with CONFIG_SECURITY_LANDLOCK and started with lsm=landlock,…".to_owned()],
    }
}

pub(crate) fn own_proc(machine: &Machine) -> Vec<String> {
    if machine.container {
        return vec![
            "the container masks parts of /proc: start it with --security-opt systempaths=unconfined".to_owned(),
        ];
    }
    vec!["parts of /proc are covered by mounts, so the kernel refuses to mount a second one".to_owned()]
}

/// How to install Python; `wanted` is the interpreter that CORACLE_PYTHON names.
pub(crate) fn python(machine: &Machine, wanted: Option<&Path>) -> Vec<String> {
    let mut fixes = Vec::new();
    if let Some(wanted) = wanted {
        let wanted = wanted.display();
        fixes.push(format!(
            "CORACLE_PYTHON is {wanted}: set it to another interpreter, or unset it to use the system's"
        ));
    }
    let install = install(machine, "python3");
    fixes.push(format!("install Python 3.10 or later: {install}"));
    fixes
}

pub(crate) fn bash(machine: &Machine) -> Vec<String> {
    vec![format!("install bash: {}", install(machine, "bash"))]
}

fn install(machine: &Machine, package: &str) -> String {
    match machine.distribution.family {
        Family::Debian => format!("sudo apt-get install {package}"),
        Family::Fedora => format!("sudo dnf install {package}"),
        Family::Arch => format!("sudo pacman -S {}", package.trim_end_matches('3')),
        Family::Alpine => format!("sudo apk add {package}"),
        Family::Suse => format!("sudo zypper install {package}"),
        Family::Unknown => format!("apt-get install {package}, dnf install {package} or brew install {package}"),
    }
}

#[cfg(test)]
mod tests;
