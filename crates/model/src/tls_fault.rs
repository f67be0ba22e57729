//! Faults of TLS in plain words: of a server's certificate, of a handshake, and of the variables that name the trusted
//! issuers. Each with what to do about it. Makes no connection.

/// The fault of a certificate or handshake in plain words, and what to do about it. An unknown fault stays as the library
/// words it. `variables`: those that name the trusted issuers, with their values.
pub(crate) fn tls_fault(why: &str, variables: &[(&'static str, String)]) -> (String, String) {
    const ISSUER: &str = "Name the issuer's certificate with SSL_CERT_FILE=FILE (PEM) if you trust it.";
    const PURPOSE: &str = "Have the server use a certificate that its issuer meant for servers.";
    const CLOCK: &str =
        "Check the clock of this machine; if it is right, the server needs a new certificate.";
    const NAME: &str = "Check the host in the base URL, or have the server use a certificate for it.";
    const SERVER: &str = "Have the server use a certificate of its own that this issuer signed.";
    const SCHEME: &str = "Write the base URL with http:// if the server has no TLS.";
    const OTHER: &str = "Check the address and the certificate of the server; a private issuer is named with SSL_CERT_FILE=FILE (PEM).";
    let known = [
        ("UnknownIssuer", "this machine does not trust the issuer of its certificate", ISSUER),
        ("Expired", "its certificate has expired", CLOCK),
        ("expired", "its certificate has expired", CLOCK),
        ("NotValidYet", "its certificate is not valid yet", CLOCK),
        ("not valid yet", "its certificate is not valid yet", CLOCK),
        ("NotValidForName", "its certificate is for another name", NAME),
        ("not valid for", "its certificate is for another name", NAME),
        ("Revoked", "its certificate was revoked", OTHER),
        ("CaUsedAsEndEntity", "its certificate is that of an issuer, not of a server", SERVER),
        ("EkuError", "its certificate is not meant for a server", PURPOSE),
        ("InvalidPurpose", "its certificate is not meant for a server", PURPOSE),
        ("purpose", "its certificate is not meant for a server", PURPOSE),
        ("BadEncoding", "its certificate cannot be read", OTHER),
        ("BadSignature", "its certificate has a wrong signature", OTHER),
        ("InvalidContentType", "it does not speak TLS there", SCHEME),
        ("corrupt message", "it does not speak TLS there", SCHEME),
    ];
    let found = known.iter().find(|(mark, ..)| why.contains(mark));
    let Some((_, plain, todo)) = found else { return (why.to_owned(), OTHER.to_owned()) };
    let todo = match variables.first() {
        Some((name, value)) if *todo == ISSUER => format!(
            "The trusted issuers are those that {name} names ({value}): add the certificate of the issuer if you trust it."
        ),
        _ => (*todo).to_owned(),
    };
    ((*plain).to_owned(), todo)
}

/// The fault of the variables that name the trusted issuers, in plain words; `None` without such a variable. Only called
/// when no issuer could be loaded, so a file with a certificate in it has one that cannot be read.
pub(crate) fn issuers_fault(variables: &[(&'static str, String)]) -> Option<String> {
    let (name, value) = variables.first()?;
    let path = std::path::Path::new(value);
    let fault = match path.metadata() {
        Err(error) => error.to_string(),
        Ok(meta) if meta.is_dir() && name.ends_with("FILE") => "it is a folder".to_owned(),
        Ok(meta) if meta.is_dir() => "it has no file with a certificate (PEM) that can be read".to_owned(),
        Ok(_) => match std::fs::read(path) {
            Err(error) => error.to_string(),
            Ok(bytes) if bytes.windows(16).any(|some| some == b"BEGIN CERTIFICAT") => {
                "none of its certificates can be read".to_owned()
            }
            Ok(_) => "it holds no certificate (PEM)".to_owned(),
        },
    };
    Some(format!("{name} names {value}: {fault}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_certificates_are_told_in_plain_words() {
        use rustls::{CertificateError as C, Error, InvalidMessage};
        for (error, want, wanted_todo) in [
            (Error::InvalidCertificate(C::UnknownIssuer), "does not trust the issuer", "SSL_CERT_FILE"),
            (Error::InvalidCertificate(C::Expired), "has expired", "clock"),
            (Error::InvalidCertificate(C::NotValidYet), "not valid yet", "clock"),
            (Error::InvalidCertificate(C::NotValidForName), "another name", "base URL"),
            (
                Error::InvalidCertificate(C::Revoked),
                "was revoked",
                "certificate of the server; a private issuer",
            ),
            (Error::InvalidMessage(InvalidMessage::InvalidContentType), "does not speak TLS", "http://"),
        ] {
            let (said, todo) = tls_fault(&error.to_string(), &[]);
            assert!(todo.contains(wanted_todo), "{error}: {todo}");
            assert!(said.contains(want), "{error}: {said}");
        }
        assert_eq!(tls_fault("something else", &[]).0, "something else");
        let named = [("SSL_CERT_FILE", "/etc/corp.pem".to_owned())];
        assert!(tls_fault("UnknownIssuer", &named).1.contains("SSL_CERT_FILE names (/etc/corp.pem)"));
    }

    #[test]
    fn what_is_wrong_with_the_trusted_issuers_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let broken = at("broken.pem", "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n");
        for (value, want) in [
            (broken, "none of its certificates can be read"),
            (at("empty.pem", ""), "holds no certificate"),
            (at("key.pem", "-----BEGIN PRIVATE KEY-----"), "holds no certificate"),
            (dir.path().join("none.pem").display().to_string(), "No such file"),
            (dir.path().display().to_string(), "it is a folder"),
        ] {
            let fault = issuers_fault(&[("SSL_CERT_FILE", value.clone())]);
            assert!(fault.is_some_and(|f| f.contains(&value) && f.contains(want)), "{value}: {want}");
        }
    }
}
