use crate::anchor::StoreSource;
use crate::entry::{Entry, Event};
use crate::folder::Folder;
use crate::keys::{Keys, PURPOSE};
use crate::outbox::Outbox;
use crate::patience::{PATIENCE, PAUSE, retried};
use crate::read::{self, Filter};
use crate::record::Record;
use crate::syncing::{Syncing, Unsynced};
use crate::verify::{self, Report};
use crate::writer::{Bounds, Writer};
use crate::{AuditError, AuditLog, Digest, Mark};
use async_trait::async_trait;
use coracle_store::{Home, KeySource};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Time after which records are synced that nobody waits for.
const INTERVAL: Duration = Duration::from_secs(1);
/// Default length of a segment. Backups leave out encrypted files of more than 16 MiB.
const SEGMENT_BYTES: u64 = 8 << 20;

/// When an appended record is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When `append` returns, the operating system has the record: it survives the end of the process. A second later it
    /// is on the disk, and survives the end of the machine.
    #[default]
    Interval,
    /// When `append` returns, the record is on the disk.
    Always,
}

/// Configuration of a [`FileLog`].
#[derive(Debug)]
pub struct FileLogConfig {
    /// The data folder.
    pub home: Home,
    /// The master key.
    pub key: KeySource,
    /// The store that remembers the log.
    pub store: StoreSource,
    /// When a record is durable.
    pub durability: Durability,
    /// Length at which a new segment begins.
    pub segment_bytes: u64,
    /// How long records are kept at least. `None` keeps them all.
    pub keep: Option<Duration>,
}

impl FileLogConfig {
    /// The log of a data folder, with defaults for everything else.
    pub fn new(home: Home, store: impl Into<StoreSource>) -> Self {
        Self {
            home,
            key: KeySource::File,
            store: store.into(),
            durability: Durability::default(),
            segment_bytes: SEGMENT_BYTES,
            keep: None,
        }
    }
}

/// The log of a data folder, in files. Cheap to clone. Nothing is read or created before the first record.
#[derive(Clone, Debug)]
pub struct FileLog {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    config: FileLogConfig,
    folder: Folder,
    keys: OnceLock<Arc<Keys>>,
    state: Mutex<State>,
    syncing: Syncing,
    /// Held while the log is created.
    creating: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Opened again after each error.
    writer: Option<Writer>,
    outbox: Outbox,
    /// Number of the last record that this process has written.
    last_written: u64,
}

impl FileLog {
    /// The log of a data folder.
    pub fn new(config: FileLogConfig) -> Self {
        let folder = Folder::new(config.home.root());
        let (keys, state, syncing) = (OnceLock::new(), Mutex::default(), Syncing::default());
        let creating = tokio::sync::Mutex::default();
        Self { shared: Arc::new(Shared { config, folder, keys, state, syncing, creating }) }
    }

    /// The folder of the log.
    pub fn folder(&self) -> &Path {
        self.shared.folder.path()
    }

    /// Checks that the log can be appended to, and creates it if there is none.
    pub async fn ready(&self) -> Result<(), AuditError> {
        self.write(Vec::new()).await.map(|_| ())
    }

    /// The position of the last record. `None` if there is no log yet.
    pub async fn head(&self) -> Result<Option<Mark>, AuditError> {
        let keys = self.keys().await?;
        match self.locked(|state| state.mark(&self.shared, &keys)).await {
            Ok(mark) => Ok(Some(mark)),
            Err(AuditError::NotCreated { folder }) => match self.shared.config.store.last().await? {
                None => Ok(None),
                Some(mark) => Err(AuditError::Missing { folder, records: mark.seq }),
            },
            Err(error) => Err(error),
        }
    }

    /// Has the store remember where the log ends, so that it is noticed if the log is missing later or ends earlier.
    /// To be called from time to time, and before the process ends.
    pub async fn anchor(&self) -> Result<(), AuditError> {
        self.flush();
        if let Some(mark) = self.head().await? {
            self.sync().await;
            self.shared.config.store.remember(mark).await?;
        }
        Ok(())
    }

    /// Checks every record, and that the log reaches as far as the head, the store and `expected` say.
    pub async fn verify(&self, expected: &[Mark]) -> Result<Report, AuditError> {
        let remembered = self.shared.config.store.last().await?;
        let (keys, folder) = (self.keys().await?, self.shared.folder.clone());
        let expected = expected.to_vec();
        blocking(&self.shared.folder, move || verify::verify(&folder, &keys, remembered, &expected)).await
    }

    /// The last records that match, in order.
    pub async fn last_records(&self, filter: Filter, limit: usize) -> Result<Vec<Record>, AuditError> {
        let folder = self.shared.folder.clone();
        blocking(&self.shared.folder, move || read::last(&folder, &filter, limit)).await
    }

    /// Passes the lines of all records that match to `line`, in order.
    pub async fn each_line(
        &self,
        filter: Filter,
        line: impl FnMut(&[u8]) -> std::io::Result<()> + Send + 'static,
    ) -> Result<(), AuditError> {
        let folder = self.shared.folder.clone();
        blocking(&self.shared.folder, move || read::each(&folder, &filter, line)).await
    }

    /// Sets the log aside, whatever its state, and begins a new one. Returns where the old one is, if there was one.
    pub async fn restart(&self) -> Result<Option<PathBuf>, AuditError> {
        let key = self.shared.config.store.store().await?.derived_key(PURPOSE).await?;
        let (keys, folder) = (Keys::new(&key), self.shared.folder.clone());
        let after = self.shared.config.store.last().await?.map(|mark| mark.to_string());
        let first = Entry::of_operator(Event::LogRestarted { key: keys.id.clone(), after });
        *self.shared.state() = State::default();
        let aside = blocking(&self.shared.folder, move || {
            let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
            let aside = folder.aside(&format!("set-aside-{time}"));
            let moved = match std::fs::rename(folder.path(), &aside) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                moved => moved.map(|()| Some(aside)).map_err(folder.written())?,
            };
            Writer::create(&folder, &keys, &first)?;
            Ok(moved)
        })
        .await?;
        if let Some(mark) = self.head().await? {
            self.shared.config.store.replace(mark).await?;
        }
        Ok(aside)
    }

    /// Writes entries that could not be written before, if that is possible now.
    pub fn flush(&self) {
        let Some(keys) = self.shared.keys.get() else { return };
        let written = {
            let mut state = self.shared.state();
            if state.outbox.is_empty() {
                return;
            }
            state.append(&self.shared, keys, Vec::new())
        };
        match written {
            Ok(_) => self.shared.syncing.request(&self.shared, self.shared.pause()),
            Err(error) => tracing::debug!(%error, "records of the audit log still wait to be written"),
        }
    }

    /// Syncs all records to the disk.
    pub async fn sync(&self) {
        let shared = Arc::clone(&self.shared);
        if tokio::task::spawn_blocking(move || shared.sync()).await.is_err() {
            tracing::error!("cannot sync the audit log");
        }
    }

    async fn keys(&self) -> Result<Arc<Keys>, AuditError> {
        if let Some(keys) = self.shared.keys.get() {
            return Ok(Arc::clone(keys));
        }
        let config = &self.shared.config;
        // The store runs a command without blocking.
        let is_command = matches!(config.key, KeySource::Command(_));
        let at_hand = if is_command { None } else { config.home.derived_key(&config.key, PURPOSE)? };
        let key = match at_hand {
            Some(key) => key,
            None => config.store.store().await?.derived_key(PURPOSE).await?,
        };
        Ok(Arc::clone(self.shared.keys.get_or_init(|| Arc::new(Keys::new(&key)))))
    }

    async fn write(&self, entries: Vec<(SystemTime, Entry)>) -> Result<Mark, AuditError> {
        let keys = self.keys().await?;
        let mut written = self.append_locked(&keys, &entries).await;
        if let Err(AuditError::NotCreated { .. }) = written {
            self.create(&keys).await?;
            written = self.append_locked(&keys, &entries).await;
        }
        let mark = written?;
        self.shared.syncing.request(&self.shared, self.shared.pause());
        if self.shared.config.durability == Durability::Always {
            self.on_disk(mark).await?;
        }
        Ok(mark)
    }

    async fn append_locked(&self, keys: &Arc<Keys>, entries: &[(SystemTime, Entry)]) -> Result<Mark, AuditError> {
        let entries = entries.to_vec();
        self.locked(|state| state.append(&self.shared, keys, entries.clone())).await
    }

    /// Does something for which the lock is needed, at once if possible.
    async fn locked<T>(&self, mut act: impl FnMut(&mut State) -> Result<T, AuditError>) -> Result<T, AuditError> {
        let begun = Instant::now();
        loop {
            let done = act(&mut self.shared.state());
            match done {
                Err(AuditError::Locked { .. }) if begun.elapsed() < PATIENCE => tokio::time::sleep(PAUSE).await,
                done => return done,
            }
        }
    }

    async fn create(&self, keys: &Arc<Keys>) -> Result<(), AuditError> {
        let folder = self.shared.folder.clone();
        let _alone = self.shared.creating.lock().await;
        let remembered = self.shared.config.store.last().await?;
        // Another task or process may have created it since.
        if folder.head().symlink_metadata().is_ok() {
            return Ok(());
        }
        if let Some(mark) = remembered {
            return Err(AuditError::Missing { folder: folder.path().to_owned(), records: mark.seq });
        }
        let keys = Arc::clone(keys);
        let first = Entry::of_operator(Event::LogCreated { key: keys.id.clone() });
        blocking(&self.shared.folder, move || Writer::create(&folder, &keys, &first)).await?;
        if let Some(mark) = self.head().await? {
            self.shared.config.store.remember(mark).await?;
        }
        Ok(())
    }

    /// Waits until a record is on the disk.
    async fn on_disk(&self, mark: Mark) -> Result<(), AuditError> {
        let mut progress = self.shared.syncing.progress();
        let reached = progress
            .wait_for(|progress| {
                progress.synced >= mark.seq || progress.failed.as_ref().is_some_and(|(through, _)| *through >= mark.seq)
            })
            .await;
        let error = match reached {
            Ok(progress) if progress.synced >= mark.seq => return Ok(()),
            Ok(progress) => progress.failed.as_ref().map(|(_, why)| why.clone()).unwrap_or_default(),
            Err(_) => "the program ends".to_owned(),
        };
        Err(self.shared.folder.written()(std::io::Error::other(error)))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time until records are synced.
    fn pause(&self) -> Duration {
        match self.config.durability {
            Durability::Interval => INTERVAL,
            Durability::Always => Duration::ZERO,
        }
    }
}

impl Unsynced for Shared {
    fn sync(&self) {
        let failed = |error: &dyn std::fmt::Display| {
            tracing::error!(%error, "the audit log cannot be synced");
            let mut state = self.state();
            // What is on the disk is unknown: the next attempt begins with another look at the files.
            state.writer = None;
            let (through, why) = (state.last_written, error.to_string());
            self.syncing.report(|progress| progress.failed = Some((through, why)));
        };
        let Some(keys) = self.keys.get() else { return };
        let begun = Instant::now();
        let files = retried(begun, || self.state().writer(self, keys).map(|writer| writer.files()));
        let (segment, head_file, head) = match files {
            Ok(files) => files,
            Err(error) => return failed(&error),
        };
        if let Err(error) = segment.sync_data() {
            return failed(&error);
        }
        let noted = retried(begun, || self.state().writer.as_mut().map_or(Ok(()), |writer| writer.synced(&head)));
        if let Err(error) = noted {
            return failed(&error);
        }
        self.syncing.report(|progress| progress.synced = progress.synced.max(head.written.seq));
        if let Err(error) = head_file.sync_data() {
            tracing::warn!(%error, "the head of the audit log cannot be synced");
        }
    }
}

impl State {
    fn writer(&mut self, shared: &Shared, keys: &Arc<Keys>) -> Result<&mut Writer, AuditError> {
        if self.writer.is_none() {
            let bounds = Bounds { segment_bytes: shared.config.segment_bytes, keep: shared.config.keep };
            self.writer = Some(Writer::open(shared.folder.clone(), Arc::clone(keys), bounds)?);
        }
        self.writer.as_mut().ok_or_else(|| AuditError::NotCreated { folder: shared.folder.path().to_owned() })
    }

    fn mark(&mut self, shared: &Shared, keys: &Arc<Keys>) -> Result<Mark, AuditError> {
        let mark = self.writer(shared, keys)?.mark();
        self.keep_if_usable(mark)
    }

    /// Appends what waits, and these entries.
    fn append(
        &mut self,
        shared: &Shared,
        keys: &Arc<Keys>,
        entries: Vec<(SystemTime, Entry)>,
    ) -> Result<Mark, AuditError> {
        let mut all = self.outbox.entries();
        all.extend(entries);
        let writer = self.writer(shared, keys)?;
        let appended = writer.append(&all);
        let mark = self.keep_if_usable(appended)?;
        self.outbox.written();
        self.last_written = mark.seq;
        Ok(mark)
    }

    fn keep_if_usable<T>(&mut self, outcome: Result<T, AuditError>) -> Result<T, AuditError> {
        if outcome.as_ref().is_err_and(|error| !matches!(error, AuditError::Locked { .. })) {
            self.writer = None;
        }
        outcome
    }
}

async fn blocking<T: Send + 'static>(
    folder: &Folder,
    work: impl FnOnce() -> Result<T, AuditError> + Send + 'static,
) -> Result<T, AuditError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(folder.read()(std::io::Error::other(error))))
}

#[async_trait]
impl AuditLog for FileLog {
    async fn append(&self, mut entry: Entry) -> Result<(), AuditError> {
        entry.event.bound();
        self.write(vec![(SystemTime::now(), entry)]).await.map(|_| ())
    }

    fn append_later(&self, mut entry: Entry) {
        entry.event.bound();
        self.shared.state().outbox.push(entry);
        self.flush();
    }

    async fn digest(&self, content: &[u8]) -> Result<Digest, AuditError> {
        Ok(self.keys().await?.digest(content))
    }
}
