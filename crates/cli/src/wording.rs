//! A lint over the descriptions that people and models read: API document, settings schema, `--help` and tool definitions.

use crate::Arguments;
use clap::{Command, CommandFactory as _};
use coracle_server::{Profile, offered_tools};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A description that starts with one of these does not name what it describes.
const HEADLESS: &[&str] = &[
    "he", "his", "how", "it", "its", "nobody", "others", "she", "so", "somebody", "such", "that", "their", "them",
    "these", "they", "this", "those", "what", "which", "who", "whoever", "whom", "whose",
];

/// Words that are not used in descriptions.
const AVOIDED: &[&str] = &[
    "desk",
    "door",
    "for ever",
    "mend",
    "mends",
    "nobody",
    "so many",
    "so much",
    "somebody",
    "was to be had",
    "whoever",
    "whomever",
];

/// Converts a text to lower-case words separated by single spaces.
fn words(text: &str) -> String {
    let letters = text.chars().map(|letter| if letter.is_alphanumeric() { letter.to_ascii_lowercase() } else { ' ' });
    letters.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns what is wrong with a description, if anything.
fn fault(description: &str) -> Option<String> {
    let words = words(description);
    let mut each = words.split(' ');
    let first = each.next().filter(|word| !word.is_empty());
    if first.is_none() || each.next().is_none() {
        return Some("a description has at least two words".to_owned());
    }
    if let Some(word) = HEADLESS.iter().find(|word| Some(**word) == first) {
        return Some(format!("it starts with \"{word}\" instead of naming the thing"));
    }
    let padded = format!(" {words} ");
    let avoided = AVOIDED.iter().find(|phrase| padded.contains(&format!(" {phrase} ")));
    avoided.map(|phrase| format!("\"{phrase}\" is not used in descriptions"))
}

/// Descriptions with their places.
#[derive(Default)]
struct Descriptions(Vec<(String, String)>);

impl Descriptions {
    fn of_file(&mut self, path: &str) {
        let text = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap();
        self.of_json(path, &serde_json::from_slice(&text).unwrap());
    }

    fn of_json(&mut self, place: &str, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let place = format!("{place}/{key}");
                    match value {
                        Value::String(text) if key == "description" || key == "summary" => {
                            self.0.push((place, text.clone()));
                        }
                        value => self.of_json(&place, value),
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|value| self.of_json(place, value)),
            _ => {}
        }
    }

    fn of_help(&mut self, above: &str, command: &Command) {
        let place = format!("{above} {}", command.get_name());
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        self.0.push((place.clone(), about));
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            self.0.push((format!("{place} {}", argument.get_id()), help));
        }
        for below in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            self.of_help(&place, below);
        }
    }
}

#[test]
fn descriptions_name_the_thing() {
    let mut all = Descriptions::default();
    let mut found = |name: &str, read: &dyn Fn(&mut Descriptions), at_least: usize| {
        let before = all.0.len();
        read(&mut all);
        let number = all.0.len() - before;
        assert!(number >= at_least, "the control: {name} has {number} descriptions");
    };
    found("the API document", &|all| all.of_file("docs/openapi.json"), 400);
    found("the schema", &|all| all.of_file("schema/coracle.schema.json"), 80);
    found("the help", &|all| all.of_help("", &Arguments::command()), 150);
    found(
        "the tool list",
        &|all| {
            for tool in [Profile::Code, Profile::Full].into_iter().flat_map(offered_tools) {
                all.of_json(tool.name, &serde_json::to_value(&tool).unwrap());
            }
        },
        30,
    );
    let faults: Vec<String> = all
        .0
        .iter()
        .filter_map(|(place, text)| fault(text).map(|fault| format!("{place}: {text:?}: {fault}")))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn faults_are_found() {
    for bad in ["", "Which", "It is gone", "What they are called.", "Result for whoever asks", "Given for ever"] {
        assert!(fault(bad).is_some(), "{bad}");
    }
    for good in ["Artifact ID", "Maximum number of results", "List artifacts", "Disable the user's keys"] {
        assert_eq!(fault(good), None);
    }
}
