//! Ranks the best results again, by criteria that single words do not show.

use super::fields::{FIELDS, Fields};
use super::pieces::{Pieces, alike};
use super::rarity::Rarity;
use super::{Query, REREAD, parts, words};
use crate::catalog::{Catalog, Entry};
use crate::text;

/// The factor for the score of a deprecated tool.
const DEPRECATED: f32 = 0.6;

/// The factor for the score of a tool that acts on something that the query only mentions.
const ANOTHER_ACT: f32 = 0.6;

/// The number of best tools that are compared with a short query word by word, and the weight of that comparison.
const COMPARED: usize = 20;
const WORD_BY_WORD: f32 = 2.0;

/// The weight of a word by field.
const FIELD: [f32; FIELDS] = [1.0, 0.7, 0.9, 0.7, 0.5];

/// The largest number of word pieces that are compared: of a query, and of each field of a tool.
const MAX_ASKED: usize = 30;
const MAX_PIECES: usize = 60;

/// The number of characters at the beginning of a description in which a deprecation is recognised.
const BEGINNING: usize = 300;

impl Catalog {
    /// Lowers the score of tools that only seem to match. Returns the best first.
    pub(super) fn reread(&self, query: &Query<'_>, mut best: Vec<(usize, f32)>) -> Vec<(usize, f32)> {
        let things = plurals(query.text);
        let asks_for_old = query.text.to_lowercase().contains("deprecated");
        // The built-in vectors are not used together with those of an external model.
        let mut changed = query.foreign.is_none() && self.compare(query.text, &mut best);
        for (place, score) in best.iter_mut().take(REREAD) {
            let Some((entry, description)) = self.described(*place) else { continue };
            let description = text::clean(description, BEGINNING).to_lowercase();
            if !asks_for_old && description.contains("deprecated") {
                *score *= DEPRECATED;
                changed = true;
            }
            if is_another_act(entry, &description, &things) {
                *score *= ANOTHER_ACT;
                changed = true;
            }
        }
        if changed {
            let head = best.len().min(REREAD);
            best[..head].sort_by(|one, other| {
                other.1.total_cmp(&one.1).then_with(|| self.order(one.0).cmp(&self.order(other.0)))
            });
        }
        best
    }
}

impl Catalog {
    /// Adds how well each word of a query with a single part is matched in each of the best tools. The sum of all words
    /// does not show that for long descriptions. Returns whether it was done.
    fn compare(&self, query: &str, best: &mut [(usize, f32)]) -> bool {
        if parts::parts(query).len() > 1 {
            return false;
        }
        let pieces = Pieces::get();
        let shards = self.index().ready(self.indexed());
        let rarities = Rarity::new(&shards);
        let asked = pieces.weighted_rows(query, MAX_ASKED, |word| rarities.of_word(word));
        let total: f32 = asked.iter().map(|(_, weight)| weight).sum();
        if total <= 0.0 {
            return false;
        }
        for (place, score) in best.iter_mut().take(COMPARED) {
            let found = self.at(*place).and_then(|entry| self.locate(entry));
            let Some((server, tool)) = found.and_then(|(server, tool)| Some((self.indexed().get(server)?, tool)))
            else {
                continue;
            };
            let fields = Fields::of(server, tool);
            let mut likest = vec![0.0_f32; asked.len()];
            for (text, weight) in fields.all().into_iter().zip(FIELD) {
                for row in pieces.rows(text, MAX_PIECES) {
                    for (likest, (asked, _)) in likest.iter_mut().zip(&asked) {
                        *likest = likest.max(weight * alike(asked, row));
                    }
                }
            }
            let sum: f32 = likest.iter().zip(&asked).map(|(likest, (_, weight))| likest * weight).sum();
            *score += WORD_BY_WORD * sum / total;
        }
        // Tools that were not compared stay behind.
        if let Some((_, least)) =
            best.get(..COMPARED).and_then(|head| head.iter().min_by(|a, b| a.1.total_cmp(&b.1))).copied()
        {
            for (_, score) in best.iter_mut().skip(COMPARED) {
                *score = score.min(least);
            }
        }
        true
    }
}

/// Plural words of the query, each with its singular: they are things and not actions.
fn plurals(query: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    words::each_word(query, |word| {
        let one = match word.strip_suffix("es").filter(|one| one.ends_with("sh") || one.ends_with("ch")) {
            Some(one) => Some(one),
            None => word.strip_suffix('s').filter(|one| one.len() > 2 && !one.ends_with(['s', 'u', 'i'])),
        };
        all.extend(one.map(|one| (word.to_owned(), one.to_owned())));
    });
    all
}

/// Whether the tool's name consists of a verb that the query uses as a noun: a query for the last commits does not want
/// `commit`. A tool whose description has the plural itself, like `branch`, which lists branches, is about these
/// things.
fn is_another_act(entry: &Entry, description: &str, things: &[(String, String)]) -> bool {
    if things.is_empty() {
        return false;
    }
    let (mut of_server, mut of_name) = (Vec::new(), Vec::new());
    words::each_word(&entry.server, |word| of_server.push(word.to_owned()));
    words::each_word(&entry.name, |word| of_name.push(word.to_owned()));
    of_name.retain(|word| !of_server.contains(word));
    let [act] = of_name.as_slice() else { return false };
    things.iter().any(|(many, one)| one == act && !description.contains(many.as_str()))
}

#[cfg(test)]
mod tests {
    use super::plurals;

    #[test]
    fn plurals_are_things() {
        let found = plurals("write the last commits of branches to a class, as is");
        let found: Vec<(&str, &str)> = found.iter().map(|(many, one)| (many.as_str(), one.as_str())).collect();
        assert_eq!(found, [("commits", "commit"), ("branches", "branch")]);
    }
}
