//! Usual sizes of the contexts of well-known models. Providers rarely tell them.

/// Providers that run these models with their whole context. Programs on a user's own machine often shorten it.
const PROVIDERS: &[&str] = &["openai", "azure", "anthropic", "gemini", "mistral", "deepseek", "openrouter"];

/// Beginnings of names with the number of tokens. The first one that fits applies.
const WINDOWS: &[(&str, u64)] = &[
    ("gpt-3.5-turbo", 16_385),
    ("gpt-4-turbo", 128_000),
    ("gpt-4o", 128_000),
    ("chatgpt-4o", 128_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4", 8_192),
    ("gpt-5-chat", 128_000),
    ("gpt-5", 400_000),
    ("o1-mini", 128_000),
    ("o1-preview", 128_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4-mini", 200_000),
    ("claude-2.0", 100_000),
    ("claude-", 200_000),
    ("gemini-1.5-pro", 2_097_152),
    ("gemini-1.5", 1_048_576),
    ("gemini-2", 1_048_576),
    ("gemini-3", 1_048_576),
    ("codestral-", 256_000),
    ("mistral-large", 128_000),
    ("mistral-medium", 128_000),
    ("mistral-small", 128_000),
    ("deepseek-chat", 128_000),
    ("deepseek-reasoner", 128_000),
];

/// The usual size of the context of a model in tokens; `None` if it is not known. It is an estimate: providers and accounts
/// differ, and models that are newer than this table may have more.
pub fn usual_context(provider: &str, model: &str) -> Option<u64> {
    if !PROVIDERS.contains(&provider) {
        return None;
    }
    // Brokers put the maker before the name, and tuned models have it in the middle.
    let name = model.rsplit_once('/').map_or(model, |(_, name)| name);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    WINDOWS.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, tokens)| *tokens)
}

#[cfg(test)]
mod tests {
    use super::{WINDOWS, usual_context};

    #[test]
    fn sizes_are_found_by_the_longest_beginning() {
        assert_eq!(usual_context("openai", "gpt-4o-mini"), Some(128_000));
        assert_eq!(usual_context("openai", "gpt-4-0613"), Some(8_192));
        assert_eq!(usual_context("openai", "gpt-4.1-nano"), Some(1_047_576));
        assert_eq!(usual_context("openai", "ft:gpt-4o:acme"), Some(128_000));
        assert_eq!(usual_context("openrouter", "anthropic/claude-sonnet-5"), Some(200_000));
        assert_eq!(usual_context("openai", "unheard-of"), None);
        // The same name on a machine of the user says nothing about the size there.
        assert_eq!(usual_context("ollama", "gpt-4o"), None);
        // No entry is hidden by one before it.
        for (index, (begin, _)) in WINDOWS.iter().enumerate() {
            let hidden = WINDOWS[..index].iter().find(|(before, _)| begin.starts_with(before));
            assert_eq!(hidden, None, "{begin}");
        }
    }
}
