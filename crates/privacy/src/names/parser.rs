//! Finds entities in tokens: a parser reads one token after the other, and each move begins, continues or ends an entity.

use super::network::{Contributions, Network};
use super::tokenizer::Token;
use super::weights::{CONTRIBUTION, UNIT_PIECES, UNITS, Weights};
use std::ops::Range;

/// What the network calls something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Person,
    /// A country, city or state.
    Region,
    /// A mountain, river or continent.
    Place,
    /// A building, airport, road or bridge.
    Facility,
    Organisation,
    /// Anything else, such as a date.
    Other,
}

/// Tokens that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entity {
    pub(super) tokens: Range<usize>,
    pub(super) label: Label,
    /// The name of the label, for tests.
    #[cfg(test)]
    pub(super) name: &'static str,
}

#[derive(Clone, Copy)]
enum Action {
    Begin,
    Inside,
    Last,
    Unit,
    Outside,
    Never,
}

#[derive(Clone, Copy)]
struct Move {
    action: Action,
    /// The place of the label in the list of labels.
    label: usize,
}

/// Reads moves and their labels.
pub(super) struct Parser {
    weights: &'static Weights,
    moves: Vec<Move>,
    labels: Vec<&'static str>,
    /// What is added to the score of each move.
    leanings: Vec<f32>,
}

/// Added to the scores of moves that begin a person. Missing a person is worse than taking an organisation for one.
const TOWARDS_PERSONS: f32 = 0.5;
/// Added to the scores of moves that begin an organisation.
const TOWARDS_ORGANISATIONS: f32 = -1.0;

impl Parser {
    /// A parser that takes something for a person more readily than spaCy does.
    pub(super) fn leaning(weights: &'static Weights) -> Self {
        let mut parser = Self::new(weights);
        for (step, leaning) in parser.moves.iter().zip(&mut parser.leanings) {
            let begins = matches!(step.action, Action::Begin | Action::Unit);
            *leaning = match parser.labels.get(step.label) {
                Some(&"PERSON") if begins => TOWARDS_PERSONS,
                Some(&"ORG") if begins => TOWARDS_ORGANISATIONS,
                _ => 0.0,
            };
        }
        parser
    }

    /// A parser with the scores of spaCy.
    pub(super) fn new(weights: &'static Weights) -> Self {
        let mut labels = Vec::new();
        let moves = weights.move_names.iter().map(|name| {
            let (action, label) = name.split_once('-').unwrap_or((name, ""));
            let known = labels.iter().position(|known| *known == label);
            let label = known.unwrap_or_else(|| {
                labels.push(label);
                labels.len() - 1
            });
            let action = match action {
                "B" => Action::Begin,
                "I" => Action::Inside,
                "L" => Action::Last,
                "U" => Action::Unit,
                "O" => Action::Outside,
                _ => Action::Never,
            };
            Move { action, label }
        });
        let moves: Vec<_> = moves.collect();
        let leanings = vec![0.0; moves.len()];
        Self { weights, moves, labels, leanings }
    }

    /// The entities that begin in a range of tokens at one of the places where one may begin.
    pub(super) fn parse(
        &self,
        network: &mut Network,
        text: &str,
        tokens: &[Token],
        range: Range<usize>,
        may_begin: impl Fn(usize) -> bool,
    ) -> Vec<Entity> {
        let described = network.describe(text, tokens, range.clone());
        let mut entities = Vec::new();
        let mut scores = vec![0.0; self.weights.moves.width()];
        let mut open: Option<(usize, usize)> = None;
        for at in range.clone() {
            if open.is_none() && (tokens[at].is_space || !may_begin(at)) {
                continue;
            }
            let hidden = self.hidden(&described, at - range.start, open.map(|(begin, _)| begin - range.start));
            network.scores(&hidden, &mut scores);
            match *self.best(&scores, open, at + 1 == range.end) {
                Move { action: Action::Begin, label } => open = Some((at, label)),
                Move { action: Action::Unit, label } => entities.push(self.entity(at..at + 1, label)),
                Move { action: Action::Last, label } => {
                    entities.push(self.entity(open.map_or(at, |(begin, _)| begin)..at + 1, label));
                    open = None;
                }
                Move { action: Action::Inside | Action::Outside | Action::Never, .. } => {}
            }
        }
        entities
    }

    /// The hidden units when a token is next and an entity may be open.
    fn hidden(&self, described: &Contributions, next: usize, open: Option<usize>) -> [f32; UNITS] {
        let mut sums = [0.0; CONTRIBUTION];
        sums.copy_from_slice(&self.weights.unit_bias);
        let tokens = [Some(next), open, open.map(|_| next - 1)];
        for (role, token) in tokens.into_iter().enumerate() {
            let all: &[f32] = token.map_or(&self.weights.absent, |token| &described[token]);
            for (sum, value) in sums.iter_mut().zip(&all[role * CONTRIBUTION..(role + 1) * CONTRIBUTION]) {
                *sum += value;
            }
        }
        let mut hidden = [0.0; UNITS];
        let (pieces, _) = sums.as_chunks::<UNIT_PIECES>();
        for (unit, [first, second]) in hidden.iter_mut().zip(pieces) {
            *unit = first.max(*second);
        }
        hidden
    }

    /// The possible move with the highest score.
    fn best(&self, scores: &[f32], open: Option<(usize, usize)>, is_last: bool) -> &Move {
        let mut best = (f32::NEG_INFINITY, &OUTSIDE);
        for ((step, score), leaning) in self.moves.iter().zip(scores).zip(&self.leanings) {
            let score = score + leaning;
            let is_possible = match (step.action, open) {
                (Action::Begin, None) => !is_last,
                (Action::Unit | Action::Outside, None) => true,
                (Action::Inside, Some((_, label))) => !is_last && step.label == label,
                (Action::Last, Some((_, label))) => step.label == label,
                _ => false,
            };
            if is_possible && score > best.0 {
                best = (score, step);
            }
        }
        best.1
    }

    fn entity(&self, tokens: Range<usize>, label: usize) -> Entity {
        let name = self.labels.get(label).copied().unwrap_or_default();
        let label = match name {
            "PERSON" => Label::Person,
            "GPE" => Label::Region,
            "LOC" => Label::Place,
            "FAC" => Label::Facility,
            "ORG" => Label::Organisation,
            _ => Label::Other,
        };
        Entity {
            tokens,
            label,
            #[cfg(test)]
            name,
        }
    }
}

static OUTSIDE: Move = Move { action: Action::Outside, label: 0 };
