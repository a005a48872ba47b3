//! Skills in real sandboxes: saving, importing, rejection and isolation; folders with instructions; and `coracle
//! skills`.

mod code;
mod command;
mod drift;
mod instructions;
mod users;
