//! Splits texts in any script into words.

use unicode_normalization::char::{decompose_canonical, is_combining_mark};

/// The maximum number of characters of a text that are considered.
pub(super) const MAX_CHARS: usize = 8_000;

/// Words that do not describe what a tool does, sorted.
const STOP_WORDS: [&str; 150] = [
    "a", "able", "about", "above", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "because", "been", "before", "being", "below", "between", "both", "but", "by", "can", "could", "d", "did", "do",
    "does", "doing", "don", "down", "during", "each", "few", "for", "from", "further", "get", "give", "had", "has",
    "have", "having", "he", "hello", "help", "her", "here", "hers", "hey", "hi", "him", "his", "how", "i", "if", "im",
    "in", "into", "is", "it", "its", "itself", "just", "know", "let", "like", "ll", "looking", "m", "make", "me",
    "more", "most", "my", "myself", "need", "no", "nor", "not", "now", "of", "off", "on", "once", "only", "or",
    "other", "our", "ours", "out", "over", "own", "please", "re", "s", "same", "she", "should", "so", "some", "such",
    "sure", "t", "tell", "than", "thanks", "that", "the", "their", "theirs", "them", "then", "there", "these", "they",
    "this", "those", "through", "to", "too", "under", "until", "up", "us", "use", "using", "ve", "very", "want", "was",
    "we", "were", "what", "when", "where", "which", "while", "who", "whom", "why", "will", "with", "would", "you",
    "your", "yours",
];

pub(super) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// Calls `word_found` with each word of a text in lower case and without accents. Splits at everything that is not a
/// letter or digit, and at humps of camel case.
pub(super) fn each_word(text: &str, mut word_found: impl FnMut(&str)) {
    let mut word = String::new();
    let mut before = ' ';
    let mut letters = text.chars().take(MAX_CHARS).peekable();
    while let Some(letter) = letters.next() {
        if letter.is_alphanumeric() || is_combining_mark(letter) {
            if letter.is_uppercase() && !word.is_empty() {
                let starts_small = letters.peek().is_some_and(|after| after.is_lowercase());
                if before.is_lowercase() || before.is_numeric() || (before.is_uppercase() && starts_small) {
                    word_found(&word);
                    word.clear();
                }
            }
            fold(letter, &mut word);
        } else if !word.is_empty() {
            word_found(&word);
            word.clear();
        }
        before = letter;
    }
    if !word.is_empty() {
        word_found(&word);
    }
}

fn fold(letter: char, word: &mut String) {
    if letter.is_ascii() {
        word.push(letter.to_ascii_lowercase());
    } else if is_unspaced(letter) {
        word.push(letter);
    } else {
        for small in letter.to_lowercase() {
            decompose_canonical(small, |part| {
                if !('\u{300}'..='\u{36f}').contains(&part) {
                    word.push(part);
                }
            });
        }
    }
}

/// Whether a script has no spaces between words, or is Korean, whose suffixes are attached to words.
fn is_unspaced(letter: char) -> bool {
    matches!(letter, '\u{e00}'..='\u{eff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}'
        | '\u{f900}'..='\u{faff}')
}

/// Splits a word where an unspaced script begins or ends. Calls `run_found` with each run and whether it is unspaced.
pub(super) fn each_run(word: &str, mut run_found: impl FnMut(&str, bool)) {
    if word.is_ascii() {
        run_found(word, false);
        return;
    }
    let mut begin = 0;
    let mut kind = None;
    for (at, letter) in word.char_indices() {
        let unspaced = is_unspaced(letter);
        if let Some(before) = kind
            && before != unspaced
        {
            run_found(&word[begin..at], before);
            begin = at;
        }
        kind = Some(unspaced);
    }
    if let Some(unspaced) = kind {
        run_found(&word[begin..], unspaced);
    }
}

/// Calls `term_found` with each term of a text: stems without stop words, and pairs of letters of unspaced scripts.
pub(super) fn each_term(text: &str, mut term_found: impl FnMut(&str)) {
    each_word(text, |word| {
        each_run(word, |run, unspaced| {
            if !unspaced {
                if !is_stop_word(run) {
                    stem(run, &mut term_found);
                }
                return;
            }
            let starts: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
            if starts.len() == 2 {
                term_found(run);
            }
            for pair in starts.windows(3) {
                term_found(&run[pair[0]..pair[2]]);
            }
        });
    });
}

/// The stem of a word without unspaced scripts.
pub(super) fn stem_of(word: &str) -> String {
    let mut stemmed = String::new();
    stem(word, &mut |stem: &str| stem.clone_into(&mut stemmed));
    stemmed
}

/// The terms of a text, each once, in order.
pub(super) fn terms(text: &str) -> Vec<String> {
    let mut terms: Vec<String> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    each_term(text, |term| {
        if !seen.contains(term) {
            seen.insert(term.to_owned());
            terms.push(term.to_owned());
        }
    });
    terms
}

/// Strips plural endings, -ing, -ed and a final e from an English word, and turns a final y into i. Leaves short and
/// mixed words.
fn stem(word: &str, stemmed: &mut impl FnMut(&str)) {
    if word.len() < 4 || !word.bytes().all(|letter| letter.is_ascii_lowercase()) {
        stemmed(word);
        return;
    }
    let ends_in = |endings: &[&str]| endings.iter().any(|ending| word.ends_with(ending));
    let mut word = word.to_owned();
    if word.ends_with("ies") && word.len() > 4 {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if ends_in(&["sses", "shes", "ches", "xes", "zes"]) {
        word.truncate(word.len() - 2);
    } else if word.ends_with('s') && !ends_in(&["ss", "us", "is"]) {
        word.truncate(word.len() - 1);
    }
    for ending in ["ing", "ed"] {
        let rest = word.strip_suffix(ending).unwrap_or_default();
        if rest.len() >= 3 && rest.contains(['a', 'e', 'i', 'o', 'u', 'y']) {
            word.truncate(rest.len());
            if let [.., one, other] = word.as_bytes()
                && word.len() > 3
                && one == other
                && !b"lsz".contains(other)
            {
                word.pop();
            }
            break;
        }
    }
    if word.len() > 3 && word.ends_with('e') {
        word.pop();
    }
    if word.len() > 3 && word.ends_with('y') {
        word.pop();
        word.push('i');
    }
    stemmed(&word);
}

#[cfg(test)]
mod tests {
    use super::{STOP_WORDS, each_term, is_stop_word};

    fn all(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        each_term(text, |term| all.push(term.to_owned()));
        all
    }

    #[test]
    fn words_are_split_and_stemmed() {
        assert_eq!(all("listPullRequests HTTPServer"), ["list", "pull", "request", "http", "server"]);
        assert_eq!(all("queries query queried querying"), ["queri", "queri", "queri", "queri"]);
        assert_eq!(all("stopped stopping stops process addresses"), ["stop", "stop", "stop", "process", "address"]);
        assert_eq!(all("搜索文件 檔 sheet表格"), ["搜索", "索文", "文件", "檔", "sheet", "表格"]);
        assert_eq!(all("Über Größe हिन्दी"), ["uber", "große", "हिन्दी"]);
        assert_eq!(all("the of and -_. 🎉"), Vec::<String>::new());
    }

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
        assert!(is_stop_word("the") && !is_stop_word("file"));
    }
}
