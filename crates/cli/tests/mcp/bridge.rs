//! Code that uses third-party MCP servers through the real program: results, errors, faults, secrets, questions and
//! limits. The servers are real, from npm and PyPI, with scripts of our own where a server must misbehave.

mod ask;
mod canaries;
mod caps;
mod environment;
mod failures;
mod faults;
mod many_servers;
mod memory;
mod orphans;
mod programs;
mod refusals;
mod search;
mod shared_servers;
mod starting;
mod terminal;
mod typescript;
mod unusable;
mod users;
