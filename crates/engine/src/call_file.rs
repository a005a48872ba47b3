//! Logs of calls as files in the folder of a user, so that executions outside of runs can be resumed.
//!
//! Nothing is written before the first call. All attempts of an execution share one file, which has a name for each of
//! them (hard links), and an attempt locks it while it runs, so that no two make the same calls.
//!
//! What is written survives the process, but perhaps not the machine. If the machine has been restarted since, or if the
//! file is a copy, its end may be missing: the next attempt then asks a person before it makes calls that the file does
//! not know.

use crate::call_log::{CallAnswer, CallLog, CallLogError, EarlierCall, LoggedCall, is_refusal};
use async_trait::async_trait;
use coracle_types::{ExecutionId, Language, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

const SUFFIX: &str = ".jsonl";
/// Maximum size of a file that is resumed. The calls of one attempt take much less.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// Maximum size of all files of a user. The oldest are emptied.
const KEPT_BYTES: u64 = 64 << 20;
/// Maximum number of files of a user. The oldest are deleted.
const KEPT_FILES: usize = 1_000;
/// Number of closed logs per search for old files.
const PRUNED_EACH: u32 = 16;
static CLOSED: AtomicU32 = AtomicU32::new(0);

/// Error codes of calls that their server has answered: these calls have failed, and are made again.
const FAILED: [&str; 2] = ["tool_error", "refused"];
/// Error code of a call that took effect, and whose answer was too long.
const TOO_LARGE: &str = "too_large";

/// The program of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Programming language of the code.
    pub language: Language,
    /// Source code.
    pub code: String,
    /// Variables that were set before it ran. `None` if they were too large to be kept.
    pub vars: Option<Map<String, Value>>,
    /// Session that it ran in.
    pub session: Option<SessionId>,
}

/// Where a file was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Origin {
    boot: Option<String>,
    inode: u64,
}

impl Origin {
    fn of(file: &File) -> io::Result<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        Ok(Self { boot: boot.map(|boot| boot.trim().to_owned()), inode: file.metadata()?.ino() })
    }

    /// Whether all that was written to the file is still there.
    fn holds_for(&self, file: &File) -> bool {
        self.boot.is_some() && Self::of(file).is_ok_and(|now| now == *self)
    }
}

/// A line of a file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Created(Origin),
    Program(Program),
    Call(EarlierCall),
}

impl Line {
    fn text(&self) -> io::Result<Vec<u8>> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        Ok(text)
    }
}

/// Why an execution cannot be resumed.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// There is no log of its calls.
    #[error("execution {0} cannot be resumed: no calls of it are kept")]
    NotKept(ExecutionId),
    /// An attempt of it is running.
    #[error("execution {0} is still running, or has been resumed and that is running")]
    Running(ExecutionId),
    /// The log cannot be read or continued.
    #[error("execution {id} cannot be resumed: {error}")]
    File {
        /// The execution.
        id: ExecutionId,
        /// The reason.
        error: io::Error,
    },
}

impl ResumeError {
    /// How to fix the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotKept(_) => {
                "check the ID, or run the code again: an execution that called no tool has nothing to resume, and calls \
                 are kept for the newest executions only"
            }
            Self::Running(_) => "wait for its end, or stop it",
            Self::File { .. } => "see to the data folder (CORACLE_HOME)",
        }
    }
}

/// The log of the calls of one execution.
#[derive(Debug)]
pub(crate) struct CallFile {
    shared: Arc<Shared>,
    earlier: Vec<EarlierCall>,
}

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    id: ExecutionId,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// There was no call yet.
    NotCreated(Program),
    Open(Opened),
    Closed,
}

#[derive(Debug)]
struct Opened {
    /// Locked.
    file: File,
    /// The last line is incomplete.
    is_torn: bool,
    has_effects: bool,
}

impl Opened {
    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.file.write_all(b"\n")?;
        }
        self.is_torn = true;
        self.file.write_all(text)?;
        self.is_torn = false;
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, text: &[u8], has_effect: bool) -> io::Result<()> {
        let mut state = self.lock();
        if let State::NotCreated(program) = &*state {
            *state = State::Open(create(&self.folder, &self.id, program)?);
        }
        let State::Open(open) = &mut *state else { return Err(io::Error::other("the execution has ended")) };
        open.has_effects |= has_effect;
        open.write(text)
    }
}

fn path(folder: &Path, id: &ExecutionId) -> PathBuf {
    folder.join(format!("{id}{SUFFIX}"))
}

fn create(folder: &Path, id: &ExecutionId, program: &Program) -> io::Result<Opened> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let path = path(folder, id);
    let file = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&path)?;
    let begun = begin(file, program);
    if begun.is_err() {
        // The next call tries again, when the disk may have room.
        let _ = std::fs::remove_file(&path);
    }
    begun
}

fn begin(file: File, program: &Program) -> io::Result<Opened> {
    file.try_lock()?;
    let mut opened = Opened { file, is_torn: false, has_effects: false };
    opened.write(&Line::Created(Origin::of(&opened.file)?).text()?)?;
    opened.write(&Line::Program(program.clone()).text()?)?;
    Ok(opened)
}

impl CallFile {
    /// The log of a new execution, in a folder that need not exist.
    pub(crate) fn new(folder: PathBuf, id: ExecutionId, program: Program) -> Self {
        let shared = Arc::new(Shared { folder, id, state: Mutex::new(State::NotCreated(program)) });
        Self { shared, earlier: Vec::new() }
    }

    /// Whether calls that may have had an effect are in the file.
    pub(crate) fn has_effects(&self) -> bool {
        matches!(&*self.shared.lock(), State::Open(open) if open.has_effects)
    }

    /// Ends the attempt: nothing is written any more, and the execution can be resumed.
    pub(crate) fn close(&self) {
        let was = std::mem::replace(&mut *self.shared.lock(), State::Closed);
        let is_due =
            matches!(was, State::Open(_)) && CLOSED.fetch_add(1, Ordering::Relaxed).is_multiple_of(PRUNED_EACH);
        if let (true, Ok(runtime)) = (is_due, tokio::runtime::Handle::try_current()) {
            let folder = self.shared.folder.clone();
            runtime.spawn_blocking(move || prune(&folder, KEPT_FILES, KEPT_BYTES));
        }
    }

    async fn write(&self, entry: EarlierCall) -> Result<(), CallLogError> {
        let failed = |error: io::Error| CallLogError::Failed { reason: error.to_string() };
        let has_effect = !entry.call.is_repeatable;
        let text = Line::Call(entry).text().map_err(failed)?;
        let shared = Arc::clone(&self.shared);
        let written = tokio::task::spawn_blocking(move || shared.append(&text, has_effect)).await;
        written.map_err(io::Error::other).and_then(|written| written).map_err(failed)
    }
}

#[async_trait]
impl CallLog for CallFile {
    async fn began(&self, call: &LoggedCall) -> Result<(), CallLogError> {
        self.write(EarlierCall { call: call.clone(), answer: None }).await
    }

    async fn ended(&self, call: &LoggedCall, answer: &CallAnswer) -> Result<(), CallLogError> {
        self.write(EarlierCall { call: call.clone(), answer: Some(answer.clone()) }).await
    }

    fn earlier(&self) -> Vec<EarlierCall> {
        self.earlier.clone()
    }
}

/// An execution that is going to be resumed. No other attempt of it can begin while this exists.
#[derive(Debug)]
pub struct Resumption {
    folder: PathBuf,
    id: ExecutionId,
    /// Locked.
    file: File,
    program: Program,
    calls: Vec<EarlierCall>,
    is_torn: bool,
    has_effects: bool,
}

impl Resumption {
    /// The program of the last attempt.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Opens the log of an execution.
    pub(crate) fn open(folder: PathBuf, id: &ExecutionId) -> Result<Self, ResumeError> {
        let failed = |error| ResumeError::File { id: id.clone(), error };
        let not_kept = || ResumeError::NotKept(id.clone());
        let mut file = match OpenOptions::new().read(true).append(true).open(path(&folder, id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_kept()),
            opened => opened.map_err(failed)?,
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(ResumeError::Running(id.clone())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Ok(()) => {}
        }
        let mut text = Vec::new();
        io::Read::by_ref(&mut file).take(MAX_FILE_BYTES + 1).read_to_end(&mut text).map_err(failed)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            let message = format!("the log of its calls is longer than {MAX_FILE_BYTES} bytes");
            return Err(failed(io::Error::other(message)));
        }
        let read = Lines::of(&text);
        let is_whole = read.is_whole && read.origin.is_some_and(|origin| origin.holds_for(&file));
        let has_effects = read.calls.values().any(|earlier| !earlier.call.is_repeatable);
        let mut calls: Vec<EarlierCall> = read.calls.into_values().filter_map(to_replay).collect();
        calls.extend((!is_whole).then(unknown));
        let program = read.program.ok_or_else(not_kept)?;
        let is_torn = text.last().is_some_and(|last| *last != b'\n');
        Ok(Self { folder, id: id.clone(), file, program, calls, is_torn, has_effects })
    }

    /// The log of the attempt that resumes the execution.
    pub(crate) fn continue_as(&self, id: &ExecutionId, program: Program) -> Result<CallFile, ResumeError> {
        let failed = |error| ResumeError::File { id: self.id.clone(), error };
        // The same open file, and so the same lock.
        let file = self.file.try_clone().map_err(failed)?;
        let mut opened = Opened { file, is_torn: self.is_torn, has_effects: self.has_effects };
        if program != self.program {
            Line::Program(program).text().and_then(|text| opened.write(&text)).map_err(failed)?;
        }
        std::fs::hard_link(path(&self.folder, &self.id), path(&self.folder, id)).map_err(failed)?;
        let state = Mutex::new(State::Open(opened));
        let shared = Arc::new(Shared { folder: self.folder.clone(), id: id.clone(), state });
        Ok(CallFile { shared, earlier: self.calls.clone() })
    }
}

/// The execution whose log was written last.
pub(crate) fn newest(folder: &Path) -> Option<ExecutionId> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let found = entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.file_name())));
    let (_, name) = found.max_by_key(|(time, _)| *time)?;
    ExecutionId::new(name.to_str()?.strip_suffix(SUFFIX)?).ok()
}

/// What a file says.
struct Lines {
    origin: Option<Origin>,
    program: Option<Program>,
    calls: BTreeMap<u64, EarlierCall>,
    is_whole: bool,
}

impl Lines {
    fn of(text: &[u8]) -> Self {
        let mut lines = Self { origin: None, program: None, calls: BTreeMap::new(), is_whole: true };
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(Line::Created(origin)) => lines.origin = Some(origin),
                Ok(Line::Program(program)) => lines.program = Some(program),
                Ok(Line::Call(call)) => drop(lines.calls.insert(call.call.number, call)),
                Err(_) => lines.is_whole = false,
            }
        }
        lines
    }
}

/// What the next attempt has to know of a call; nothing if it can simply be made again.
fn to_replay(mut earlier: EarlierCall) -> Option<EarlierCall> {
    if let Some(CallAnswer::Error { code, .. }) = &earlier.answer {
        let is_answer = code == TOO_LARGE || earlier.answer.as_ref().is_some_and(is_refusal);
        if earlier.call.is_repeatable || FAILED.contains(&code.as_str()) {
            return None;
        }
        if !is_answer {
            // A time-out, or a lost connection.
            earlier.answer = None;
        }
    }
    Some(earlier)
}

/// Stands for calls that are missing in the file. No call of code is the same, so calls that the file does not know are
/// in doubt.
fn unknown() -> EarlierCall {
    let call = LoggedCall { number: 0, what: String::new(), digest: String::new(), is_repeatable: false };
    EarlierCall { call, answer: None }
}

/// Empties or deletes old files, except those in use.
fn prune(folder: &Path, most_files: usize, most_bytes: u64) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut found: Vec<(SystemTime, PathBuf, u64)> = entries
        .flatten()
        .filter_map(|entry| {
            let known = entry.metadata().ok()?;
            Some((known.modified().ok()?, entry.path(), known.len() / known.nlink().max(1)))
        })
        .collect();
    found.sort_by_key(|(changed, ..)| std::cmp::Reverse(*changed));
    let mut bytes = 0;
    for (place, (_, path, length)) in found.into_iter().enumerate() {
        bytes += length;
        let (is_extra, is_long) = (place >= most_files, bytes > most_bytes && length > 0);
        if !(is_extra || is_long) {
            continue;
        }
        let Ok(file) = OpenOptions::new().append(true).open(&path) else { continue };
        if file.try_lock().is_ok() {
            let pruned = if is_extra { std::fs::remove_file(&path) } else { file.set_len(0) };
            if let Err(error) = pruned {
                tracing::warn!(%error, path = %path.display(), "cannot prune a log of calls");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CallFile, Origin, Program, ResumeError, Resumption, newest, path, prune};
    use crate::call_log::{CallAnswer, CallLog, LoggedCall};
    use coracle_types::{ExecutionId, Language};
    use serde_json::{Map, json};
    use std::io::Write;
    use std::path::Path;
    use std::sync::Arc;

    fn program(code: &str) -> Program {
        Program { language: Language::Bash, code: code.to_owned(), vars: Some(Map::new()), session: None }
    }

    fn call(number: u64) -> LoggedCall {
        LoggedCall { number, what: "bank.pay".to_owned(), digest: format!("{number:064x}"), is_repeatable: false }
    }

    fn id(number: u64) -> ExecutionId {
        ExecutionId::from_random(number)
    }

    /// The calls that the next attempt knows, and whether it knows all.
    fn known(folder: &Path, number: u64) -> (Vec<(u64, bool)>, bool) {
        let claimed = Resumption::open(folder.to_owned(), &id(number)).unwrap();
        let calls = claimed.calls.iter().map(|earlier| (earlier.call.number, earlier.answer.is_some()));
        let (missing, calls): (Vec<_>, Vec<_>) = calls.partition(|(number, _)| *number == 0);
        (calls, missing.is_empty())
    }

    async fn one_call(folder: &Path, number: u64) {
        let log = CallFile::new(folder.to_owned(), id(number), program("a"));
        log.began(&call(1)).await.unwrap();
        log.ended(&call(1), &CallAnswer::Answer(json!("x".repeat(1_000)))).await.unwrap();
        log.close();
    }

    #[tokio::test]
    async fn attempts_share_one_file_and_never_run_at_once() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("calls");
        let first = CallFile::new(folder.clone(), id(1), program("a"));
        assert!(!folder.exists(), "nothing was called");
        first.began(&call(1)).await.unwrap();
        assert!(first.has_effects());
        let open = |number| Resumption::open(folder.clone(), &id(number));
        assert!(matches!(open(1).unwrap_err(), ResumeError::Running(_)));
        assert!(matches!(open(2).unwrap_err(), ResumeError::NotKept(_)));
        first.ended(&call(1), &CallAnswer::Answer(json!(1))).await.unwrap();
        first.close();
        assert!(first.began(&call(2)).await.is_err(), "it has ended");

        let claimed = open(1).unwrap();
        assert_eq!(claimed.program, program("a"));
        let second = claimed.continue_as(&id(2), program("b")).unwrap();
        drop(claimed);
        for number in [1, 2] {
            assert!(matches!(open(number).unwrap_err(), ResumeError::Running(_)), "the second attempt runs");
        }
        second.began(&call(2)).await.unwrap();
        // The process dies.
        drop(second);
        assert!(newest(&folder).is_some_and(|newest| [id(1), id(2)].contains(&newest)));
        for number in [1, 2] {
            assert_eq!(open(number).unwrap().program, program("b"));
            assert_eq!(known(&folder, number), (vec![(1, true), (2, false)], true));
        }
    }

    #[tokio::test]
    async fn errors_are_made_again_unless_the_call_may_have_happened() {
        let home = tempfile::tempdir().unwrap();
        let log = CallFile::new(home.path().to_owned(), id(1), program("a"));
        let codes = ["tool_error", "refused", "timeout", "closed", "too_large", "may_have_happened"];
        for (number, code) in (1..).zip(codes) {
            let error = CallAnswer::Error { code: code.to_owned(), message: "no".to_owned(), retryable: false };
            log.began(&call(number)).await.unwrap();
            log.ended(&call(number), &error).await.unwrap();
        }
        let error = CallAnswer::Error { code: "timeout".to_owned(), message: "no".to_owned(), retryable: true };
        log.ended(&LoggedCall { is_repeatable: true, ..call(7) }, &error).await.unwrap();
        drop(log);
        assert_eq!(known(home.path(), 1), (vec![(3, false), (4, false), (5, true), (6, true)], true));
    }

    #[tokio::test]
    async fn a_file_of_which_the_end_may_be_missing_is_not_trusted() {
        let home = tempfile::tempdir().unwrap();
        one_call(home.path(), 1).await;
        assert_eq!(known(home.path(), 1), (vec![(1, true)], true));
        // A copy, as from a backup.
        std::fs::copy(path(home.path(), &id(1)), path(home.path(), &id(2))).unwrap();
        assert_eq!(known(home.path(), 2), (vec![(1, true)], false));
        // Written before the machine was restarted.
        let file = path(home.path(), &id(1));
        let text = std::fs::read_to_string(&file).unwrap();
        let boot = Origin::of(&std::fs::File::open(&file).unwrap()).unwrap().boot.unwrap();
        std::fs::write(&file, text.replace(&boot, "earlier")).unwrap();
        assert_eq!(known(home.path(), 1), (vec![(1, true)], false));
        std::fs::write(&file, &text).unwrap();
        assert!(known(home.path(), 1).1);
        // A line that is not complete, with another after it.
        std::fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(b"{\"call\":{").unwrap();
        assert_eq!(known(home.path(), 1), (vec![(1, true)], false));
        let claimed = Resumption::open(home.path().to_owned(), &id(1)).unwrap();
        let log = claimed.continue_as(&id(3), program("a")).unwrap();
        drop(claimed);
        log.began(&call(2)).await.unwrap();
        drop(log);
        assert_eq!(known(home.path(), 3), (vec![(1, true), (2, false)], false));
    }

    #[tokio::test]
    async fn old_files_are_emptied_and_deleted_unless_they_are_in_use() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path();
        for number in 1..=6 {
            one_call(folder, number).await;
            let age = std::time::Duration::from_secs(100 - number);
            let file = std::fs::File::options().append(true).open(path(folder, &id(number))).unwrap();
            file.set_modified(std::time::SystemTime::now() - age).unwrap();
        }
        let in_use = Resumption::open(folder.to_owned(), &id(1)).unwrap();
        let length = path(folder, &id(6)).metadata().unwrap().len();
        prune(folder, 4, 2 * length + 1);
        let kept = |number: u64| match Resumption::open(folder.to_owned(), &id(number)) {
            Ok(_) | Err(ResumeError::Running(_)) => "kept",
            Err(_) if path(folder, &id(number)).exists() => "emptied",
            Err(_) => "deleted",
        };
        assert_eq!((1..=6).map(kept).collect::<Vec<_>>(), ["kept", "deleted", "emptied", "emptied", "kept", "kept"]);
        drop(in_use);
        prune(folder, 4, 2 * length + 1);
        assert!(!path(folder, &id(1)).exists());
    }

    /// `/dev/full` is a disk without room.
    #[test]
    fn a_log_that_cannot_be_begun_is_an_error() {
        let full = std::fs::File::options().append(true).open("/dev/full").unwrap();
        let error = super::begin(full, &program("a")).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        let null = std::fs::File::options().append(true).open("/dev/null").unwrap();
        super::begin(null, &program("a")).unwrap();
    }

    #[tokio::test]
    async fn calls_at_once_are_all_kept() {
        let home = tempfile::tempdir().unwrap();
        let log = Arc::new(CallFile::new(home.path().join("calls"), id(1), program("a")));
        let tasks = (1..=50).map(|number| {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                log.began(&call(number)).await.unwrap();
                log.ended(&call(number), &CallAnswer::Answer(number.into())).await.unwrap();
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        drop(log);
        assert_eq!(known(&home.path().join("calls"), 1), ((1..=50).map(|number| (number, true)).collect(), true));
    }
}
