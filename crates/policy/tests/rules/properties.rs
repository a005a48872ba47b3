//! Properties of generated rules.

use super::{names, rule, rules};
use coracle_policy::{Pattern, Rules};
use coracle_types::Decision::{self, Allow, Ask, Deny};
use proptest::prelude::*;

/// Names of few letters, so that patterns often match.
fn name() -> impl Strategy<Value = String> {
    "[ab.*\\\\]{1,6}"
}

fn server() -> impl Strategy<Value = String> {
    "[ab]{1,3}"
}

fn part() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof![3 => Just("a"), 3 => Just("b"), 3 => Just("*"), 1 => Just("\\*"), 1 => Just("\\\\"), 1 => Just(".")],
        1..6,
    )
    .prop_map(|pieces| pieces.concat())
}

fn pattern() -> impl Strategy<Value = String> {
    let server = prop::collection::vec(prop_oneof![Just("a"), Just("b"), Just("*")], 1..4);
    prop_oneof![1 => Just("*".to_owned()), 9 => (server, part()).prop_map(|(server, tool)| format!("{}.{tool}", server.concat()))]
}

/// Patterns of letters and stars only: punctuation makes no difference between such patterns.
fn letters() -> impl Strategy<Value = String> {
    "[ab*]{1,3}[.][ab*]{1,5}"
}

fn decision() -> impl Strategy<Value = Decision> {
    prop_oneof![Just(Allow), Just(Ask), Just(Deny)]
}

/// The simplest definition of what a pattern matches, to compare with.
fn means(pattern: &[char], text: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['*', rest @ ..] => (0..=text.len()).any(|taken| means(rest, &text[taken..])),
        ['\\', c, rest @ ..] | [c, rest @ ..] => text.first() == Some(c) && means(rest, &text[1..]),
    }
}

fn means_whole(pattern: &str, server: &str, name: &str) -> bool {
    let chars = |text: &str| text.chars().collect::<Vec<_>>();
    let (of_server, of_tool) = pattern.split_once('.').unwrap_or(("*", "*"));
    means(&chars(of_server), &chars(server)) && means(&chars(of_tool), &chars(name))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_pattern_matches_as_defined(pattern in pattern(), server in server(), name in name()) {
        let read: Pattern = pattern.parse().unwrap();
        prop_assert_eq!(read.matches(&names(&server, &name), Deny).is_some(), means_whole(&pattern, &server, &name));
    }

    #[test]
    fn a_more_specific_pattern_matches_nothing_else(
        one in letters(), other in letters(), server in server(), name in "[ab]{1,6}"
    ) {
        let (one, other): (Pattern, Pattern) = (one.parse().unwrap(), other.parse().unwrap());
        let names = names(&server, &name);
        if one.is_more_specific_than(&other) && one.matches(&names, Deny).is_some() {
            prop_assert!(other.matches(&names, Deny).is_some());
        }
        prop_assert!(!(one.is_more_specific_than(&other) && other.is_more_specific_than(&one)));
        prop_assert!(!one.is_more_specific_than(&one));
    }

    #[test]
    fn specificity_is_transitive(one in pattern(), two in pattern(), three in pattern()) {
        let [one, two, three] = [one, two, three].map(|text| text.parse::<Pattern>().unwrap());
        if one.is_more_specific_than(&two) && two.is_more_specific_than(&three) {
            prop_assert!(one.is_more_specific_than(&three));
        }
    }

    #[test]
    fn filling_a_star_makes_a_pattern_more_specific(before in "[ab]{0,2}", after in "[ab]{0,2}", filling in "[ab]{1,3}") {
        let wide: Pattern = format!("a.{before}*{after}").parse().unwrap();
        for text in [format!("a.{before}{filling}*{after}"), format!("a.{before}{filling}{after}")] {
            prop_assert!(text.parse::<Pattern>().unwrap().is_more_specific_than(&wide), "{text} and {wide}");
        }
    }

    #[test]
    fn the_rule_that_decides_is_beaten_by_none_and_no_equal_is_stricter(
        list in prop::collection::vec((pattern(), decision()), 0..8), server in server(), name in name()
    ) {
        let names = names(&server, &name);
        let read = |text: &str| text.parse::<Pattern>().unwrap();
        let matches = |text: &str| read(text).matches(&names, Deny).is_some();
        let about: Vec<&(String, Decision)> = list.iter().filter(|(text, _)| matches(text)).collect();
        let rules = Rules::new(list.iter().map(|(text, decision)| rule(text, *decision)).collect()).unwrap();
        match rules.decisive(&names) {
            None => prop_assert!(about.is_empty()),
            Some(decisive) => {
                let pattern = read(&decisive.pattern);
                prop_assert!(matches(&decisive.pattern));
                for (text, decision) in about {
                    let other = read(text);
                    prop_assert!(!other.is_more_specific_than(&pattern), "{text} beats {pattern}");
                    let beaten = list.iter().any(|(third, _)| matches(third) && read(third).is_more_specific_than(&other));
                    prop_assert!(beaten || *decision <= decisive.decision, "{text} is stricter than {pattern}");
                }
            }
        }
    }

    #[test]
    fn the_order_of_rules_does_not_matter(
        list in prop::collection::vec((pattern(), decision()), 0..8).prop_flat_map(|list| (Just(list.clone()), Just(list).prop_shuffle())),
        server in server(),
        name in name(),
    ) {
        let decided = |list: &[(String, Decision)]| {
            let pairs: Vec<(&str, Decision)> = list.iter().map(|(text, decision)| (text.as_str(), *decision)).collect();
            rules(&pairs).decisive(&names(&server, &name)).map(|rule| rule.decision)
        };
        prop_assert_eq!(decided(&list.0), decided(&list.1));
    }

    #[test]
    fn any_text_is_a_pattern_or_an_error(text in "\\PC{0,40}") {
        if let Ok(pattern) = text.parse::<Pattern>() {
            prop_assert_eq!(pattern.as_str(), text);
        }
    }
}
