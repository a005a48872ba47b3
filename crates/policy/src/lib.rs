//! May this happen? Rules of the configuration, people who are asked, and what they said.
