pub(crate) mod till;
mod visitors;
