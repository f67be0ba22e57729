//! Signatures of tokens that a key file proves: RSA with SHA-256 (RS256), made by the TLS library's own cryptography.

use rustls::SignatureScheme;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

/// Signs a message with a private RSA key in PEM.
///
/// # Errors
///
/// Returns the reason if the key cannot be used. It does not quote the key.
pub fn sign_rs256(pem: &str, message: &[u8]) -> Result<Vec<u8>, &'static str> {
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| "the private key is not PEM")?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let key = provider.key_provider.load_private_key(key).map_err(|_| "the private key cannot be used")?;
    let signer =
        key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]).ok_or("the private key is not RSA")?;
    signer.sign(message).map_err(|_| "the private key cannot sign")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest as _, Sha256};
    use std::fmt::Write as _;

    /// The signature of OpenSSL: `printf a.b | openssl dgst -sha256 -sign rsa.pem | openssl dgst -sha256`.
    #[test]
    fn signatures_are_those_of_openssl() {
        let pem = include_str!("../tests/certificate/rsa.pem");
        let signature = sign_rs256(pem, b"a.b").unwrap();
        let mut hash = String::new();
        for byte in Sha256::digest(&signature) {
            let _ = write!(hash, "{byte:02x}");
        }
        assert_eq!(hash, "9b744b58f55fbcc728bb35ece31c630858748c2a4a0a80cdeb2cd97e4877e77e");
        assert_eq!(sign_rs256("no key", b""), Err("the private key is not PEM"));
    }
}
