//! Runs the suite and reads its results.

use coracle_testing::place::installed;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// List of expected failures, which both versions of the suite read.
const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/expected-failures.yaml");
/// Milliseconds for one client; many start at once.
const CLIENT_TIME: &str = "120000";

/// Suffix of the names of its folders.
const TIME: &str = "-2026-07-28T00-00-00-000Z";

/// Version of the suite.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    /// 0.1.16: takes a revision of the protocol.
    Old,
    /// 0.2.0-alpha.12: takes the requirements of a revision at its release.
    New,
}

/// Subject of the suite.
#[derive(Clone, Copy)]
pub(crate) enum Role<'a> {
    /// A server at this address.
    Server(&'a str),
    /// This program.
    Client,
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Old => "0.1.16",
            Self::New => "0.2.0-alpha.12",
        })
    }
}

impl Suite {
    /// Runs these scenarios, or all if none are named.
    pub(crate) fn run(self, role: Role<'_>, revision: &str, only: &[&str]) -> Outcome {
        let folder = TempDir::new().unwrap();
        let own = std::env::current_exe().unwrap();
        let mut words = match role {
            Role::Server(url) => vec!["server", "--url", url],
            Role::Client => vec!["client", "--command", own.to_str().unwrap(), "--timeout", CLIENT_TIME],
        };
        words.extend(["--expected-failures", EXPECTED, "-o", folder.path().to_str().unwrap()]);
        let each = |names: &[&str]| -> Vec<Output> {
            let one =
                |name: &&str| self.call(&[&words[..], &["--spec-version", revision, "--scenario", name]].concat());
            names.iter().map(one).collect()
        };
        let outputs = match (self, role) {
            _ if !only.is_empty() => each(only),
            (Self::New, _) => vec![self.call(&[&words[..], &["--requirements", revision]].concat())],
            (Self::Old, Role::Server(_)) => {
                vec![self.call(&[&words[..], &["--suite", "all", "--spec-version", revision]].concat())]
            }
            // This version measures how long clients wait, so they run one at a time.
            (Self::Old, Role::Client) => {
                let names = self.client_scenarios(revision);
                each(&names.iter().map(String::as_str).collect::<Vec<_>>())
            }
        };
        Outcome {
            scenarios: scenarios(folder.path(), role),
            expected: expected(role),
            complaints: outputs
                .into_iter()
                .filter(|output| !output.status.success())
                .map(|output| said(&output))
                .collect(),
        }
    }

    /// Names of the client scenarios of this revision.
    fn client_scenarios(self, revision: &str) -> Vec<String> {
        let listed = self.call(&["list", "--client", "--spec-version", revision]);
        assert!(listed.status.success(), "{}", said(&listed));
        let listed = String::from_utf8(listed.stdout).unwrap();
        let names = listed.lines().filter_map(|line| line.trim().strip_prefix("- "));
        names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
    }

    fn call(self, words: &[&str]) -> Output {
        let folder = match self {
            Self::Old => "conformance-0.1",
            Self::New => "conformance-0.2",
        };
        let modules = installed("npm-conformance/node_modules");
        let mut command = Command::new(Path::new(&modules).join(".bin/node"));
        command.arg(Path::new(&modules).join(folder).join("dist/index.js")).args(words);
        command.stdin(Stdio::null()).output().unwrap()
    }
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// Results of one scenario.
#[derive(Default)]
struct Checks {
    passed: usize,
    /// Failed checks, each with its reason.
    failed: Vec<String>,
}

/// Results of one run.
pub(crate) struct Outcome {
    scenarios: BTreeMap<String, Checks>,
    expected: Vec<String>,
    /// Output of the suite about failures.
    complaints: Vec<String>,
}

impl Outcome {
    pub(crate) fn is_as_expected(&self) -> bool {
        self.complaints.is_empty() && !self.scenarios.is_empty()
    }

    fn is_expected_to_fail(&self, scenario: &str) -> bool {
        self.expected.iter().any(|entry| entry.split(':').next() == Some(scenario))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (failing, passing): (Vec<_>, Vec<_>) =
            self.scenarios.iter().partition(|(_, checks)| !checks.failed.is_empty());
        let known = failing.iter().filter(|(name, _)| self.is_expected_to_fail(name)).count();
        let unknown = failing.len() - known;
        writeln!(f, "{} scenarios pass, {known} fail as expected, {unknown} fail", passing.len())?;
        for (name, checks) in &self.scenarios {
            let verdict = match (checks.failed.is_empty(), self.is_expected_to_fail(name)) {
                (true, false) => "passes",
                (true, true) => "passes, and was expected to fail",
                (false, true) => "fails, as expected",
                (false, false) => "FAILS",
            };
            writeln!(
                f,
                "  {name:<50} {:>3} of {:>3} checks  {verdict}",
                checks.passed,
                checks.passed + checks.failed.len()
            )?;
            if verdict == "FAILS" {
                checks.failed.iter().try_for_each(|reason| writeln!(f, "      {reason}"))?;
            }
        }
        self.complaints.iter().try_for_each(|complaint| writeln!(f, "{complaint}"))
    }
}

/// Entries for this side. The suite also reads the file, and only accepts a plain list.
fn expected(role: Role<'_>) -> Vec<String> {
    let section = match role {
        Role::Server(_) => "server:",
        Role::Client => "client:",
    };
    let text = fs::read_to_string(EXPECTED).unwrap();
    let lines = text.lines().skip_while(|line| *line != section).skip(1).take_while(|line| line.starts_with(' '));
    lines.filter_map(|line| line.trim().strip_prefix("- ")).map(str::to_owned).collect()
}

/// Reads the folders with the checks, which are named after the scenario and the time.
fn scenarios(folder: &Path, role: Role<'_>) -> BTreeMap<String, Checks> {
    let mut found = BTreeMap::new();
    let mut pending = vec![(folder.to_owned(), String::new())];
    while let Some((folder, before)) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let name = format!("{before}{}", entry.file_name().to_str().unwrap());
            let file = entry.path().join("checks.json");
            if !file.is_file() {
                pending.push((entry.path(), format!("{name}/")));
                continue;
            }
            let name = name.strip_prefix("server-").filter(|_| matches!(role, Role::Server(_))).unwrap_or(&name);
            let name = name[..name.len() - TIME.len()].to_owned();
            let checks: Vec<Value> = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
            found.insert(name, of(&checks));
        }
    }
    found
}

/// Both versions treat a warning as a failure.
fn of(checks: &[Value]) -> Checks {
    let mut of = Checks::default();
    for check in checks {
        match check["status"].as_str() {
            Some("SUCCESS") => of.passed += 1,
            Some("FAILURE" | "WARNING") => {
                let reason = check["errorMessage"].as_str().or(check["description"].as_str()).unwrap_or_default();
                of.failed.push(format!("{}: {reason}", check["id"].as_str().unwrap_or_default()));
            }
            _ => {}
        }
    }
    of
}
