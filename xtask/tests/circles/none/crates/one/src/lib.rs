mod animals;
mod farm;
mod food;

pub use animals::Cow;
pub use farm::Farm;
