//! Runs a script of probes inside and outside a sandbox, and checks every result.

use super::syscalls;
use crate::lab::python;
use coracle_testing::harness::Coracle;
use coracle_testing::skip::unsupported;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

const PROBE: &str = include_str!("probe.py");

/// Place of the control.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outside {
    /// As the same user, unconfined.
    Host,
    /// As root of temporary namespaces, so that changes do not affect the machine.
    Namespaces,
}

/// Constants for a script, as Python.
pub(crate) fn facts(values: &[(&str, &Path)]) -> String {
    values.iter().fold(String::new(), |mut text, (name, value)| {
        writeln!(text, "{name} = {:?}", value.to_str().expect("a path in UTF-8")).expect("text");
        text
    })
}

fn script(place: &str, facts: &str, probes: &str) -> String {
    let numbers = serde_json::to_string(&syscalls::named()).expect("numbers");
    format!("PLACE = {place:?}\nSYSCALLS = {numbers}\n{facts}\n{PROBE}\n{probes}\n")
}

/// Results of the probes.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) seen: BTreeSet<String>,
    pub(crate) failures: Vec<String>,
    /// Controls that this machine does not support, with the reason.
    pub(crate) skipped: Vec<String>,
}

impl Outcome {
    fn of(report: &Value) -> Self {
        let texts = |name: &str| -> Vec<String> {
            let list = report[name].as_array().unwrap_or_else(|| panic!("no {name}: {report:#}"));
            list.iter().map(|text| text.as_str().expect("text").to_owned()).collect()
        };
        Self { seen: texts("seen").into_iter().collect(), failures: texts("failures"), skipped: texts("skipped") }
    }

    /// Panics with all failures at once, also if there are too few probes.
    pub(crate) fn demand(&self, at_least: usize, who: &str) {
        println!("{who}: {} probes", self.seen.len());
        for control in &self.skipped {
            unsupported(&format!("{who}, the control of {control}"));
        }
        assert!(self.failures.is_empty(), "{who}:\n{}", self.failures.join("\n"));
        assert!(self.seen.len() >= at_least, "{who}: only {} probes ran: {:?}", self.seen.len(), self.seen);
    }
}

/// Runs the script in a sandbox.
pub(crate) fn inside(coracle: &Coracle, facts: &str, probes: &str) -> Outcome {
    inside_with(coracle, facts, probes, &[])
}

/// Runs the script in a sandbox, with more arguments of `sandboxed`.
pub(crate) fn inside_with(coracle: &Coracle, facts: &str, probes: &str, more: &[&str]) -> Outcome {
    let code = script("inside", &format!("WORKSPACE = '/workspace'\n{facts}"), &format!("{probes}\nresult = report()"));
    Outcome::of(&python(coracle, &code, more))
}

/// Runs the script outside, as the same user, in the workspace's folder on the host.
pub(crate) fn outside(coracle: &Coracle, place: Outside, facts: &str, probes: &str) -> Outcome {
    let workspace = coracle.workspace();
    let mut command = as_user(coracle);
    match place {
        Outside::Host => command.arg("python3"),
        Outside::Namespaces => command.args([
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "--net",
            "--ipc",
            "--uts",
            "python3",
        ]),
    };
    let told = format!("{}{facts}", self::facts(&[("WORKSPACE", &workspace)]));
    let name = match place {
        Outside::Host => "host",
        Outside::Namespaces => "namespaces",
    };
    let code = script(name, &told, &format!("{probes}\nimport json\nprint(json.dumps(report()))"));
    command.args(["-I", "-B", "-"]).current_dir(&workspace);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start python3");
    child.stdin.take().expect("a pipe").write_all(code.as_bytes()).expect("hand over the script");
    let output = child.wait_with_output().expect("wait");
    let report =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("no report ({error}): {output:?}"));
    Outcome::of(&report)
}

/// Command prefix that runs a program on the host as the owner of the workspace.
pub(crate) fn as_user(coracle: &Coracle) -> Command {
    let owner = fs::metadata(coracle.workspace()).expect("the workspace").uid().to_string();
    let mut command = Command::new("setpriv");
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid", &owner, "--regid", &owner, "--clear-groups"]);
    }
    if owner != "0" {
        command.arg("--inh-caps=-all");
    }
    command.arg("--").env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command
}
