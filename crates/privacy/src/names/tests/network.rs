//! `weights/make.py` writes `expected.txt`: what spaCy finds in the sentences of `sentences.txt`.

use super::super::network::Network;
use super::super::parser::Parser;
use super::super::tokenizer::{Token, Tokenizer};
use super::super::weights::Weights;

struct Expected {
    text: String,
    tokens: Vec<(usize, usize)>,
    entities: Vec<(usize, usize, String)>,
}

fn expected() -> Vec<Expected> {
    let lines: Vec<&str> = include_str!("expected.txt").lines().collect();
    lines.chunks(3).map(|lines| read(lines).unwrap()).collect()
}

fn read(lines: &[&str]) -> Option<Expected> {
    let [text, tokens, entities] = lines else { return None };
    let place = |item: &str| {
        let (start, end) = item.split_once(':')?;
        Some((start.parse().ok()?, end.parse().ok()?))
    };
    let entity = |item: &str| {
        let (range, label) = item.rsplit_once(':')?;
        let (start, end) = place(range)?;
        Some((start, end, label.to_owned()))
    };
    Some(Expected {
        text: text.strip_prefix("T ")?.replace("\\n", "\n"),
        tokens: tokens.strip_prefix("K ")?.split_whitespace().map(place).collect::<Option<_>>()?,
        entities: entities.strip_prefix("E ")?.split_whitespace().map(entity).collect::<Option<_>>()?,
    })
}

#[test]
fn tokens_are_those_of_spacy() {
    let weights = Weights::get().unwrap();
    for expected in expected() {
        let tokens: Vec<_> = Tokenizer::new(weights, &expected.text).map(|token| (token.start, token.end)).collect();
        assert_eq!(tokens, expected.tokens, "{}", expected.text);
    }
}

#[test]
fn entities_are_those_of_spacy() {
    let weights = Weights::get().unwrap();
    let parser = Parser::new(weights);
    let mut network = Network::new(weights);
    for expected in expected() {
        let tokens: Vec<Token> = Tokenizer::new(weights, &expected.text).collect();
        let entities = parser.parse(&mut network, &expected.text, &tokens, 0..tokens.len(), |_| true);
        let entities: Vec<_> = entities
            .into_iter()
            .map(|entity| {
                (tokens[entity.tokens.start].start, tokens[entity.tokens.end - 1].end, entity.name.to_owned())
            })
            .collect();
        assert_eq!(entities, expected.entities, "{}", expected.text);
    }
}

#[test]
fn words_are_described_the_same_when_others_are_forgotten() {
    let weights = Weights::get().unwrap();
    let parser = Parser::new(weights);
    let text = "Please send the report to Margaret O'Brien in Cork.";
    let tokens: Vec<Token> = Tokenizer::new(weights, text).collect();
    let mut network = Network::new(weights);
    let before = parser.parse(&mut network, text, &tokens, 0..tokens.len(), |_| true);
    for number in 0..5_000 {
        let other = format!("Word{number}");
        let tokens: Vec<Token> = Tokenizer::new(weights, &other).collect();
        parser.parse(&mut network, &other, &tokens, 0..tokens.len(), |_| true);
    }
    let after = parser.parse(&mut network, text, &tokens, 0..tokens.len(), |_| true);
    assert_eq!(before, after);
    assert!(!before.is_empty());
}
