//! Splits a query into parts: a task may contain several actions, each of which may need a different tool.

use super::words::{MAX_CHARS, each_word, is_stop_word};

/// Words at which a query is split.
const CUTTING_WORDS: [&str; 6] = ["and", "then", "also", "but", "additionally", "while"];
const CUTTING_SIGNS: [char; 9] = [',', ';', '\n', '，', '、', '。', '；', '！', '？'];
/// Characters at which a query is split if a space or a quote follows.
const ENDING_SIGNS: [char; 4] = ['.', '!', '?', ':'];

/// The minimum number of significant words in a part. A shorter one is joined to the part before.
const PART_WORDS: usize = 3;

/// The maximum number of parts.
const MAX_PARTS: usize = 8;

/// The significant parts of a query, in order.
pub(super) fn parts(query: &str) -> Vec<String> {
    let mut parts: Vec<(String, usize)> = Vec::new();
    for piece in cuts(query) {
        let mut telling = 0;
        each_word(&piece, |word| telling += usize::from(!is_stop_word(word)));
        match parts.last_mut() {
            Some((last, words)) if telling < PART_WORDS || *words < PART_WORDS => {
                last.push(' ');
                last.push_str(&piece);
                *words += telling;
            }
            _ => parts.push((piece, telling)),
        }
    }
    parts.into_iter().filter(|(_, telling)| *telling > 0).map(|(part, _)| part).take(MAX_PARTS).collect()
}

/// The text between punctuation and splitting words.
pub(super) fn cuts(query: &str) -> Vec<String> {
    let (mut all, mut piece, mut word) = (Vec::new(), String::new(), String::new());
    let mut letters = query.chars().take(MAX_CHARS).peekable();
    while let Some(letter) = letters.next() {
        if letter.is_alphanumeric() {
            word.push(letter);
            continue;
        }
        end_word(&mut word, &mut piece, &mut all);
        let before_end = letters
            .peek()
            .is_none_or(|after| after.is_whitespace() || ENDING_SIGNS.contains(after) || matches!(after, '"' | '\''));
        if CUTTING_SIGNS.contains(&letter) || (ENDING_SIGNS.contains(&letter) && before_end) {
            all.push(std::mem::take(&mut piece));
        } else {
            piece.push(letter);
        }
    }
    end_word(&mut word, &mut piece, &mut all);
    all.push(piece);
    all
}

fn end_word(word: &mut String, piece: &mut String, all: &mut Vec<String>) {
    if CUTTING_WORDS.contains(&word.to_lowercase().as_str()) {
        all.push(std::mem::take(piece));
    } else {
        piece.push_str(word);
    }
    word.clear();
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn tasks_are_split_into_parts() {
        let all = parts("Find the cheapest flight to Rome, then book a hotel near Termini station. Thanks!");
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[0].contains("cheapest flight") && all[1].contains("Termini"), "{all:?}");
        assert_eq!(parts("read a file").len(), 1);
        assert_eq!(parts("version 1.5 of the file").len(), 1);
        assert!(parts("").is_empty() && parts("and, then: the!").is_empty());
        assert_eq!(parts(&"list open issues and close old ones. ".repeat(50)).len(), 8);
    }
}
