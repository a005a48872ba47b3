use coracle_types::UserId;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The operator's groups of users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    names: BTreeSet<String>,
    of_user: HashMap<UserId, Vec<String>>,
}

impl Groups {
    /// Creates groups from the users by group. A name that no user can have is an error, because a policy that names the
    /// group would not apply to the user who is meant.
    pub fn new(groups: &BTreeMap<String, Vec<String>>) -> Result<Self, GroupError> {
        let mut of_user: HashMap<UserId, Vec<String>> = HashMap::new();
        for (group, users) in groups {
            for user in users {
                let error = || GroupError { group: group.clone(), user: user.clone() };
                let groups = of_user.entry(UserId::new(user.to_lowercase()).map_err(|_| error())?).or_default();
                if !groups.contains(group) {
                    groups.push(group.clone());
                }
            }
        }
        Ok(Self { names: groups.keys().cloned().collect(), of_user })
    }

    /// The groups of a user, sorted.
    pub fn of(&self, user: &UserId) -> &[String] {
        self.of_user.get(user).map_or(&[], Vec::as_slice)
    }

    /// Whether a user is in a group.
    pub fn has_member(&self, group: &str, user: &UserId) -> bool {
        self.of(user).iter().any(|of| of == group)
    }

    /// The users of a group.
    pub fn members(&self, group: &str) -> BTreeSet<UserId> {
        let members = self.of_user.keys().filter(|user| self.has_member(group, user));
        members.cloned().collect()
    }

    /// Whether there is a group with this name, perhaps without users.
    pub fn exists(&self, group: &str) -> bool {
        self.names.contains(group)
    }

    /// The names of all groups, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

/// A group names someone who cannot be a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("group {group:?}: {user:?} is not a user name")]
pub struct GroupError {
    /// The group.
    pub group: String,
    /// The name.
    pub user: String,
}

#[cfg(test)]
mod tests {
    use super::Groups;
    use coracle_types::UserId;
    use std::collections::BTreeMap;

    #[test]
    fn users_are_in_the_groups_that_name_them() {
        let list = |users: &[&str]| users.iter().map(|user| (*user).to_owned()).collect::<Vec<_>>();
        let named = BTreeMap::from([
            ("legal".to_owned(), list(&["kim"])),
            ("finance".to_owned(), list(&["Ann", "kim", "kim"])),
            ("empty".to_owned(), list(&[])),
        ]);
        let groups = Groups::new(&named).unwrap();
        let user = |name: &str| UserId::new(name).unwrap();
        assert_eq!(groups.of(&user("kim")), ["finance", "legal"]);
        assert!(groups.has_member("finance", &user("ann")) && !groups.has_member("legal", &user("ann")));
        assert_eq!(groups.of(&user("bob")), [""; 0]);
        assert_eq!(groups.members("finance"), [user("ann"), user("kim")].into());
        assert!(groups.members("empty").is_empty() && groups.members("sales").is_empty());
        assert!(groups.exists("empty") && !groups.exists("sales"));
        let wrong = BTreeMap::from([("finance".to_owned(), list(&["an n"]))]);
        assert_eq!(Groups::new(&wrong).unwrap_err().to_string(), "group \"finance\": \"an n\" is not a user name");
    }
}
