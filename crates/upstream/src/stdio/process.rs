//! A child process in its own process group, so that everything that it starts ends with it.

use super::inherited::Inherited;
use super::{Tail, Warden};
use coracle_types::Secret;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// How long a child whose input has ended may take to exit by itself.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// How long a child may take to exit after SIGTERM.
pub(super) const TERM_GRACE: Duration = Duration::from_secs(2);
/// How long to wait for the last lines of standard error after the output has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Why a child cannot be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("the program {0:?} was not found; install it, or give its full path as `command`")]
    NoProgram(String),
    #[error("the program {0:?} is not executable; check its permissions")]
    NotExecutable(String),
    #[error("the folder {0} does not exist; fix `cwd`")]
    NoFolder(PathBuf),
    #[error("the program {0:?} cannot be started: {1}")]
    Other(String, io::Error),
}

/// A running child. Its whole process group is killed on drop.
pub(crate) struct Process {
    child: Child,
    /// The process ID, which is also that of its group.
    pid: Option<Pid>,
    pub(crate) stderr: Tail,
    status: Option<ExitStatus>,
    /// Ends the child if this process cannot.
    warden: Arc<Warden>,
}

impl Process {
    pub(crate) fn start(
        program: &str,
        args: &[Secret],
        env: &BTreeMap<String, Secret>,
        cwd: Option<&Path>,
        warden: &Arc<Warden>,
    ) -> Result<Self, StartError> {
        if let Some(folder) = cwd.filter(|folder| !folder.is_dir()) {
            return Err(StartError::NoFolder(folder.to_owned()));
        }
        let mut command = Command::new(program);
        command
            .args(args.iter().map(Secret::expose))
            .env_clear()
            .envs(Inherited::read(|name| std::env::var_os(name)).variables)
            .envs(env.iter().map(|(name, value)| (name, value.expose())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(folder) = cwd {
            command.current_dir(folder);
        }
        warden.prepare();
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StartError::NoProgram(program.to_owned()),
            io::ErrorKind::PermissionDenied => StartError::NotExecutable(program.to_owned()),
            _ => StartError::Other(program.to_owned(), error),
        })?;
        let stderr = child.stderr.take().map(Tail::of).unwrap_or_default();
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            warden.watch(pid);
        }
        Ok(Self { child, pid, stderr, status: None, warden: Arc::clone(warden) })
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.pid.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok())
    }

    pub(super) fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        self.child.stdin.take().zip(self.child.stdout.take())
    }

    /// How the child ended, with its last output. Waits a short time for both.
    pub(super) async fn exit_report(&mut self) -> String {
        let ending = async {
            let status = self.child.wait().await;
            self.stderr.ended.cancelled().await;
            status
        };
        let status = tokio::time::timeout(LAST_WORDS, ending).await;
        let how = match status {
            Ok(Ok(status)) => {
                self.reaped(status);
                format!("the process ended ({status})")
            }
            _ => match self.child.try_wait() {
                Ok(Some(status)) => {
                    self.reaped(status);
                    format!("the process ended ({status})")
                }
                _ => "the process closed its output".to_owned(),
            },
        };
        match self.stderr.text() {
            text if text.is_empty() => how,
            text => format!("{how}; its last output: {}", last_lines(&text)),
        }
    }

    /// Ends the child and its group: waits, then sends SIGTERM, then SIGKILL. The caller has closed its input.
    pub(super) async fn end(&mut self) {
        if self.status.is_none() && !self.ends_within(GRACE).await {
            self.signal(Signal::TERM);
            if !self.ends_within(TERM_GRACE).await {
                self.kill();
                if let Ok(status) = self.child.wait().await {
                    self.reaped(status);
                }
            }
        }
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    async fn ends_within(&mut self, time: Duration) -> bool {
        match tokio::time::timeout(time, self.child.wait()).await {
            Ok(Ok(status)) => {
                self.reaped(status);
                true
            }
            _ => false,
        }
    }

    /// Kills the rest of the group now, because its number might be reused later.
    fn reaped(&mut self, status: ExitStatus) {
        if self.status.is_none() {
            self.status = Some(status);
            self.end_group();
        }
    }

    fn end_group(&mut self) {
        self.signal(Signal::KILL);
        if let Some(pid) = self.pid.take() {
            self.warden.forget(pid);
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid {
            // The group may be empty.
            let _ = kill_process_group(pid, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end_group();
    }
}

fn last_lines(text: &str) -> String {
    const LINES: usize = 10;
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
