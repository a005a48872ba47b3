//! One execution through the real program, with a hard time-out, and checks that always apply: no process, cgroup or
//! folder is left, and the next execution works.

use crate::harness::{As, Coracle};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time limit of an execution; a longer one hangs.
const HARD: Duration = Duration::from_secs(90);

/// Time limit for killed processes to be gone, also on a busy machine.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);

/// Result of one run of the program.
#[derive(Debug)]
pub struct Ran {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
    /// Names of the instances that were seen during the run.
    instances: BTreeSet<String>,
}

impl Ran {
    /// Parses the output of `--json`.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// Exit code, unless a signal ended the program.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

/// Runs the command; panics if it hangs.
pub fn finish(coracle: &Coracle, command: &mut Command, input: &[u8]) -> Ran {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout, mut stderr) =
        (child.stdin.take().unwrap(), child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let begun = Instant::now();
    let mut instances = BTreeSet::new();
    let (status, out, err) = std::thread::scope(|scope| {
        // The program may end without reading.
        scope.spawn(move || drop(stdin.write_all(input)));
        let out = scope.spawn(move || read_all(&mut stdout));
        let err = scope.spawn(move || read_all(&mut stderr));
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            instances.extend(left_in_run(&coracle.home()));
            if begun.elapsed() > HARD {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("as {:?}: {command:?} hangs", coracle.who);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        (status, out.join().unwrap(), err.join().unwrap())
    });
    Ran { status, stdout: out, stderr: String::from_utf8_lossy(&err).into_owned(), instances }
}

fn read_all(from: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Runs `coracle exec --json` in the workspace, with the code on standard input.
pub fn json(coracle: &Coracle, language: &str, code: &str, more: &[&str]) -> Ran {
    let mut command = coracle.command();
    command.args(["exec", "--json", "--lang", language, "--workspace"]).arg(coracle.workspace()).args(more);
    finish(coracle, &mut command, code.as_bytes())
}

/// Asserts that nothing of these runs is left, and that the next one works.
pub fn assert_settled(coracle: &Coracle, ran: &Ran, name: &str) {
    assert!(!ran.instances.is_empty(), "{name} as {:?}: no instance was seen", coracle.who);
    assert_gone(coracle, &ran.instances, name);
    let next = json(coracle, "python", "6 * 7", &[]).json();
    assert_eq!(next["result"], 42, "{name} as {:?}: the next execution: {next:#}", coracle.who);
}

/// Asserts that no process, and no folder of an instance, is left.
pub fn assert_nothing_left(coracle: &Coracle, name: &str) {
    assert_gone(coracle, &BTreeSet::new(), name);
}

fn assert_gone(coracle: &Coracle, instances: &BTreeSet<String>, name: &str) {
    let begun = Instant::now();
    loop {
        let left = leftovers(coracle, instances);
        if left.is_empty() {
            return;
        }
        assert!(begun.elapsed() < SETTLED_WITHIN, "{name} as {:?} left {left:?}", coracle.who);
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn leftovers(coracle: &Coracle, instances: &BTreeSet<String>) -> Vec<String> {
    let mut left: Vec<String> = left_in_run(&coracle.home()).into_iter().map(|name| format!("run/{name}")).collect();
    left.extend(processes_in(coracle.home().parent().unwrap()));
    if coracle.who == As::Root {
        let groups = instances.iter().flat_map(|id| cgroups(&format!("coracle-{id}")));
        left.extend(groups.map(|path| path.display().to_string()));
    }
    left
}

/// Folders of instances, dead or alive.
pub fn left_in_run(home: &Path) -> Vec<String> {
    let entries = fs::read_dir(home.join("run")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name != ".lock").collect()
}

/// Processes that have something below this folder mounted or open, as launcher, zygote and sandboxes do. Copies of
/// this process do not count: a child that another test starts has all its descriptors until it executes its program.
pub fn processes_in(folder: &Path) -> Vec<String> {
    let unique = folder.file_name().unwrap().to_str().unwrap();
    let own = fs::read_link("/proc/self/exe").unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // Before its descriptors, because the child may execute its program in between.
        if pid == std::process::id() || fs::read_link(entry.path().join("exe")).is_ok_and(|program| program == own) {
            continue;
        }
        let mounted = fs::read_to_string(entry.path().join("mountinfo")).is_ok_and(|text| text.contains(unique));
        let opened = fs::read_dir(entry.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|path| path.to_string_lossy().contains(unique)));
        if mounted || opened {
            let words = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default().replace('\0', " ");
            found.push(format!("process {pid} ({words})"));
        }
    }
    found
}

/// Whether a process is running and not a zombie.
pub fn is_alive(pid: &str) -> bool {
    fs::read_to_string(Path::new("/proc").join(pid).join("stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

/// Cgroup folders with this name, at any depth that an instance may use.
fn cgroups(name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![(PathBuf::from("/sys/fs/cgroup"), 0)];
    while let Some((folder, depth)) = pending.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name() == name {
                found.push(entry.path());
            } else if depth < 4 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push((entry.path(), depth + 1));
            }
        }
    }
    found
}
