//! Personal data that no model may see: random data goes through code in three languages and over every interface, and what
//! a model would be told is searched for it.
//!
//! `values.rs` and `records.rs` make data, `needles.rs` searches for it, the programs `act.*` do with it what code does, and
//! `lab.rs` asks over every interface.

mod example;
mod lab;
mod needles;
mod records;
mod values;

use fastrand::Rng;
use lab::{Batch, LANGUAGES, Lab, Told};
use needles::Needles;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Interfaces of a server with the profile `full`, and of programs beside it.
const WAYS: [&str; 7] = ["mcp", "api", "chat", "responses", "task", "stdio full", "stdio code"];
/// The other profiles over HTTP, and the gateway over standard input and output.
const OTHERS: [&str; 3] = ["http code", "http direct", "stdio direct"];

/// How much is tried.
struct Amount {
    /// Cases in each batch.
    cases: usize,
    /// How often each interface is used, with the next language each time.
    rounds: usize,
}

/// What was found, and how much was searched.
#[derive(Default)]
struct Outcome {
    cases: usize,
    bytes: usize,
    /// By interface and form: how often, and an example.
    leaks: BTreeMap<(String, &'static str), (usize, String)>,
    interfaces: BTreeSet<String>,
}

impl Outcome {
    fn take(&mut self, batch: &Batch, told: &Told) {
        let values = batch.records.iter().flat_map(|record| &record.planted).map(|value| value.text.as_str());
        let needles = Needles::new(values);
        self.cases += batch.records.len();
        self.bytes += told.text.len();
        self.interfaces.insert(told.by.clone());
        for (value, form, around) in needles.search(&told.text) {
            let leak = self.leaks.entry((told.by.clone(), form)).or_default();
            leak.0 += 1;
            leak.1 = format!("{value:?} in {around:?}");
        }
    }

    fn report(&self) -> String {
        let mut text = format!("{} cases, {} bytes\n", self.cases, self.bytes);
        for ((by, form), (count, example)) in &self.leaks {
            writeln!(text, "{by}: {count} {form}, such as {example}").unwrap();
        }
        text
    }
}

/// Drives data through everything in one mode.
fn drive(mode: &str, seed: u64, amount: &Amount) -> Outcome {
    println!("mode {mode}, seed {seed}");
    let (mut rng, folder) = (Rng::with_seed(seed), tempfile::tempdir().unwrap());
    let mut plans = Vec::new();
    for round in 0..amount.rounds {
        for (place, way) in WAYS.iter().chain(&OTHERS).enumerate() {
            let batch = Batch::new(folder.path(), &mut rng, plans.len(), amount.cases);
            plans.push((*way, LANGUAGES[(round + place) % LANGUAGES.len()], batch));
        }
    }
    let programs: Vec<_> = plans
        .iter()
        .map(|(_, language, batch)| (batch.name.clone(), (*language).to_owned(), batch.program(language)))
        .collect();
    let mut lab = Lab::new(mode, folder, &programs);
    let mut outcome = Outcome::default();
    for (way, language, batch) in plans.iter().filter(|(way, ..)| WAYS.contains(way)) {
        let told = match *way {
            "mcp" => lab.over_mcp(batch, language, "full"),
            "api" => lab.over_api(batch, language),
            "stdio full" => lab.over_stdio(batch, language, "full"),
            "stdio code" => lab.over_stdio(batch, language, "code"),
            way => lab.by_agent(batch, language, way),
        };
        outcome.take(batch, &told);
    }
    for profile in ["code", "direct"] {
        lab.site.stop();
        lab.site.start_as(profile);
        for (way, language, batch) in plans.iter().filter(|(way, ..)| way.ends_with(profile) && OTHERS.contains(way)) {
            batch.write_resources(lab.folder.path());
            let told = if way.starts_with("http") {
                lab.over_mcp(batch, language, profile)
            } else {
                lab.over_stdio(batch, language, profile)
            };
            outcome.take(batch, &told);
        }
    }
    let exact = lab.assert_exact(plans.iter().map(|(.., batch)| batch));
    assert!(exact > 0, "no program has stored anything");
    outcome
}

fn assert_hidden(seed: u64, amount: &Amount) {
    for mode in ["model", "strict"] {
        let outcome = drive(mode, seed, amount);
        println!("{}", outcome.report());
        assert!(outcome.leaks.is_empty(), "mode {mode}, seed {seed}: {}", outcome.report());
    }
}

#[test]
fn no_model_is_told_personal_data() {
    assert_hidden(fastrand::u64(..), &Amount { cases: 14, rounds: 1 });
}

/// The control: the same search finds the data if it is not protected.
#[test]
fn the_search_finds_data_that_is_not_protected() {
    let outcome = drive("off", 7, &Amount { cases: 18, rounds: 1 });
    for by in &outcome.interfaces {
        assert!(outcome.leaks.keys().any(|(leaked, _)| leaked == by), "nothing is found over {by}");
    }
    let forms: BTreeSet<&str> = outcome.leaks.keys().map(|(_, form)| *form).collect();
    for form in ["as it is", "JSON", "base64", "hexadecimal", "for a URL"] {
        assert!(forms.contains(form), "{form} is not among {forms:?}");
    }
}

/// Ten thousand cases.
#[test]
#[ignore = "takes minutes"]
fn soak_no_model_is_told_personal_data() {
    assert_hidden(fastrand::u64(..), &Amount { cases: 84, rounds: 6 });
}
