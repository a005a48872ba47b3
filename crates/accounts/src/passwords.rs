//! Password hashing with argon2id, off the async threads, with a limit on parallel work.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use coracle_types::Secret;
use std::sync::Arc;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

/// Minimum length of a password in characters.
pub const MIN_PASSWORD_CHARS: usize = 10;
/// Maximum length of a password in bytes.
pub(crate) const MAX_PASSWORD_BYTES: usize = 1024;
/// Parameters that OWASP recommends first for argon2id: memory in KiB, passes, lanes.
const COST: (u32, u32, u32) = (19 * 1024, 2, 1);
/// Number of parallel hashes; each takes 19 MiB and a core.
const AT_ONCE: usize = 2;
/// Number of hashes that may wait.
const WAITING: usize = 64;

#[derive(Debug)]
pub(crate) struct Passwords {
    working: Arc<Semaphore>,
    room: Arc<Semaphore>,
    /// Hash of an unused password. It is verified when a user has no password, so that this takes equally long.
    unused_hash: OnceCell<Secret>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self {
            working: Arc::new(Semaphore::new(AT_ONCE)),
            room: Arc::new(Semaphore::new(AT_ONCE + WAITING)),
            unused_hash: OnceCell::new(),
        }
    }
}

fn argon2() -> Result<Argon2<'static>, String> {
    let (memory, passes, lanes) = COST;
    let params = Params::new(memory, passes, lanes, None).map_err(|error| error.to_string())?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

impl Passwords {
    /// Hashes a password.
    pub(crate) async fn hash(&self, password: Secret) -> Result<Secret, String> {
        self.aside(move || {
            let hash = argon2()?.hash_password(password.expose().as_bytes());
            hash.map(|hash| Secret::new(hash.to_string())).map_err(|error| format!("cannot hash the password: {error}"))
        })
        .await?
    }

    /// Whether a password matches a hash. Without a hash the answer is `false`, after the same time.
    pub(crate) async fn verify(&self, password: Secret, hash: Option<Secret>) -> Result<bool, String> {
        let is_there = hash.is_some();
        let hash = match hash {
            Some(hash) => hash,
            None => self.unused_hash.get_or_try_init(|| self.hash(Secret::new("nobody has this one"))).await?.clone(),
        };
        let is_right = self
            .aside(move || {
                let hash = PasswordHash::new(hash.expose()).map_err(|error| error.to_string())?;
                Ok::<_, String>(argon2()?.verify_password(password.expose().as_bytes(), &hash).is_ok())
            })
            .await??;
        Ok(is_right && is_there)
    }

    /// Runs work on a blocking thread, one after another.
    async fn aside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
        let room =
            Arc::clone(&self.room).try_acquire_owned().map_err(|_| "too many password checks at once".to_owned())?;
        let turn = Arc::clone(&self.working).acquire_owned().await.map_err(|error| error.to_string())?;
        // The permits are held until the work is done, even if the caller no longer waits.
        let held: (OwnedSemaphorePermit, OwnedSemaphorePermit) = (room, turn);
        let done = tokio::task::spawn_blocking(move || {
            let outcome = work();
            drop(held);
            outcome
        });
        done.await.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::Passwords;
    use coracle_types::Secret;

    #[tokio::test]
    async fn a_password_is_verified_against_its_hash() {
        let passwords = Passwords::default();
        let hash = passwords.hash(Secret::new("correct horse")).await.unwrap();
        assert!(hash.expose().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.expose());
        assert_ne!(hash, passwords.hash(Secret::new("correct horse")).await.unwrap());
        assert!(passwords.verify(Secret::new("correct horse"), Some(hash.clone())).await.unwrap());
        assert!(!passwords.verify(Secret::new("correct horsf"), Some(hash)).await.unwrap());
        assert!(!passwords.verify(Secret::new("nobody has this one"), None).await.unwrap());
        assert!(passwords.verify(Secret::new("x"), Some(Secret::new("$argon2id$broken"))).await.is_err());
    }
}
