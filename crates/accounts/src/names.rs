//! Normalization and reservation of user names.

use crate::error::AccountError;
use coracle_store::TokenDigest;
use coracle_types::UserId;
use unicode_normalization::UnicodeNormalization as _;

/// Names that have a special meaning or suggest one. New users cannot have them.
const RESERVED: &[&str] =
    &["all", "anonymous", "coderunner", "coracle", "everyone", "local", "me", "nobody", "shared", "system"];

/// Names that only the operator may assign: they are rejected from providers and proxies.
const OPERATORS: &[&str] = &["admin", "administrator", "operator", "root"];

/// Maximum length of a name that is derived from a provider's claims.
const MAX_PLAIN: usize = 40;

/// Origin of a user name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameSource {
    /// The operator, by `coracle users` or as an admin.
    Operator,
    /// An OpenID provider, or a trusted proxy.
    Foreign,
}

/// Normalizes a user name. Case is folded because file systems and people do not always distinguish it.
pub fn user_name(text: &str) -> Result<UserId, AccountError> {
    let name: String = text.nfkc().flat_map(char::to_lowercase).collect();
    Ok(UserId::new(name.trim())?)
}

/// Normalizes the name of a new user and rejects reserved names.
pub fn new_user_name(text: &str, source: NameSource) -> Result<UserId, AccountError> {
    let name = user_name(text)?;
    if is_reserved(&name, source) { Err(AccountError::Reserved(name)) } else { Ok(name) }
}

/// Whether new users from this source cannot have this name.
pub fn is_reserved(name: &UserId, source: NameSource) -> bool {
    let name = name.as_str();
    RESERVED.contains(&name) || (source == NameSource::Foreign && OPERATORS.contains(&name))
}

/// Whether this is the name of the local user, who never signs in.
pub fn is_local_user(name: &UserId) -> bool {
    *name == UserId::local()
}

/// Candidate names for a user of a provider, in order of preference. The last one is unique.
pub(crate) fn foreign_names(wanted: &str, identity: &TokenDigest) -> Vec<UserId> {
    let short = plain(wanted);
    let own = format!("{short}-{}", &identity.as_str()[..12]);
    [short, own].iter().filter_map(|name| new_user_name(name, NameSource::Foreign).ok()).collect()
}

/// Converts a foreign name to a valid user name.
fn plain(text: &str) -> String {
    let text: String = text.split('@').next().unwrap_or_default().nfkc().flat_map(char::to_lowercase).collect();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = text.chars().take(MAX_PLAIN).map(plain).collect();
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { "user".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{NameSource, foreign_names, new_user_name, plain, user_name};
    use coracle_store::TokenDigest;
    use coracle_types::UserId;

    #[test]
    fn all_spellings_of_a_name_are_one_name() {
        for written in ["bob", "BOB", " Bob\t", "ＢＯＢ", "bＯb"] {
            assert_eq!(user_name(written).unwrap().as_str(), "bob", "{written:?}");
        }
        for wrong in ["", " ", "b ob", "böb", "../bob", ".bob", "-bob", "b\u{200b}ob", &"x".repeat(65)] {
            assert!(user_name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn reserved_names_are_rejected() {
        for name in ["local", "LOCAL", " Local ", "ｌｏｃａｌ", "shared", "anonymous"] {
            for source in [NameSource::Operator, NameSource::Foreign] {
                let error = new_user_name(name, source).unwrap_err();
                assert_eq!(error.code(), "reserved_name", "{name}");
            }
        }
        for name in ["admin", "Root"] {
            assert!(new_user_name(name, NameSource::Operator).is_ok(), "{name}");
            assert_eq!(new_user_name(name, NameSource::Foreign).unwrap_err().code(), "reserved_name", "{name}");
        }
        for name in ["locals", "local-1", "ann"] {
            assert!(new_user_name(name, NameSource::Foreign).is_ok(), "{name}");
        }
    }

    #[test]
    fn foreign_names_become_valid_names() {
        for (foreign, name) in [
            ("Ann.Lee@example.com", "ann.lee"),
            ("auth0|1234", "auth0-1234"),
            ("../../etc", "etc"),
            ("Ünger", "nger"),
            ("删除", "user"),
            ("@x", "user"),
        ] {
            assert_eq!(plain(foreign), name);
            UserId::new(plain(foreign)).unwrap();
        }
        assert_eq!(plain(&"x".repeat(500)).len(), 40);
        let digest = TokenDigest::of("somebody");
        let names = |wanted: &str| foreign_names(wanted, &digest).iter().map(ToString::to_string).collect::<Vec<_>>();
        let end = &digest.as_str()[..12];
        assert_eq!(names("Ann"), ["ann".to_owned(), format!("ann-{end}")]);
        assert_eq!(names("local@example.com"), [format!("local-{end}")]);
        assert_eq!(names("ＬＯＣＡＬ"), [format!("local-{end}")]);
        assert_eq!(names("admin"), [format!("admin-{end}")]);
    }
}
