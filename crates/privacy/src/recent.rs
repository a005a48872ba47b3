//! Long texts that were examined before: the same text is often examined again, because it is part of several answers, or of
//! each request of a conversation.

use crate::cache::Found;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Shorter texts are examined again.
const LEAST_BYTES: usize = 1_024;
/// Maximum number of texts, and of findings in them, in each generation.
const MAX_TEXTS: usize = 512;
const MAX_FINDINGS: usize = 10_000;

/// What the detector found in a text. It depends on the text and on its key only.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    pub(crate) places: Vec<(Range<usize>, Arc<str>)>,
    pub(crate) found: Vec<Found>,
}

/// Identifies a text and its key. The hashes have random keys, so nobody can make two texts with the same ones.
type Identity = (u64, u64, usize);

/// The texts that were examined last. Those that are not used any more are forgotten.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    hashes: (RandomState, RandomState),
    texts: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    new: HashMap<Identity, Arc<Examined>>,
    old: HashMap<Identity, Arc<Examined>>,
    /// Number of findings in the new generation.
    findings: usize,
}

impl Generations {
    fn add(&mut self, identity: Identity, examined: Arc<Examined>) {
        let count = examined.places.len() + examined.found.len();
        if count > MAX_FINDINGS {
            return;
        }
        if self.new.len() == MAX_TEXTS || self.findings + count > MAX_FINDINGS {
            self.old = std::mem::take(&mut self.new);
            self.findings = 0;
        }
        self.findings += count;
        self.new.insert(identity, examined);
    }
}

impl Recent {
    /// What was found in a text, which is examined if that is not known.
    pub(crate) fn examined(&self, key: Option<&str>, text: &str, examine: impl FnOnce() -> Examined) -> Arc<Examined> {
        if text.len() < LEAST_BYTES {
            return Arc::new(examine());
        }
        let identity = (self.hashes.0.hash_one((key, text)), self.hashes.1.hash_one((key, text)), text.len());
        {
            let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = texts.new.get(&identity) {
                return Arc::clone(known);
            }
            if let Some(known) = texts.old.remove(&identity) {
                texts.add(identity, Arc::clone(&known));
                return known;
            }
        }
        let examined = Arc::new(examine());
        self.texts.lock().unwrap_or_else(PoisonError::into_inner).add(identity, Arc::clone(&examined));
        examined
    }
}

#[cfg(test)]
mod tests {
    use super::{Examined, MAX_TEXTS, Recent};
    use std::cell::Cell;

    #[test]
    fn a_long_text_is_examined_once_with_each_key() {
        let (recent, count) = (Recent::default(), Cell::new(0));
        let examine = |key: Option<&str>, text: &str| {
            recent.examined(key, text, || {
                count.set(count.get() + 1);
                Examined::default()
            });
            count.get()
        };
        let long = "x".repeat(2_000);
        assert_eq!((examine(None, &long), examine(None, &long)), (1, 1));
        assert_eq!((examine(Some("phone"), &long), examine(Some("phone"), &long), examine(None, &long)), (2, 2, 2));
        assert_eq!(examine(None, &long.replace("xx", "xy")), 3, "another text");
        assert_eq!((examine(None, "short"), examine(None, "short")), (4, 5));
        for number in 0..2 * MAX_TEXTS {
            examine(None, &format!("{number} {long}"));
        }
        let before = count.get();
        assert_eq!(examine(None, &long), before + 1, "it was forgotten");
    }
}
