//! Many users on one server: users are isolated, acknowledged work is never lost, and the API matches its document.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

#[expect(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#[path = "../support/harness.rs"]
mod harness;
#[expect(dead_code, reason = "each test program uses a part of it")]
#[path = "../bridge/lab.rs"]
mod lab;
#[expect(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/outcome.rs"]
mod outcome;
#[expect(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/place.rs"]
mod place;

mod data_folder;
mod document;
mod durability;
mod faults;
mod isolation;
mod site;
mod slow;
mod stopping;
mod views;
