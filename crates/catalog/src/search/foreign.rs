//! Vectors from an external model. They replace those of the built-in table if all tools and the query have them.
//!
//! Models differ in what they consider similar: with some, unrelated texts have a cosine of 0.1, with others of 0.7. So
//! the similarities of a query are rescaled: the value that three quarters of the tools reach becomes 0, and that of
//! identical texts is 1. Weights and thresholds that were tuned for the table then apply to any model.

use super::fields::Fields;
use super::parts::parts;
use super::shard::Shard;
use super::{PART, WHOLE};
use crate::catalog::Catalog;
use crate::layout::ServerTools;
use coracle_types::Tool;

/// The maximum number of dimensions. Sums of products fit into 32 bits.
pub const MAX_DIMENSIONS: usize = 16_384;

/// The maximum number of characters of a text for a model.
const MAX_CHARS: usize = 2_000;

/// The fraction of tools, one in `STRANGERS`, below the similarity that is rescaled to 0.
const STRANGERS: usize = 4;

/// The direction of an external vector, with eight bits per number.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    numbers: Vec<i8>,
    scale: f32,
}

impl Direction {
    /// The direction of a vector. `None` if the vector is zero or has elements that are not finite.
    pub fn new(vector: &[f32]) -> Option<Self> {
        let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        let most = vector.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
        if !(length.is_normal() && most.is_normal()) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "between -127 and 127")]
        let numbers = vector.iter().map(|number| (number / most * 127.0).round_ties_even() as i8).collect();
        Self::from_parts(numbers, most / 127.0 / length)
    }

    /// Restores a direction from `numbers` and `scale`.
    pub fn from_parts(numbers: Vec<i8>, scale: f32) -> Option<Self> {
        let is_sound = (1..=MAX_DIMENSIONS).contains(&numbers.len()) && scale.is_normal() && scale > 0.0;
        is_sound.then_some(Self { numbers, scale })
    }

    /// The numbers before scaling.
    pub fn numbers(&self) -> &[i8] {
        &self.numbers
    }

    /// The factor for the numbers.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// The rescaled similarity of all tools. `None` if some have no vector of this length.
    fn likeness(&self, shards: &[&Shard]) -> Option<Vec<f32>> {
        let mut all = Vec::with_capacity(shards.iter().map(|shard| shard.len()).sum());
        for shard in shards.iter().filter(|shard| shard.len() > 0) {
            let vectors = shard.foreign.get().filter(|vectors| vectors.dimensions == self.numbers.len())?;
            let rows = vectors.numbers.chunks_exact(vectors.dimensions).zip(&vectors.scales);
            all.extend(rows.map(|(numbers, scale)| {
                let products =
                    numbers.iter().zip(&self.numbers).map(|(one, other)| i32::from(*one) * i32::from(*other));
                #[expect(clippy::cast_precision_loss, reason = "a likeness need not be exact")]
                let product = products.sum::<i32>() as f32;
                product * scale * self.scale
            }));
        }
        stretch(&mut all);
        Some(all)
    }
}

fn stretch(all: &mut [f32]) {
    let mut sorted = all.to_vec();
    let place = sorted.len().saturating_sub(1) / STRANGERS;
    if sorted.is_empty() {
        return;
    }
    let (_, floor, _) = sorted.select_nth_unstable_by(place, f32::total_cmp);
    let floor = floor.min(0.99);
    for likeness in all {
        *likeness = (*likeness - floor) / (1.0 - floor);
    }
}

/// The vectors of all tools of a server, in their order.
#[derive(Debug)]
pub(super) struct Vectors {
    dimensions: usize,
    numbers: Vec<i8>,
    scales: Vec<f32>,
}

/// The external vectors of a query: of the whole text, and of its parts if there are several.
#[derive(Clone, Debug)]
pub struct Foreign(Vec<Direction>);

impl Foreign {
    /// The texts of a query whose vectors `new` takes.
    pub fn texts(query: &str) -> Vec<String> {
        let mut texts = vec![cut(query.trim())];
        let parts = parts(query);
        if parts.len() > 1 {
            texts.extend(parts.iter().map(|part| cut(part.trim())));
        }
        texts
    }

    /// Creates it from one vector per text.
    pub fn new(vectors: &[Vec<f32>]) -> Option<Self> {
        vectors.iter().map(|vector| Direction::new(vector)).collect::<Option<_>>().map(Self)
    }

    /// The similarity of each tool of all servers. `None` if some have no vector of this length.
    pub(super) fn alike(&self, shards: &[&Shard]) -> Option<Vec<f32>> {
        let (whole, parts) = self.0.split_first()?;
        let mut alike = whole.likeness(shards)?;
        if parts.is_empty() {
            return Some(alike);
        }
        let mut best = vec![f32::MIN; alike.len()];
        for part in parts {
            for (best, likeness) in best.iter_mut().zip(part.likeness(shards)?) {
                *best = best.max(likeness);
            }
        }
        for (score, best) in alike.iter_mut().zip(best) {
            *score = (*score * WHOLE + best * PART) / (WHOLE + PART);
        }
        Some(alike)
    }
}

/// A server whose tools have no external vectors yet.
#[derive(Clone, Debug)]
pub struct Unread {
    place: usize,
    /// One text per tool.
    pub texts: Vec<String>,
}

impl Catalog {
    /// The servers whose tools still need external vectors.
    pub fn unread(&self) -> Vec<Unread> {
        let servers = self.indexed().iter().enumerate().filter(|(place, _)| !self.is_read(*place));
        let texts = |server: &ServerTools| server.tools.iter().map(|tool| text(server, tool)).collect();
        servers.map(|(place, server)| Unread { place, texts: texts(server) }).collect()
    }

    /// Stores the vectors of a server: one direction per text, all of the same length. Anything else is ignored.
    pub fn take_in(&self, unread: &Unread, directions: &[&Direction]) {
        let (Some(shard), Some(server)) = (self.index().shards.get(unread.place), self.indexed().get(unread.place))
        else {
            return;
        };
        let dimensions = directions.first().map_or(0, |direction| direction.numbers.len());
        let are_sound = directions.iter().all(|direction| direction.numbers.len() == dimensions);
        if directions.len() != server.tools.len() || !are_sound {
            return;
        }
        shard.get_or_init(|| Shard::new(server)).foreign.get_or_init(|| Vectors {
            dimensions,
            numbers: directions.iter().flat_map(|direction| direction.numbers.iter().copied()).collect(),
            scales: directions.iter().map(|direction| direction.scale).collect(),
        });
    }

    /// Whether all tools have external vectors.
    pub fn is_all_read(&self) -> bool {
        (0..self.indexed().len()).all(|place| self.is_read(place))
    }

    fn is_read(&self, place: usize) -> bool {
        self.indexed().get(place).is_none_or(|server| server.tools.is_empty())
            || self
                .index()
                .shards
                .get(place)
                .and_then(|shard| shard.get())
                .is_some_and(|shard| shard.foreign.get().is_some())
    }
}

/// The text of a tool for a model, the same as for the table. It excludes learned shapes, so that a new shape does not
/// require a new vector.
fn text(server: &ServerTools, tool: &Tool) -> String {
    let Fields { name, server, description, parameters, .. } = Fields::of(server, tool);
    cut(&format!("{server}: {name}\n{}\nParameters: {parameters}", description.trim()))
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::{Direction, Foreign, stretch};
    use crate::search::Query;
    use crate::{Catalog, ServerTools};
    use coracle_types::{ServerName, Tool, ToolHints};

    fn tool(name: &str) -> Tool {
        Tool {
            server: ServerName::new("s").unwrap(),
            name: name.to_owned(),
            title: None,
            description: "Something".to_owned(),
            input_schema: coracle_types::Schema::default(),
            output_schema: None,
            category: None,
            hints: ToolHints::default(),
        }
    }

    fn server(name: &str, tools: &[&str]) -> ServerTools {
        ServerTools::new(ServerName::new(name).unwrap(), tools.iter().map(|name| tool(name)))
    }

    /// Gives each tool a separate axis and all tools a large common part, as models do that find everything similar.
    fn axis(place: usize) -> Vec<f32> {
        let mut vector = vec![0.0; 8];
        vector[place] = 1.0;
        vector[7] = 2.0;
        vector
    }

    fn names(catalog: &Catalog, foreign: &Foreign) -> Vec<String> {
        let query = Query { foreign: Some(foreign), ..Query::new("qqqqzzzz") };
        catalog.search(&query, 10).iter().map(|hit| hit.entry.name.clone()).collect()
    }

    #[test]
    fn vectors_are_used_when_all_tools_have_them() {
        let before =
            Catalog::new(vec![server("a", &["one", "two", "three"]), server("b", &["four"]), server("c", &[])]);
        let query = Foreign::new(&[axis(1)]).unwrap();
        assert!(names(&before, &query).is_empty() && !before.is_all_read());
        let directions: Vec<Direction> = (0..4).map(|place| Direction::new(&axis(place)).unwrap()).collect();
        let all: Vec<&Direction> = directions.iter().collect();
        let unread = before.unread();
        assert_eq!(unread.iter().map(|server| server.texts.len()).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(unread[0].texts[0], "a: one\nSomething\nParameters: ");
        before.take_in(&unread[0], &all[..2]);
        assert!(before.unread().len() == 2, "one for each tool, or none");
        before.take_in(&unread[0], &all[..3]);
        assert!(names(&before, &query).is_empty(), "a server has none yet");
        before.take_in(&unread[1], &all[3..]);
        assert!(before.is_all_read());
        assert_eq!(names(&before, &query), ["two"]);
        assert!(names(&before, &Foreign::new(&[vec![1.0, 0.0]]).unwrap()).is_empty(), "another length");
        // Only the server that changed is read again.
        let after = Catalog::after(vec![server("a", &["one", "two", "three"]), server("b", &["five"])], &before);
        assert_eq!(after.unread().iter().map(|server| server.texts.len()).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn parts_have_separate_vectors() {
        assert_eq!(Foreign::texts(" read a file ").len(), 1);
        let query = "Look up tomorrow's weather in Rome, then send the result by mail to my friend Anna";
        assert_eq!(Foreign::texts(query).len(), 3);
        assert_eq!(Foreign::texts(&"x".repeat(10_000))[0].len(), 2_000);
    }

    #[test]
    fn invalid_vectors_are_rejected() {
        assert!(Direction::new(&[0.3, -0.4]).is_some());
        for bad in [&[][..], &[0.0, 0.0], &[1.0, f32::NAN], &[f32::INFINITY, 1.0], &[f32::MAX, f32::MAX]] {
            assert!(Direction::new(bad).is_none(), "{bad:?}");
        }
        let direction = Direction::new(&[0.3, -0.4]).unwrap();
        let again = Direction::from_parts(direction.numbers().to_vec(), direction.scale());
        assert_eq!(again, Some(direction));
        assert!(Direction::from_parts(vec![1; 20_000], 1.0).is_none());
        assert!(Direction::from_parts(vec![1], f32::NAN).is_none());
    }

    #[test]
    fn similarities_are_rescaled_for_models_that_find_everything_similar() {
        let mut all = [0.71, 0.70, 0.72, 0.69, 0.85];
        stretch(&mut all);
        assert!(all[4] > 0.45 && all[..4].iter().all(|likeness| *likeness < 0.1), "{all:?}");
        stretch(&mut []);
        let mut same = [1.0];
        stretch(&mut same);
        assert!(same[0].is_finite());
    }
}
