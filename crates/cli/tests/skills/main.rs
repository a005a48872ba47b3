//! Skills in real sandboxes: saving, importing, rejection and isolation; folders with instructions; and `coracle
//! skills`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue should panic")]

#[expect(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#[path = "../support/harness.rs"]
mod harness;
#[expect(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/lab.rs"]
mod lab;
#[expect(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/outcome.rs"]
mod outcome;
#[expect(dead_code, reason = "each test program uses a part of it")]
#[path = "../support/place.rs"]
mod place;

mod code;
mod command;
mod drift;
mod instructions;
mod users;
