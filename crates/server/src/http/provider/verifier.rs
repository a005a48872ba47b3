//! Verifies token signatures with `ring`, which is already part of the program for TLS. Signing and symmetric keys are
//! not supported.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

static PROVIDER: CryptoProvider =
    CryptoProvider { signer_factory: no_signer, verifier_factory: verifier, key_utils: KeyUtils::new_unimplemented() };

/// Installs the verifier. Must be called before a token is decoded.
pub(super) fn install() {
    // An error means that it is already installed.
    let _ = PROVIDER.install_default();
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the library defines the signature")]
fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the library defines the signature")]
fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    if key.family() != algorithm.family() || way(*algorithm).is_none() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(Ring { algorithm: *algorithm, key: key.clone() }))
}

enum Way {
    Rsa(&'static RsaParameters),
    Other(&'static dyn VerificationAlgorithm),
}

fn way(algorithm: Algorithm) -> Option<Way> {
    Some(match algorithm {
        Algorithm::RS256 => Way::Rsa(&RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Way::Rsa(&RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Way::Rsa(&RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Way::Rsa(&RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Way::Rsa(&RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Way::Rsa(&RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Way::Other(&ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Way::Other(&ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Way::Other(&ED25519),
        _ => return None,
    })
}

/// Whether signatures of this algorithm are accepted.
pub(super) fn is_taken(algorithm: Algorithm) -> bool {
    way(algorithm).is_some()
}

struct Ring {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl signature::Verifier<Vec<u8>> for Ring {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match (way(self.algorithm), self.key.kind()) {
            (Some(Way::Rsa(parameters)), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                let key = RsaPublicKeyComponents { n: without_zeros(n), e: without_zeros(e) };
                key.verify(parameters, message, signature)
            }
            (Some(Way::Other(algorithm)), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(algorithm, key).verify(message, signature)
            }
            _ => return Err(signature::Error::new()),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Ring {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// Removes the leading zeros that some providers send, as if the numbers were signed.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}
