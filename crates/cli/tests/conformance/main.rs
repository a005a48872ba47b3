//! The official conformance suite: its server scenarios against a gateway in front of `fixture.py`, and its client
//! scenarios against `driver.rs`. Prints every scenario with its outcome.
//!
//! Failures must be listed in `expected-failures.yaml`, and everything listed must fail. An argument, as in `cargo test
//! --test conformance -- client`, selects runs by name.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod driver;
mod gateway;
mod suite;

use gateway::{Gateway, Generation};
use std::process::ExitCode;
use suite::{Outcome, Role, Suite};

/// Versions of the suite with revisions of the protocol.
const RUNS: [(Suite, &str); 4] =
    [(Suite::Old, "2025-06-18"), (Suite::Old, "2025-11-25"), (Suite::New, "2025-11-25"), (Suite::New, "2026-07-28")];

/// Scenarios of a 2026 client against a 2025 server, except questions: an unanswered question leaves a call running,
/// and the next question can then not be attributed. Half of the scenarios leave one.
const WITHOUT_QUESTIONS: &[&str] = &[
    "caching",
    "completion-complete",
    "http-custom-header-server-validation",
    "http-header-validation",
    "json-schema-2020-12",
    "prompts-get-embedded-resource",
    "prompts-get-with-image",
    "resources-read-binary",
    "sep-2164-resource-not-found",
    "tools-call-error",
    "tools-call-mixed-content",
    "tools-call-with-progress",
    "tools-list",
];

fn main() -> ExitCode {
    if std::env::var_os(driver::SCENARIO).is_some() {
        let address = std::env::args().next_back().unwrap_or_default();
        return match driver::drive(&address) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()));
    let mut failed = Vec::new();
    let mut run = |name: String, act: &dyn Fn() -> Outcome| {
        if !is_wanted(&name) {
            return;
        }
        let outcome = act();
        println!("\n{name}: {outcome}");
        if !outcome.is_as_expected() {
            failed.push(name);
        }
    };
    for generation in [Generation::Stateless, Generation::Initialize] {
        for (suite, revision) in RUNS {
            let name = format!("server, {suite} for {revision}, in front of {generation}");
            run(name, &|| {
                let gateway = Gateway::start(generation);
                let is_translated = (generation, suite, revision) == (Generation::Initialize, Suite::New, "2026-07-28");
                let only = if is_translated { WITHOUT_QUESTIONS } else { &[] };
                suite.run(Role::Server(&gateway.url), revision, only)
            });
        }
    }
    for (suite, revision) in RUNS {
        run(format!("client, {suite} for {revision}"), &|| suite.run(Role::Client, revision, &[]));
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("\nnot as expected: {}", failed.join("; "));
    ExitCode::FAILURE
}
