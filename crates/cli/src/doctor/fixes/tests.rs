use super::{cgroup, landlock, no_sandbox, python};
use crate::doctor::machine::{Family, Machine};
use std::fs;
use std::path::Path;

/// A machine that consists of these files.
fn machine(files: &[(&str, &str)]) -> Machine {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Machine::read(root.path())
}

fn fix(files: &[(&str, &str)]) -> String {
    no_sandbox(&machine(files), "make a user namespace: refused", Path::new("/opt/coracle")).join("\n")
}

const KERNEL: (&str, &str) = ("proc/sys/kernel/osrelease", "6.8.0-31-generic\n");

#[test]
fn ubuntus_restriction_gets_a_profile_for_this_program() {
    let text = fix(&[KERNEL, ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n")]);
    assert!(text.contains("profile coracle /opt/coracle flags=(unconfined) { userns, }"), "{text}");
    assert!(
        text.contains("with the profile /etc/apparmor.d/coracle:") && !text.contains("once it is loaded"),
        "{text}"
    );
    let restricts = ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
    let installed = fix(&[KERNEL, restricts, ("etc/apparmor.d/coracle", "")]);
    assert!(installed.contains("once it is loaded:\n  sudo apparmor_parser -r /etc/apparmor.d/coracle"), "{installed}");
    let allowed = fix(&[KERNEL, ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "0\n")]);
    assert!(!allowed.contains("AppArmor"), "{allowed}");
}

#[test]
fn a_switch_that_is_off_gets_its_sysctl() {
    for (file, setting) in [
        ("proc/sys/user/max_user_namespaces", "user.max_user_namespaces = 15000"),
        ("proc/sys/kernel/unprivileged_userns_clone", "kernel.unprivileged_userns_clone = 1"),
    ] {
        let text = fix(&[KERNEL, (file, "0\n")]);
        assert!(text.contains(setting), "{text}");
        let on = fix(&[KERNEL, (file, "1\n")]);
        assert!(!on.contains(setting), "{on}");
    }
}

#[test]
fn an_old_kernel_is_named() {
    let text = fix(&[("proc/sys/kernel/osrelease", "5.4.0-200\n")]);
    assert!(text.contains("Linux 5.4.0-200 is too old: 5.14"), "{text}");
    assert!(!fix(&[KERNEL]).contains("too old"));
}

#[test]
fn a_container_is_told_apart_from_a_switch() {
    assert!(fix(&[KERNEL, (".dockerenv", "")]).contains("seccomp=unconfined"));
    assert!(!fix(&[KERNEL]).contains("docker"));
}

#[test]
fn landlock_that_is_not_started_is_added_to_those_that_are() {
    let found = machine(&[KERNEL, ("sys/kernel/security/lsm", "lockdown,capability,yama")]);
    assert_eq!(
        landlock(&found),
        ["add Landlock to the kernel's command line and reboot: lsm=landlock,lockdown,capability,yama"]
    );
    let hidden = machine(&[KERNEL, ("sys/kernel/security/lsm", "capability,landlock,yama")]);
    assert!(landlock(&hidden)[0].contains("a filter around Coracle hides it"));
}

#[test]
fn systemd_is_asked_for_a_cgroup() {
    let files = [KERNEL, ("sys/fs/cgroup/cgroup.controllers", "memory pids"), ("run/systemd/system/x", "")];
    assert!(cgroup(&machine(&files), false).join("\n").contains("systemd-run --user --scope -p Delegate=yes"));
    assert!(cgroup(&machine(&[KERNEL]), false).join("\n").contains("cgroup v1"));
}

#[test]
fn the_package_manager_is_that_of_the_distribution() {
    let ubuntu = machine(&[KERNEL, ("etc/os-release", "PRETTY_NAME=\"Ubuntu 24.04\"\nID=ubuntu\nID_LIKE=debian\n")]);
    assert_eq!(
        (ubuntu.distribution.name.as_deref(), ubuntu.distribution.family),
        (Some("Ubuntu 24.04"), Family::Debian)
    );
    assert_eq!(python(&ubuntu, None), ["install Python 3.10 or later: sudo apt-get install python3"]);
    let rocky = machine(&[KERNEL, ("etc/os-release", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n")]);
    assert_eq!(python(&rocky, None), ["install Python 3.10 or later: sudo dnf install python3"]);
    assert_eq!(python(&rocky, Some(Path::new("/x"))).len(), 2);
}
