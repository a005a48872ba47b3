//! The values of one user that are held in memory, so that known values cost no query.

use crate::PrivacyError;
use crate::known::{Known, KnownValue};
use crate::token::{Minter, label};
use coracle_store::VaultValue;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The maximum number of values in memory, for each user.
pub(crate) const MAX_VALUES: usize = 20_000;
/// The maximum size of the values in memory, in bytes, for each user.
const MAX_BYTES: usize = 4 << 20;

/// A value as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Found {
    pub(crate) label: Arc<str>,
    pub(crate) value: Arc<str>,
    pub(crate) is_number: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) value: Arc<str>,
    pub(crate) is_number: bool,
    /// The day, since 1970, that the store knows as that of the last use. `None` if the value is in memory only.
    pub(crate) kept: Option<u64>,
}

pub(crate) struct Cache {
    minter: Minter,
    by_token: HashMap<Arc<str>, Entry>,
    by_value: HashMap<(Arc<str>, bool), Arc<str>>,
    bytes: usize,
    pub(crate) known: Known,
}

impl Cache {
    pub(crate) fn new(minter: Minter) -> Self {
        Self { minter, by_token: HashMap::new(), by_value: HashMap::new(), bytes: 0, known: Known::default() }
    }

    /// What a token stands for.
    pub(crate) fn get(&self, token: &str) -> Option<&Entry> {
        self.by_token.get(token)
    }

    /// The token for a value. A value that is known under another kind keeps its token.
    pub(crate) fn token(&self, found: &Found) -> Arc<str> {
        match self.by_value.get(&(Arc::clone(&found.value), found.is_number)) {
            Some(token) => Arc::clone(token),
            None => self.minter.token(&found.label, &found.value, found.is_number).into(),
        }
    }

    /// Adds values that were found and are not known yet. They are searched from now on.
    pub(crate) fn learn(&mut self, found: impl IntoIterator<Item = Found>) -> Result<(), PrivacyError> {
        let mut new = Vec::new();
        for found in found {
            let token = self.token(&found);
            let entry = Entry { value: found.value, is_number: found.is_number, kept: None };
            new.extend(self.insert(token, entry));
        }
        self.search(new)
    }

    /// Adds values from the store.
    pub(crate) fn load(
        &mut self,
        values: Vec<VaultValue>,
        day: impl Fn(&VaultValue) -> u64,
    ) -> Result<(), PrivacyError> {
        let mut new = Vec::new();
        for value in values {
            let kept = Some(day(&value));
            let entry = Entry { value: value.value.expose().into(), is_number: value.is_number, kept };
            new.extend(self.insert(value.token.into(), entry));
        }
        self.search(new)
    }

    /// Notes that values are in the store, with this day as their last use.
    pub(crate) fn kept(&mut self, tokens: &[VaultValue], day: u64) {
        for value in tokens {
            if let Some(entry) = self.by_token.get_mut(value.token.as_str()) {
                entry.kept = Some(day);
            }
        }
    }

    /// Notes that the store has lost all values.
    pub(crate) fn none_kept(&mut self) {
        self.by_token.values_mut().for_each(|entry| entry.kept = None);
    }

    fn insert(&mut self, token: Arc<str>, entry: Entry) -> Option<KnownValue> {
        if self.by_token.contains_key(&token) {
            return None;
        }
        let known = KnownValue { value: Arc::clone(&entry.value), label: label(&token).into() };
        self.bytes += entry.value.len();
        self.by_value.insert((Arc::clone(&entry.value), entry.is_number), Arc::clone(&token));
        self.by_token.insert(token, entry);
        Some(known)
    }

    fn search(&mut self, new: Vec<KnownValue>) -> Result<(), PrivacyError> {
        self.known.add(new)?;
        while self.by_token.len() > MAX_VALUES || self.bytes > MAX_BYTES {
            let left: HashSet<Arc<str>> = self.known.halve()?.into_iter().map(|known| known.value).collect();
            self.by_token.retain(|_, entry| left.contains(&entry.value));
            self.by_value.retain(|(value, _), _| left.contains(value));
            self.bytes = self.by_token.values().map(|entry| entry.value.len()).sum();
            if left.len() <= 1 {
                break;
            }
        }
        Ok(())
    }
}
