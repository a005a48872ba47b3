//! Evaluates the results of the probes.

use super::fixes;
use super::machine::Machine;
use super::report::{Check, Outcome};
use coracle_sandbox::NativeReport;
use coracle_types::{Enforced, Execution, Mechanism};
use serde::Deserialize;
use std::collections::BTreeMap;

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const EROFS: i32 = 30;
const ENOSYS: i32 = 38;
/// Value of `PR_GET_SECCOMP` with filters installed.
const SECCOMP_FILTER: i32 = 2;

/// Results of `probe.py`. An error number means that an action was refused; `None` means that it succeeded.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Probe {
    namespaces: BTreeMap<String, Option<String>>,
    seccomp: Seccomp,
    no_new_privs: i32,
    capabilities: Option<Capabilities>,
    files: Files,
    processes: Processes,
    network: Network,
    open_files: Option<u64>,
    python: Python,
    packages: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Seccomp {
    mode: i32,
    ptrace: Option<i32>,
    unshare: Option<i32>,
    unlisted: Option<i32>,
    allowed: Option<i32>,
}

#[derive(Clone, Debug, Deserialize)]
struct Capabilities {
    held: u64,
    bounding: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Files {
    host: Option<i32>,
    beside: Option<i32>,
    root: Option<i32>,
    usr: Option<i32>,
    workspace: Option<i32>,
    status: Option<i32>,
}

#[derive(Clone, Debug, Deserialize)]
struct Processes {
    own: u64,
    seen: Option<Vec<u64>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Network {
    inet: Option<i32>,
    inet6: Option<i32>,
    unix: Option<i32>,
    pair: Option<i32>,
}

#[derive(Clone, Debug, Deserialize)]
struct Python {
    version: Vec<u32>,
    executable: String,
}

impl Probe {
    /// PID namespace, in the format of `/proc/self/ns/pid`.
    pub(super) fn pid_namespace(&self) -> Option<&str> {
        self.namespaces.get("pid")?.as_deref()
    }
}

/// Process that ran the probe, as seen from the host.
#[derive(Clone, Debug)]
pub(super) struct Outside {
    pub(super) uid: u64,
    pub(super) capabilities: u64,
    /// Seccomp mode.
    pub(super) filters: u64,
}

pub(super) fn python(report: &NativeReport, probe: &Probe) -> Check {
    let version: Vec<String> = probe.python.version.iter().map(u32::to_string).collect();
    let same = report.python_version.is_some_and(|version| probe.python.version == version);
    let path = report.python.display();
    let detail = format!("{} ({path}, {} inside)", version.join("."), probe.python.executable);
    Check::new("python", Outcome::must(same), detail)
}

/// Checks TypeScript. The engine is part of this program, so only access to the program can fail.
pub(super) fn typescript(execution: &Execution) -> Check {
    match &execution.failure {
        None => Check::new("typescript", Outcome::Ok, "QuickJS, built in"),
        Some(failure) => {
            let fix = "make the coracle program readable and executable for all users";
            Check::new("typescript", Outcome::Weak, failure.error.clone()).with_fix(vec![fix.to_owned()])
        }
    }
}

pub(super) fn bash(execution: &Execution, machine: &Machine) -> Check {
    match &execution.failure {
        None => Check::new("bash", Outcome::Ok, execution.stdout.trim()),
        Some(failure) => Check::new("bash", Outcome::Weak, failure.error.clone()).with_fix(fixes::bash(machine)),
    }
}

pub(super) fn packages(probe: &Probe, has_environment: bool) -> Check {
    let names = probe.packages.join(", ");
    match (has_environment, probe.packages.is_empty()) {
        (false, true) => Check::new("packages", Outcome::Absent, "no NumPy, no pandas: optional")
            .with_fix(vec!["`coracle env sync` installs packages for data analysis, for sandboxes only".to_owned()]),
        (false, false) => Check::new("packages", Outcome::Ok, format!("{names}, from the system's Python")),
        (true, true) => {
            Check::new("packages", Outcome::Ok, "the environment of `coracle env` has neither NumPy nor pandas")
        }
        (true, false) => Check::new("packages", Outcome::Ok, format!("{names}, from the environment of `coracle env`")),
    }
}

/// Checks the isolation, layer by layer.
pub(super) fn isolation(
    probe: &Probe,
    outside: Option<&Outside>,
    report: &NativeReport,
    machine: &Machine,
) -> Vec<Check> {
    vec![
        namespaces(probe),
        host_user(outside, report),
        rights(probe),
        seccomp(&probe.seccomp),
        files(&probe.files),
        landlock(&probe.files, report, machine),
        own_proc(&probe.processes, report, machine),
        network(&probe.network),
    ]
}

fn namespaces(probe: &Probe) -> Check {
    let mut own = Vec::new();
    let mut wrong = Vec::new();
    for (name, inside) in &probe.namespaces {
        let host = std::fs::read_link(format!("/proc/self/ns/{name}")).ok();
        let host = host.as_deref().and_then(std::path::Path::to_str);
        match (inside, host) {
            (Some(inside), Some(host)) if inside == host => wrong.push(format!("{name} is the host's")),
            (Some(_), Some(_)) => own.push(name.as_str()),
            _ => wrong.push(format!("{name} is unknown")),
        }
    }
    if wrong.is_empty() {
        return Check::new("namespaces", Outcome::Ok, format!("{}: none is the host's", own.join(", ")));
    }
    Check::new("namespaces", Outcome::Failed, wrong.join(", "))
}

fn host_user(outside: Option<&Outside>, report: &NativeReport) -> Check {
    let Some(outside) = outside else {
        let detail = "cannot inspect the sandbox's process from outside";
        return Check::new("host user", Outcome::Failed, detail);
    };
    let filtered = outside.filters == SECCOMP_FILTER as u64;
    let holds = outside.uid != 0 && outside.uid == u64::from(report.host_uid) && outside.capabilities == 0 && filtered;
    let detail = if holds {
        let whose = if report.privilege == "root" { "an unprivileged user" } else { "your own" };
        format!(
            "from outside, code runs as user {} ({whose}), without capabilities and with seccomp filters",
            outside.uid
        )
    } else {
        format!("from outside: {outside:?}")
    };
    Check::new("host user", Outcome::must(holds), detail)
}

fn rights(probe: &Probe) -> Check {
    let none =
        probe.capabilities.as_ref().is_some_and(|capabilities| capabilities.held == 0 && capabilities.bounding == 0);
    let detail = match (none, probe.no_new_privs) {
        (true, 1) => "no capabilities, none obtainable, no_new_privs".to_owned(),
        (_, no_new_privs) => format!("capabilities {:?}, no_new_privs {no_new_privs}", probe.capabilities),
    };
    Check::new("rights", Outcome::must(none && probe.no_new_privs == 1), detail)
}

fn seccomp(seccomp: &Seccomp) -> Check {
    let holds = seccomp.mode == SECCOMP_FILTER
        && seccomp.ptrace == Some(EPERM)
        && seccomp.unshare == Some(EPERM)
        && seccomp.unlisted == Some(ENOSYS)
        && seccomp.allowed.is_none();
    let detail = if holds {
        "filters active: ptrace and unshare are refused, unlisted system calls do not exist".to_owned()
    } else {
        format!("{seccomp:?}")
    };
    Check::new("seccomp", Outcome::must(holds), detail)
}

fn files(files: &Files) -> Check {
    let refused = |errno| matches!(errno, Some(EACCES | EROFS | EPERM));
    let hidden = files.host == Some(ENOENT) || files.host == Some(EACCES);
    let works = files.beside.is_none() && files.workspace.is_none();
    let holds = hidden && refused(files.root) && refused(files.usr) && works;
    let detail = if holds {
        "host files are invisible, / and /usr are read-only, /workspace is writable".to_owned()
    } else {
        format!("{files:?}")
    };
    Check::new("files", Outcome::must(holds), detail)
}

fn landlock(files: &Files, report: &NativeReport, machine: &Machine) -> Check {
    let abi = match &report.landlock {
        Ok(abi) => abi,
        Err(reason) => {
            let detail = format!("{reason}: files are protected only by mounts and the filter");
            return Check::new("landlock", Outcome::Weak, detail).with_fix(fixes::landlock(machine));
        }
    };
    // Without Landlock this file could be read, with or without a private /proc.
    let holds = matches!(files.status, Some(EACCES | ENOENT));
    let detail = if holds {
        format!("ABI {abi}: /proc/self/status cannot be read")
    } else {
        format!("ABI {abi}, but /proc/self/status can be read")
    };
    Check::new("landlock", Outcome::must(holds), detail)
}

fn own_proc(processes: &Processes, report: &NativeReport, machine: &Machine) -> Check {
    if !report.own_proc {
        let detail = "none: programs that need /proc fail";
        return Check::new("proc", Outcome::Weak, detail).with_fix(fixes::own_proc(machine));
    }
    let seen = processes.seen.as_deref().unwrap_or_default();
    let detail = if seen == [processes.own] {
        "/proc shows only the sandbox's own process".to_owned()
    } else {
        format!("/proc shows {} processes", seen.len())
    };
    Check::new("proc", Outcome::must(seen == [processes.own]), detail)
}

fn network(network: &Network) -> Check {
    let off = [network.inet, network.inet6, network.unix].iter().all(|errno| *errno == Some(EPERM));
    let detail = match (off, network.pair) {
        (true, None) => "off: only socket pairs within the sandbox can be created".to_owned(),
        _ => format!("{network:?}"),
    };
    Check::new("network", Outcome::must(off && network.pair.is_none()), detail)
}

/// Checks the memory limit. `held` says whether a program above the limit was killed and the same program within it was
/// not.
pub(super) fn memory(
    held: Result<(), String>,
    enforced: Option<&Enforced>,
    report: &NativeReport,
    machine: &Machine,
) -> Check {
    let means = enforced.map(|enforced| enforced.memory);
    if let Err(reason) = held {
        return Check::new("memory", Outcome::Failed, reason);
    }
    match (means, &report.cgroup) {
        (Some(Mechanism::Cgroup1), _) => {
            Check::new("memory", Outcome::Ok, "limit enforced for all processes together by cgroup v1")
        }
        (Some(Mechanism::Cgroup2), _) => {
            Check::new("memory", Outcome::Ok, "limit enforced for all processes together by cgroup v2")
        }
        (_, reason) => {
            let reason = reason.as_ref().err().map_or("", String::as_str);
            let detail = format!(
                "limit enforced per process by the kernel, and for all together by monitoring; no cgroup: {reason}"
            );
            let fix = fixes::cgroup(machine, report.privilege == "root");
            Check::new("memory", Outcome::Weak, detail).with_fix(fix)
        }
    }
}

pub(super) fn processes(started: Option<u64>, limit: u64, enforced: Option<&Enforced>) -> Check {
    let means = enforced.map(|enforced| enforced.processes);
    let by = match means {
        Some(Mechanism::Cgroup2) => "cgroup v2",
        _ => "a resource limit of the user namespace",
    };
    match started {
        Some(started) if started > 0 && started < limit => Check::new(
            "processes",
            Outcome::Ok,
            format!("limit of {limit} enforced by {by}: no more than {started} children"),
        ),
        other => Check::new(
            "processes",
            Outcome::Failed,
            format!("limit of {limit} not enforced by {by}: {other:?} children"),
        ),
    }
}

pub(super) fn open_files(probe: &Probe, limit: u64) -> Check {
    match probe.open_files {
        Some(opened) if opened > 0 && opened < limit => Check::new(
            "open files",
            Outcome::Ok,
            format!("limit of {limit} enforced: no more than {opened} could be opened"),
        ),
        other => Check::new("open files", Outcome::Failed, format!("limit of {limit} not held: {other:?}")),
    }
}
