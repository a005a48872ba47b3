/// Comes out of one.
pub struct Hen(crate::Egg);
