//! Many users on one server: users are isolated, acknowledged work is never lost, and the API matches its document.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod agent;
mod agent_limits;
mod data_folder;
mod demo;
mod document;
mod durability;
mod faults;
mod isolation;
mod killed_runs;
mod listening;
mod local_models;
mod official_client;
mod page;
mod playing;
mod responses;
mod site;
mod slow;
mod stopping;
mod views;
