use super::Animal;
use super::noise::MOO;

pub struct Cow(Animal);

impl Cow {
    pub fn says(&self) -> &'static str {
        MOO
    }
}

#[cfg(test)]
mod tests {
    // Only a test: it does not count.
    use crate::farm::Farm;
}
