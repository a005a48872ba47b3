pub struct Food;
// crate::farm::Farm
const TEXT: &str = "crate::farm::Farm";

#[cfg(test)]
use crate::farm::Farm;

#[cfg(test)]
fn farm() -> Farm {
    crate::farm::Farm(Vec::new())
}
