mod cow;
mod noise;

pub use cow::Cow;

use crate::food::Food;

/// Used by a child, and uses one: a module and its children are one unit.
pub(crate) struct Animal {
    pub(crate) eats: Food,
}

pub(crate) fn loudest() -> &'static str {
    noise::MOO
}
