//! A command that prints the master key, for example one that asks a key management service.

use crate::KeyError;
use coracle_types::Secret;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// The maximum size of a key in a file or in the output of a command: 64 digits and a line ending.
pub(crate) const MAX_KEY_TEXT: u64 = 256;
/// Maximum time that the command may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval at which the end of the command is awaited after it has closed its output.
const PAUSE: Duration = Duration::from_millis(5);

/// A shell command that prints the master key. It runs once in a process, with the environment and standard error of the
/// process. Cheap to clone; clones share the key.
#[derive(Clone)]
pub struct KeyCommand {
    line: Arc<str>,
    key: Arc<Mutex<Option<Secret>>>,
}

/// Without the command, which may contain credentials.
impl fmt::Debug for KeyCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyCommand").finish_non_exhaustive()
    }
}

impl KeyCommand {
    /// A command for `sh`.
    pub fn new(line: &str) -> Self {
        Self { line: line.into(), key: Arc::default() }
    }

    /// What the command prints. Blocks until it has ended.
    pub(crate) fn key(&self) -> Result<Secret, KeyError> {
        let mut key = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = &*key {
            return Ok(key.clone());
        }
        let printed = self.run(PATIENCE).map_err(|reason| KeyError::Command { reason })?;
        let printed = Secret::new(printed.as_str());
        *key = Some(printed.clone());
        Ok(printed)
    }

    fn run(&self, patience: Duration) -> Result<Zeroizing<String>, String> {
        let until = Instant::now() + patience;
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(&*self.line).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let child = command.spawn().map_err(|error| format!("cannot start /bin/sh: {error}"))?;
        let mut group = Group { child };
        let Some(stdout) = group.child.stdout.take() else { return Err("it has no output".to_owned()) };
        let (sender, printed) = mpsc::sync_channel(1);
        thread::spawn(move || {
            // Allocated with the maximum size, so that growing leaves no copy behind.
            let mut text = Zeroizing::new(String::with_capacity(MAX_KEY_TEXT as usize));
            let read = stdout.take(MAX_KEY_TEXT).read_to_string(&mut text);
            let _ = sender.send(read.map(|_| text));
        });
        let late = || format!("it has not ended after {} s", patience.as_secs());
        let printed = printed.recv_timeout(patience).map_err(|_| late())?;
        loop {
            match group.child.try_wait().map_err(|error| error.to_string())? {
                Some(status) if status.success() => break,
                Some(status) => return Err(format!("it failed with {status}")),
                None if Instant::now() >= until => return Err(late()),
                None => thread::sleep(PAUSE),
            }
        }
        printed.map_err(|error: io::Error| format!("its output cannot be read: {error}"))
    }
}

/// The command and its processes, which are killed when this is dropped.
struct Group {
    child: Child,
}

impl Drop for Group {
    fn drop(&mut self) {
        // Until the child was waited for, its ID belongs to no other group.
        if let (Ok(None), Some(id)) = (self.child.try_wait(), Pid::from_raw(self.child.id().cast_signed())) {
            let _ = kill_process_group(id, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::KeyCommand;
    use std::time::Duration;

    fn run(line: &str, patience: Duration) -> Result<String, String> {
        KeyCommand::new(line).run(patience).map(|printed| printed.to_string())
    }

    #[test]
    fn a_command_prints_the_key_within_its_time() {
        let patience = Duration::from_mins(1);
        assert_eq!(run("printf 'a%s\\n' b", patience), Ok("ab\n".to_owned()));
        let failed = run("echo secret; exit 3", patience).unwrap_err();
        assert!(failed.contains("exit status: 3") && !failed.contains("secret"), "{failed}");
        assert!(run("printf '\\377'", patience).unwrap_err().contains("cannot be read"));
        for line in ["sleep 1000", "exec >&-; sleep 1000"] {
            assert!(run(line, Duration::from_millis(50)).unwrap_err().contains("has not ended"), "{line}");
        }
    }

    #[test]
    fn a_command_runs_once_and_again_only_after_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        let line = format!("echo x >>{0}; [ $(wc -l <{0}) -gt 1 ] && echo key", count.display());
        let command = KeyCommand::new(&line);
        assert!(command.key().is_err());
        assert_eq!(command.key().unwrap().expose(), "key\n");
        assert_eq!(command.clone().key().unwrap().expose(), "key\n");
        assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\nx\n");
        assert!(!format!("{command:?}").contains("echo"));
    }
}
