//! Skills in real sandboxes: saving, importing, rejection and isolation; folders with instructions; and `coracle
//! skills`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue should panic")]

mod code;
mod command;
mod drift;
mod instructions;
mod users;
