use crate::bank::Account;
