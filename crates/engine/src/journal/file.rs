//! The copy of the log in the workspace: `sessions/session_NNN.json` and `sessions/current_session.json`.
//!
//! Trust boundary: the workspace is hostile. No link in it is followed, and what code wrote there is never read back.

use coracle_store::{Checkpoint, SessionRecord, Store, StoreError, TaskRecord, TaskState};
use coracle_types::{SessionId, UserId};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::SystemTime;

/// Folder of the copies, in the workspace.
const FOLDER: &str = "sessions";
const CURRENT: &str = "current_session.json";
/// Folder in which code keeps files that should outlive a session, in the workspace.
const STATE: &str = "state";

/// Maximum number of tasks that the copy lists, and number of tasks that are read at once.
const MAX_TASKS: usize = 100;
const PAGE: usize = 20;
/// Maximum size of the tasks in the copy; if there is more, older tasks are shortened.
const MAX_BYTES: usize = 256 << 10;
/// Maximum length of the code, and of the description, of a shortened task.
const SHORT: usize = 200;
/// Maximum number of state files in the copy.
const MAX_STATE_FILES: usize = 500;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// The tasks of a session in the form of the copy, the oldest first. Kept as long as the interpreter: tasks that have
/// ended do not change, so each is read and formatted once.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    lines: VecDeque<Line>,
    /// The last checkpoint, if it was read and there is one.
    checkpoint: Option<Checkpoint>,
    looked: bool,
}

#[derive(Debug)]
struct Line {
    number: u64,
    state: TaskState,
    /// The whole task, until newer ones need the space.
    whole: Option<Box<RawValue>>,
    short: Box<RawValue>,
}

impl Line {
    fn new(task: &TaskRecord) -> Self {
        let text = |value: &Value| to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self { number: task.number, state: task.state, whole: Some(text(&entry(task))), short: text(&shortened(task)) }
    }

    fn text(&self) -> &RawValue {
        self.whole.as_ref().unwrap_or(&self.short)
    }

    fn bytes(&self) -> usize {
        self.whole.as_ref().map_or(0, |whole| whole.get().len())
    }
}

impl Shown {
    /// Adds a task that has ended, if it follows the last known one.
    pub(crate) fn add(&mut self, task: &TaskRecord) -> bool {
        let follows = self.lines.back().is_some_and(|last| last.number + 1 == task.number);
        if follows && self.looked {
            self.lines.push_back(Line::new(task));
            self.make_room();
            return true;
        }
        false
    }

    /// Reads the tasks that are new.
    async fn catch_up(&mut self, store: &dyn Store, user: &UserId, session: &SessionRecord) -> Result<(), StoreError> {
        let known = self.lines.back().map_or(0, |line| line.number);
        let mut missing = usize::try_from(session.tasks.saturating_sub(known)).unwrap_or(MAX_TASKS).min(MAX_TASKS);
        let (mut news, mut bytes, mut before) = (VecDeque::new(), 0, None);
        // Stops when the copy is full.
        while missing > 0 && bytes < MAX_BYTES {
            let page = store.tasks(user, &session.id, missing.min(PAGE), before).await?;
            let Some(oldest) = page.last() else { break };
            (before, missing) = (Some(oldest.number), missing.saturating_sub(page.len()));
            for task in page.iter().take_while(|task| task.number > known) {
                let line = Line::new(task);
                bytes += line.bytes();
                news.push_front(line);
            }
        }
        if missing > 0 {
            // There is a gap between the known tasks and the new ones, so the known ones are dropped: the copy has no gaps.
            self.lines.clear();
        }
        self.lines.append(&mut news);
        self.make_room();
        Ok(())
    }

    /// Shortens or drops the oldest tasks.
    fn make_room(&mut self) {
        self.lines.drain(..self.lines.len().saturating_sub(MAX_TASKS));
        let mut bytes = 0;
        for line in self.lines.iter_mut().rev() {
            bytes += line.bytes();
            if bytes > MAX_BYTES {
                line.whole = None;
            }
        }
    }

    /// Forgets tasks that may still change, because other processes may use the session too.
    fn forget_unfinished(&mut self) {
        let over = self.lines.iter().take_while(|line| line.state != TaskState::Running).count();
        self.lines.truncate(over);
    }
}

/// A session, ready to be written.
#[derive(Debug)]
pub(crate) struct Copy {
    user: UserId,
    session: SessionRecord,
    tasks: Shown,
}

/// Content of the copy.
#[derive(Serialize)]
struct Written<'a> {
    session_id: &'a SessionId,
    label: Option<&'a str>,
    customer_uid: &'a UserId,
    started_at: String,
    ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    tasks: Vec<&'a RawValue>,
    state_files: &'a [String],
    checkpoint: Option<Value>,
}

impl Copy {
    /// Reads a session, of whose tasks some are known.
    pub(crate) async fn of(
        store: &dyn Store,
        user: &UserId,
        session: &SessionId,
        mut tasks: Shown,
    ) -> Result<Option<Self>, StoreError> {
        let Some(session) = store.session(user, session).await? else { return Ok(None) };
        tasks.catch_up(store, user, &session).await?;
        tasks.checkpoint = store.last_checkpoint(user, &session.id).await?;
        tasks.looked = true;
        Ok(Some(Self::known(user, session, tasks)))
    }

    /// The copy of a session whose tasks are all known.
    pub(crate) fn known(user: &UserId, session: SessionRecord, tasks: Shown) -> Self {
        Self { user: user.clone(), session, tasks }
    }

    /// The session ID.
    pub(crate) fn session(&self) -> &SessionId {
        &self.session.id
    }

    /// The tasks that are known from now on.
    pub(crate) fn into_shown(mut self) -> Shown {
        self.tasks.forget_unfinished();
        self.tasks
    }

    /// Serializes the copy.
    fn text(&self, state_files: &[String]) -> io::Result<Vec<u8>> {
        let (session, tasks) = (&self.session, &self.tasks.lines);
        let dropped = session.tasks.saturating_sub(tasks.len() as u64);
        let note = format!("{dropped} older tasks are not listed here: coracle sessions export has them");
        let written = Written {
            session_id: &session.id,
            label: session.label.as_deref(),
            customer_uid: &self.user,
            started_at: stamp(session.started_at),
            ended_at: session.ended_at.map(stamp),
            note: (dropped > 0).then_some(note),
            tasks: tasks.iter().map(Line::text).collect(),
            state_files,
            checkpoint: self.tasks.checkpoint.as_ref().map(checkpoint),
        };
        serde_json::to_vec_pretty(&written).map_err(io::Error::other)
    }

    /// Writes the copy into the workspace. Readers see the old or the new one.
    pub(crate) fn write(&self, workspace: &Path) -> io::Result<()> {
        let root = rustix::fs::open(workspace, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let text = self.text(&state_files_in(root.as_fd()))?;
        let owner = rustix::fs::fstat(&root)?;
        let (uid, gid) = (rustix::process::Uid::from_raw(owner.st_uid), rustix::process::Gid::from_raw(owner.st_gid));
        // Sandboxed code runs as the owner of the workspace, and cannot read files of others.
        let is_root = rustix::process::geteuid().is_root();
        let give = |file: &OwnedFd| if is_root { rustix::fs::fchown(file, Some(uid), Some(gid)) } else { Ok(()) };
        let made = match rustix::fs::mkdirat(&root, FOLDER, Mode::RWXU) {
            Ok(()) => true,
            Err(rustix::io::Errno::EXIST) => false,
            Err(errno) => return Err(errno.into()),
        };
        let folder = rustix::fs::openat2(&root, FOLDER, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), BENEATH)?;
        if made {
            give(&folder)?;
        }
        let number = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
        let names = [format!("session_{:03}.json", self.session.number), CURRENT.to_owned()];
        for (index, name) in names.iter().enumerate() {
            let fresh = format!(".session-{number:016x}-{index}");
            let written = (|| -> io::Result<()> {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                let file = rustix::fs::openat2(&folder, &fresh, flags, Mode::RUSR | Mode::WUSR, BENEATH)?;
                give(&file)?;
                std::fs::File::from(file).write_all(&text)?;
                Ok(rustix::fs::renameat(&folder, &fresh, &folder, name)?)
            })();
            if let Err(error) = written {
                let _ = rustix::fs::unlinkat(&folder, &fresh, AtFlags::empty());
                return Err(error);
            }
        }
        Ok(())
    }
}

/// A task in the form of the log.
pub(crate) fn entry(task: &TaskRecord) -> Value {
    let field = |name: &str| task.outcome.as_ref().and_then(|outcome| outcome.get(name)).cloned().unwrap_or_default();
    let lines = |text: Value| text.as_str().map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let mut entry = json!({
        "task_id": task_id(task.number),
        "description": task.begun.description,
        "language": task.begun.language,
        "code": task.begun.code,
        "state": task.state,
        "result": field("result"),
        "output": lines(field("stdout")).unwrap_or_default(),
        "calls": if field("calls").is_null() { json!([]) } else { field("calls") },
        "timestamp": stamp(task.begun.started_at),
    });
    for name in ["error", "error_code"] {
        if !field(name).is_null() {
            entry[name] = field(name);
        }
    }
    if task.state == TaskState::Interrupted {
        entry["error"] = "it was interrupted: how far it came is unknown".into();
    }
    entry
}

/// An old task, shortened.
fn shortened(task: &TaskRecord) -> Value {
    let head = |text: &str| super::head(text, SHORT).to_owned();
    json!({
        "task_id": task_id(task.number),
        "description": task.begun.description.as_deref().map(head),
        "language": task.begun.language,
        "code": format!("{}…", head(&task.begun.code)),
        "state": task.state,
        "result": null,
        "output": [],
        "calls": [],
        "timestamp": stamp(task.begun.started_at),
        "note": "shortened: coracle sessions export has all of it",
    })
}

/// A checkpoint in the form of the log.
pub(crate) fn checkpoint(checkpoint: &Checkpoint) -> Value {
    json!({
        "step": checkpoint.step,
        "last_task": task_id(checkpoint.last_task),
        "context": checkpoint.context,
        "timestamp": stamp(checkpoint.made_at),
    })
}

fn task_id(number: u64) -> String {
    format!("task_{number:03}")
}

/// A time in RFC 3339.
pub(crate) fn stamp(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// The files in `state/`, by their paths in the workspace.
pub(crate) fn state_files(workspace: &Path) -> Vec<String> {
    match rustix::fs::open(workspace, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(root) => state_files_in(root.as_fd()),
        Err(_) => Vec::new(),
    }
}

fn state_files_in(root: impl AsFd) -> Vec<String> {
    let opened = rustix::fs::openat2(root, STATE, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), BENEATH);
    let Ok(entries) = opened.and_then(Dir::new) else { return Vec::new() };
    let files = entries.flatten().filter(|entry| entry.file_type() == FileType::RegularFile);
    let names = files.filter_map(|entry| entry.file_name().to_str().ok().map(|name| format!("{STATE}/{name}")));
    let mut names: Vec<String> = names.take(MAX_STATE_FILES).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::{Copy, MAX_BYTES, PAGE, Shown};
    use coracle_store::{Journal, MemoryStore, NewTask, TaskEnd, TaskState};
    use coracle_types::{ExecutionId, Language, SessionId, UserId};
    use serde_json::Value;
    use std::time::SystemTime;

    async fn run(store: &MemoryStore, user: &UserId, session: &SessionId, code: String) {
        let now = SystemTime::now();
        let (execution_id, language) = (ExecutionId::from_random(fastrand::u64(..)), Language::Python);
        let task = NewTask { execution_id, description: None, language, code, vars: None, started_at: now };
        let number = store.begin_task(user, session, &task).await.unwrap();
        let end = TaskEnd { ended_at: now, state: TaskState::Done, outcome: Value::Null, recording: None };
        store.finish_task(user, session, number, &end).await.unwrap();
    }

    #[tokio::test]
    async fn what_others_added_leaves_no_gap() {
        let (store, user) = (MemoryStore::new(), UserId::new("ada").unwrap());
        let session = store.open_session(&user, &SessionId::from_random(1), None, SystemTime::now()).await.unwrap().id;
        let numbers = async |shown: Shown| {
            let shown = Copy::of(&store, &user, &session, shown).await.unwrap().unwrap().into_shown();
            let numbers: Vec<u64> = shown.lines.iter().map(|line| line.number).collect();
            (shown, numbers)
        };
        for _ in 0..3 {
            run(&store, &user, &session, "pass".to_owned()).await;
        }
        let (shown, known) = numbers(Shown::default()).await;
        assert_eq!(known, [1, 2, 3]);
        // A small task after the known ones.
        run(&store, &user, &session, "pass".to_owned()).await;
        let (shown, known) = numbers(shown).await;
        assert_eq!(known, [1, 2, 3, 4]);
        // More large tasks than are read.
        for _ in 0..PAGE + 5 {
            run(&store, &user, &session, "x".repeat(MAX_BYTES / 10)).await;
        }
        let (_, known) = numbers(shown).await;
        let newest = 4 + PAGE as u64 + 5;
        assert_eq!(known, (newest + 1 - PAGE as u64..=newest).collect::<Vec<_>>());
    }
}
