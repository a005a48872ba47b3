//! The vault of one user: replaces personal data by tokens, and tokens by what they stand for.

use crate::cache::{Cache, Entry, Found, MAX_VALUES};
use crate::item::{Item, look, replace};
use crate::recent::Recent;
use crate::replaced::Replaced;
use crate::restoring::{Restoring, Tokens};
use crate::token::Minter;
use crate::tokenizing::{Detecting, Tokenizing};
use crate::{Detector, PrivacyError};
use coracle_store::{MAX_VAULT_VALUE_BYTES, Store, VaultValue};
use coracle_types::{Secret, UserId};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use zeroize::Zeroizing;

/// The maximum number of tokens in one request that are looked up in the store. Further ones stay as they are.
const MAX_LOOKUPS: usize = 10_000;

/// How long a vault that another process has deleted may still be used.
const TRUSTED: Duration = Duration::from_mins(1);

const DAY: u64 = 86_400;

/// The vault of one user. What has been found once in this process is found again wherever it is.
pub struct UserVault {
    user: UserId,
    store: Arc<dyn Store>,
    detector: Arc<Detector>,
    /// How long values are kept after their last use.
    keep: Option<Duration>,
    key: Zeroizing<[u8; 32]>,
    /// When it was last compared with the store.
    checked: Mutex<Instant>,
    cache: Mutex<Cache>,
    /// The texts that were examined last.
    recent: Recent,
}

impl fmt::Debug for UserVault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserVault").field("user", &self.user).finish_non_exhaustive()
    }
}

impl UserVault {
    pub(crate) async fn open(
        user: UserId,
        store: Arc<dyn Store>,
        detector: Arc<Detector>,
        keep: Option<Duration>,
    ) -> Result<Self, PrivacyError> {
        let key = store.token_key(&user).await?;
        let mut cache = Cache::new(Minter::new(&key));
        let mut recent = store.recent_values(&user, MAX_VALUES / 2).await?;
        // The oldest first, because they are the first to leave the memory.
        recent.reverse();
        cache.load(recent, |value| day(value.last_used))?;
        let (checked, cache, recent) = (Mutex::new(Instant::now()), Mutex::new(cache), Recent::default());
        Ok(Self { user, store, detector, keep, key, checked, cache, recent })
    }

    /// Whether it is still the vault of the user: another process may have deleted it. Asks the store from time to time.
    pub(crate) async fn is_current(&self) -> Result<bool, PrivacyError> {
        {
            let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
            if checked.elapsed() < TRUSTED {
                return Ok(true);
            }
            *checked = Instant::now();
        }
        Ok(*self.store.token_key(&self.user).await? == *self.key)
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces personal data by tokens. They are durable when this returns. After an error, the items must not be used.
    pub async fn tokenize(&self, items: &mut [Item<'_>]) -> Result<Replaced, PrivacyError> {
        let mut detecting = Detecting::new(&self.detector, &self.recent);
        look(items, &mut detecting);
        let tokens = self.look_up(detecting.take_tokens()).await?;
        let (used, replaced) = {
            let known = {
                let mut cache = self.cache();
                cache.learn(detecting.found())?;
                cache.known.clone()
            };
            let mut tokenizing = Tokenizing::new(detecting, &tokens, &known, |found| self.cache().token(found));
            replace(items, &mut tokenizing)?;
            tokenizing.finish()
        };
        self.keep_used(used).await?;
        Ok(replaced)
    }

    /// Remembers the personal data in JSON that code is going to see, so that it is found later in what the code writes.
    pub fn learn(&self, value: &Value) -> Result<(), PrivacyError> {
        let mut detecting = Detecting::new(&self.detector, &self.recent);
        crate::item::look_at(value, None, &mut detecting);
        self.cache().learn(detecting.found())
    }

    /// The same, and returns the tokens of what was found.
    pub fn learn_tokens(&self, value: &Value) -> Result<BTreeSet<String>, PrivacyError> {
        let mut detecting = Detecting::new(&self.detector, &self.recent);
        crate::item::look_at(value, None, &mut detecting);
        let mut cache = self.cache();
        let found = detecting.found();
        let tokens = found.iter().map(|found| cache.token(found).to_string()).collect();
        cache.learn(found)?;
        Ok(tokens)
    }

    /// The tokens of the personal data in JSON: of values that the detector finds or that are known, and tokens of this
    /// vault. Nothing is kept.
    pub async fn tokens_of(&self, value: &Value) -> Result<BTreeSet<String>, PrivacyError> {
        let mut copy = value.clone();
        let mut items = [Item::Json(&mut copy)];
        let mut detecting = Detecting::new(&self.detector, &self.recent);
        look(&items, &mut detecting);
        let tokens = self.look_up(detecting.take_tokens()).await?;
        let known = self.cache().known.clone();
        let mut tokenizing = Tokenizing::new(detecting, &tokens, &known, |found| self.cache().token(found));
        replace(&mut items, &mut tokenizing)?;
        let (used, _) = tokenizing.finish();
        Ok(used.into_keys().map(|token| token.to_string()).chain(tokens.into_keys()).collect())
    }

    /// Replaces tokens of this vault by what they stand for. Everything else stays as it is.
    pub async fn restore(&self, items: &mut [Item<'_>]) -> Result<Replaced, PrivacyError> {
        let mut spotting = Tokens::default();
        look(items, &mut spotting);
        let tokens = self.look_up(spotting.found).await?;
        if tokens.is_empty() {
            return Ok(Replaced::default());
        }
        let mut restoring = Restoring::new(&tokens);
        replace(items, &mut restoring)?;
        Ok(restoring.replaced)
    }

    /// What those of these tokens stand for that are in the vault.
    async fn look_up(&self, tokens: BTreeSet<String>) -> Result<HashMap<String, Entry>, PrivacyError> {
        let oldest = self.keep.map_or(0, |keep| today().saturating_sub(keep.as_secs() / DAY));
        let is_current = |entry: &Entry| entry.kept.is_none_or(|day| day >= oldest);
        let mut found = HashMap::new();
        let mut unknown = Vec::new();
        {
            let cache = self.cache();
            for token in tokens {
                match cache.get(&token) {
                    Some(entry) if is_current(entry) => drop(found.insert(token, entry.clone())),
                    Some(_) => {}
                    None => unknown.push(token),
                }
            }
        }
        unknown.truncate(MAX_LOOKUPS);
        if unknown.is_empty() {
            return Ok(found);
        }
        let values = self.store.values(&self.user, &unknown).await?;
        let mut cache = self.cache();
        cache.load(values.clone(), |value| day(value.last_used))?;
        for value in values {
            let kept = Some(day(value.last_used));
            let entry = Entry { value: value.value.expose().into(), is_number: value.is_number, kept };
            if is_current(&entry) {
                found.insert(value.token, entry);
            }
        }
        Ok(found)
    }

    /// Makes tokens durable that are going to leave this process.
    async fn keep_used(&self, used: BTreeMap<Arc<str>, Found>) -> Result<(), PrivacyError> {
        let (today, now) = (today(), SystemTime::now());
        if let Some(long) = used.values().find(|found| found.value.len() > MAX_VAULT_VALUE_BYTES) {
            return Err(PrivacyError::TooLong { bytes: long.value.len(), max: MAX_VAULT_VALUE_BYTES });
        }
        let due = |cache: &Cache| -> Vec<VaultValue> {
            let is_due = |token: &str| cache.get(token).is_none_or(|entry| entry.kept != Some(today));
            let due = used.iter().filter(|(token, _)| is_due(token));
            due.map(|(token, found)| VaultValue {
                token: token.to_string(),
                value: Secret::new(&*found.value),
                is_number: found.is_number,
                last_used: now,
            })
            .collect()
        };
        let mut values = due(&self.cache());
        if values.is_empty() {
            return Ok(());
        }
        if !self.store.put_values(&self.user, &values).await? {
            // The vault was deleted since it was opened: there is another one from now on.
            self.store.token_key(&self.user).await?;
            self.cache().none_kept();
            values = due(&self.cache());
            self.store.put_values(&self.user, &values).await?;
        }
        let mut cache = self.cache();
        cache.learn(used.into_values())?;
        cache.kept(&values, today);
        Ok(())
    }

    /// Replaces personal data in one text.
    pub async fn tokenize_text(&self, text: &mut String) -> Result<Replaced, PrivacyError> {
        self.tokenize(&mut [Item::Text(text)]).await
    }

    /// Replaces personal data in JSON.
    pub async fn tokenize_json(&self, value: &mut Value) -> Result<Replaced, PrivacyError> {
        self.tokenize(&mut [Item::Json(value)]).await
    }

    /// Restores the tokens in one text.
    pub async fn restore_text(&self, text: &mut String) -> Result<Replaced, PrivacyError> {
        self.restore(&mut [Item::Text(text)]).await
    }

    /// Restores the tokens in JSON.
    pub async fn restore_json(&self, value: &mut Value) -> Result<Replaced, PrivacyError> {
        self.restore(&mut [Item::Json(value)]).await
    }
}

fn day(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / DAY)
}

/// The number of days since 1970.
pub(crate) fn today() -> u64 {
    day(SystemTime::now())
}
