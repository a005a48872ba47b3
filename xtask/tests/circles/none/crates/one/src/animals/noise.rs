pub(super) const MOO: &str = "moo";
