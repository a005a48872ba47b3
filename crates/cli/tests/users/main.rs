//! Many users on one server: users are isolated, acknowledged work is never lost, and the API matches its document.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod agent;
mod agent_limits;
mod approvals;
mod chapters;
mod chat;
mod clients;
mod conversations;
mod data_folder;
mod decisions;
mod demo;
mod direct_requests;
mod document;
mod durability;
mod faults;
mod flows;
mod hostile_models;
mod isolation;
mod killed_runs;
mod leaks;
mod listening;
mod live_settings;
mod local_models;
mod page;
mod playing;
mod queues;
mod readers;
mod recording;
mod responses;
mod server_sign_ins;
mod site;
mod slow;
mod stopping;
mod unlisted;
mod uploads;
mod usage;
mod user_data;
mod views;
