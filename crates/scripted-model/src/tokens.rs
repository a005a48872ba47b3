//! Token counts, and what of a prompt would be cached.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// Number of bytes that count as one token.
const BYTES_PER_TOKEN: usize = 4;
/// The unit in which prompts are compared, in bytes.
const BLOCK_BYTES: usize = 64;
/// Maximum number of prompts that are remembered.
const MAX_PROMPTS: usize = 256;
/// Maximum number of blocks that are remembered of a prompt. What comes after them is never cached.
const MAX_BLOCKS: usize = 16_384;

/// An estimate that is the same for the same text.
pub(crate) fn estimate(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

/// What the model reads: tools, instructions and history, in this order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prompt {
    text: String,
    cacheable: usize,
}

impl Prompt {
    /// Adds a part.
    pub(crate) fn add(&mut self, part: &Value) {
        if !part.is_null() {
            self.text.push_str(&part.to_string());
            self.text.push('\n');
        }
    }

    /// Everything so far may be cached.
    pub(crate) fn mark_cacheable(&mut self) {
        self.cacheable = self.text.len();
    }

    pub(crate) fn tokens(&self) -> u64 {
        estimate(self.text.len())
    }

    fn cacheable_tokens(&self) -> u64 {
        estimate(self.cacheable)
    }

    /// One hash for each whole block, which covers everything before it as well.
    fn blocks(&self) -> Vec<u64> {
        let bytes = self.text.as_bytes().get(..self.cacheable).unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        let whole = bytes.chunks_exact(BLOCK_BYTES).take(MAX_BLOCKS);
        whole
            .map(|block| {
                block.hash(&mut hasher);
                hasher.finish()
            })
            .collect()
    }
}

/// How much of a prompt was cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cached {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

/// The prompts of earlier requests.
#[derive(Debug, Default)]
pub(crate) struct PromptCache {
    prompts: Mutex<VecDeque<(String, Vec<u64>)>>,
}

impl PromptCache {
    /// Compares a prompt with the earlier ones that have the same key, and remembers it.
    pub(crate) fn look_up(&self, key: &str, prompt: &Prompt) -> Cached {
        let blocks = prompt.blocks();
        let mut prompts = self.prompts.lock().unwrap_or_else(PoisonError::into_inner);
        let same_key = prompts.iter().filter(|(other, _)| other == key);
        let common = same_key.map(|(_, earlier)| common_length(earlier, &blocks)).max().unwrap_or(0);
        prompts.push_back((key.to_owned(), blocks));
        if prompts.len() > MAX_PROMPTS {
            prompts.pop_front();
        }
        let read = estimate(common * BLOCK_BYTES);
        Cached { read, written: prompt.cacheable_tokens() - read }
    }
}

fn common_length(one: &[u64], other: &[u64]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prompt(parts: &[&str]) -> Prompt {
        let mut prompt = Prompt::default();
        for part in parts {
            prompt.add(&json!(part));
        }
        prompt.mark_cacheable();
        prompt
    }

    #[test]
    fn a_longer_prompt_finds_its_prefix_under_the_same_key_only() {
        let cache = PromptCache::default();
        let start = "a".repeat(640);
        assert_eq!(cache.look_up("k", &prompt(&[&start])).read, 0);
        assert_eq!(cache.look_up("k", &prompt(&[&start, "more"])).read, 160);
        assert_eq!(cache.look_up("other", &prompt(&[&start, "more"])).read, 0);
        assert_eq!(cache.look_up("k", &prompt(&["x", &start])).read, 0);
    }

    #[test]
    fn memory_is_bounded() {
        let cache = PromptCache::default();
        for number in 0..MAX_PROMPTS + 10 {
            cache.look_up(&number.to_string(), &prompt(&["a"]));
        }
        assert_eq!(cache.prompts.lock().unwrap().len(), MAX_PROMPTS);
        assert_eq!(prompt(&[&"a".repeat(2 * BLOCK_BYTES * MAX_BLOCKS)]).blocks().len(), MAX_BLOCKS);
    }
}
