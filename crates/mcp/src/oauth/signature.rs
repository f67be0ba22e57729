//! Signatures of assertions, made by the library that also makes connections. The kind of the key decides the algorithm.

use rustls::SignatureScheme;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

/// Algorithms by their names in a JWT, with the length of each of the two numbers of a signature by a curve.
const ALGORITHMS: [(SignatureScheme, &str, Option<usize>); 3] = [
    (SignatureScheme::RSA_PKCS1_SHA256, "RS256", None),
    (SignatureScheme::ECDSA_NISTP256_SHA256, "ES256", Some(32)),
    (SignatureScheme::ECDSA_NISTP384_SHA384, "ES384", Some(48)),
];

/// Signs a message with a private key in PEM. The message is made when the name of the algorithm is known.
///
/// # Errors
///
/// Returns the reason if the key cannot be used. It does not quote the key.
pub(super) fn sign(pem: &str, message: impl FnOnce(&str) -> String) -> Result<(String, Vec<u8>), String> {
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| "the private key is not PEM")?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let key = provider.key_provider.load_private_key(key).map_err(|_| "the private key cannot be used")?;
    let found = ALGORITHMS
        .iter()
        .find_map(|(scheme, name, length)| Some((key.choose_scheme(&[*scheme])?, name, length)));
    let (signer, name, length) =
        found.ok_or("the private key is neither RSA nor of the curves P-256 and P-384")?;
    let message = message(name);
    let signature = signer.sign(message.as_bytes()).map_err(|_| "the private key cannot sign")?;
    let signature = match length {
        Some(length) => numbers(&signature, *length).ok_or("the signature has an unknown form")?,
        None => signature,
    };
    Ok((message, signature))
}

/// Converts a signature from DER (a sequence of two integers) to the two numbers, each of this length.
fn numbers(der: &[u8], length: usize) -> Option<Vec<u8>> {
    let (0x30, mut rest) = field(der)? else { return None };
    let mut out = Vec::with_capacity(2 * length);
    for _ in 0..2 {
        let (tag, number) = field(rest)?;
        rest = rest.get(rest.len() - after(rest, number)..)?;
        let number = match number {
            [0, number @ ..] => number,
            number => number,
        };
        if tag != 0x02 || number.len() > length {
            return None;
        }
        out.resize(out.len() + length - number.len(), 0);
        out.extend_from_slice(number);
    }
    rest.is_empty().then_some(out)
}

/// Returns the tag and the content of the first field.
fn field(der: &[u8]) -> Option<(u8, &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0x81 => {
            let (length, rest) = rest.split_first()?;
            (*length, rest)
        }
        short if *short < 0x80 => (*short, rest),
        _ => return None,
    };
    Some((*tag, rest.get(..usize::from(length))?))
}

/// Returns the number of bytes after a field.
fn after(der: &[u8], content: &[u8]) -> usize {
    let end = content.as_ptr() as usize + content.len() - der.as_ptr() as usize;
    der.len() - end
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that were made for this test: `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`, and so on.
    const P256: &str = include_str!("../../tests/keys/p256.pem");
    const P384: &str = include_str!("../../tests/keys/p384.pem");

    #[test]
    fn the_key_decides_the_algorithm() {
        for (pem, name, length) in [(P256, "ES256", 64), (P384, "ES384", 96)] {
            let (message, signature) = sign(pem, |algorithm| format!("{algorithm}.body")).unwrap();
            assert_eq!((message, signature.len()), (format!("{name}.body"), length));
        }
        assert_eq!(sign("no key", str::to_owned), Err("the private key is not PEM".to_owned()));
    }

    #[test]
    fn numbers_of_a_signature_have_their_whole_length() {
        let der = |parts: &[&[u8]]| {
            let body: Vec<u8> =
                parts.iter().flat_map(|part| [&[2, part.len() as u8], *part].concat()).collect();
            [vec![0x30, body.len() as u8], body].concat()
        };
        assert_eq!(numbers(&der(&[&[1, 2], &[0, 0xff, 3]]), 3), Some(vec![0, 1, 2, 0, 0xff, 3]));
        assert_eq!(numbers(&der(&[&[1, 2, 3, 4], &[1]]), 3), None);
        assert_eq!(numbers(&der(&[&[1]]), 3), None);
        assert_eq!(numbers(&[0x30, 5, 2], 3), None);
        assert_eq!(numbers(&[], 3), None);
    }
}
