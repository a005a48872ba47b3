use std::fmt;
use super::hen;

pub struct Egg;

pub fn hatch() -> hen::Hen {
    format!("{}", crate::hen::Hen::name());
    hen::Hen(Egg)
}
