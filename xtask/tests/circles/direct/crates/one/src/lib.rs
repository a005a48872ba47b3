mod hen;
mod egg;

pub use egg::Egg;
