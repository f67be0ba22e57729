//! Encryption of the connection and verification of the server: `sslmode` and `sslrootcert` in the address,
//! with the meaning they have for every PostgreSQL client.
//!
//! There is one difference. If the address sets no mode, a server on another machine must prove its identity
//! (`verify-full`); a server on this machine need not. Client certificates and channel binding are not
//! supported.

use crate::ConnectError;
use percent_encoding::percent_decode_str;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// Protocol name (ALPN) that PostgreSQL 17 and later require if the TLS handshake comes first.
const PROTOCOL: &[u8] = b"postgresql";

/// The checks that the server's certificate must pass, by `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// `require`: any certificate.
    Anybody,
    /// `verify-ca`: a certificate from the given issuer.
    Issuer,
    /// `verify-full`: a certificate from the issuer for this host name.
    Host,
}

/// The encryption settings that were found in an address.
#[derive(Debug, Default)]
struct EncryptionSettings {
    mode: Option<String>,
    roots: Option<PathBuf>,
}

/// Parses the address into the connection settings and the encryption.
///
/// # Errors
///
/// Fails if the address is invalid or its mode is not supported.
pub(crate) fn read(address: &str) -> Result<(Config, Encryption), ConnectError> {
    let (rest, wishes) = EncryptionSettings::taken_from(address);
    let mut config: Config = rest.parse().map_err(|e: tokio_postgres::Error| {
        let why =
            std::error::Error::source(&e).map_or_else(|| e.to_string(), |cause| format!("{e}: {cause}"));
        ConnectError::Address(why)
    })?;
    let far = config.get_hosts().iter().find_map(|host| match host {
        Host::Tcp(name) if !is_here(name) => Some(name.clone()),
        _ => None,
    });
    let far_address = config.get_hostaddrs().iter().find(|address| !address.is_loopback());
    let far = far.or_else(|| far_address.map(ToString::to_string));
    let sockets_alone = far.is_none() && config.get_hosts().iter().all(|host| !matches!(host, Host::Tcp(_)));
    let trust = match (wishes.mode.as_deref(), far) {
        (Some("disable"), _) | (None, None) => None,
        // As in every PostgreSQL client: a Unix socket on this machine is never encrypted.
        _ if sockets_alone => None,
        (Some("require"), _) if wishes.roots.is_none() => Some(Trust::Anybody),
        (Some("require" | "verify-ca"), _) => Some(Trust::Issuer),
        (Some("verify-full"), _) | (None, Some(_)) => Some(Trust::Host),
        (Some("allow" | "prefer"), None) => None,
        (Some(mode @ ("allow" | "prefer")), Some(host)) => {
            return Err(ConnectError::Plain { host, mode: mode.to_owned() });
        }
        (Some(mode), _) => {
            return Err(ConnectError::Address(format!(
                "sslmode={mode} is none of disable, require, verify-ca and verify-full"
            )));
        }
    };
    config.ssl_mode(if trust.is_some() { SslMode::Require } else { SslMode::Disable });
    let tls = trust.map(|trust| wishes.tls(trust)).transpose()?;
    Ok((config, Encryption { tls }))
}

/// True for names of this machine, and for the path of a Unix socket.
fn is_here(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "::1") || host.starts_with('/')
}

impl EncryptionSettings {
    /// Removes the encryption settings from the address, because the address parser does not know all of
    /// them. Returns the rest and the settings.
    fn taken_from(address: &str) -> (String, Self) {
        let mut wishes = Self::default();
        let is_url = address.starts_with("postgres://") || address.starts_with("postgresql://");
        let rest = match address.split_once('?') {
            Some((base, query)) if is_url => {
                let mut kept = Vec::new();
                for pair in query.split('&') {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    if !wishes.take(key, &percent_decode_str(value).decode_utf8_lossy()) {
                        kept.push(pair);
                    }
                }
                format!("{base}?{}", kept.join("&")).trim_end_matches('?').to_owned()
            }
            _ if is_url => address.to_owned(),
            _ => words(address)
                .into_iter()
                .filter(|word| {
                    let (key, value) = word.split_once('=').unwrap_or((word, ""));
                    !wishes.take(key.trim(), value.trim().trim_matches('\''))
                })
                .collect(),
        };
        (rest, wishes)
    }

    fn take(&mut self, key: &str, value: &str) -> bool {
        match key {
            "sslmode" => self.mode = Some(value.to_owned()),
            "sslrootcert" if value == "system" => self.roots = None,
            "sslrootcert" => self.roots = Some(PathBuf::from(value)),
            _ => return false,
        }
        true
    }

    fn tls(&self, trust: Trust) -> Result<TlsConnector, ConnectError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let unusable = |why: String| {
            let of = self.roots.as_ref().map_or_else(
                || "the certificates that this machine trusts".to_owned(),
                |file| format!("sslrootcert={}", file.display()),
            );
            ConnectError::Address(format!("{of} cannot be used: {why}"))
        };
        let issuer: Option<Arc<dyn ServerCertVerifier>> = match (&self.roots, trust) {
            (_, Trust::Anybody) => None,
            (None, _) => Some(Arc::new(
                rustls_platform_verifier::Verifier::new(Arc::clone(&provider))
                    .map_err(|e| unusable(e.to_string()))?,
            )),
            (Some(file), _) => {
                let mut roots = RootCertStore::empty();
                for root in
                    CertificateDer::pem_file_iter(file).map_err(|e| unusable(format!("{e}, in PEM")))?
                {
                    roots
                        .add(root.map_err(|e| unusable(e.to_string()))?)
                        .map_err(|e| unusable(e.to_string()))?;
                }
                if roots.is_empty() {
                    return Err(unusable("there is no certificate in it, in PEM".to_owned()));
                }
                let verifier =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
                Some(verifier.build().map_err(|e| unusable(e.to_string()))?)
            }
        };
        let check = Check { issuer, host: trust == Trust::Host, provider: Arc::clone(&provider) };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| unusable(e.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(check))
            .with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

/// Splits an address of the form `key=value key=value` into its words, each with the white space after it. Values may be quoted.
fn words(text: &str) -> Vec<&str> {
    let (mut out, mut start, mut quoted, mut escaped, mut space) = (Vec::new(), 0, false, false, false);
    for (at, c) in text.char_indices() {
        if space && !c.is_whitespace() {
            out.push(&text[start..at]);
            start = at;
        }
        space = !quoted && c.is_whitespace();
        quoted ^= c == '\'' && !escaped;
        escaped = c == '\\' && !escaped;
    }
    out.push(&text[start..]);
    out
}

/// A certificate verifier that checks only as much as the mode requires.
#[derive(Debug)]
struct Check {
    issuer: Option<Arc<dyn ServerCertVerifier>>,
    host: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Check {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(issuer) = &self.issuer else { return Ok(ServerCertVerified::assertion()) };
        match issuer.verify_server_cert(certificate, between, host, ocsp, now) {
            // The verifier checks the host name last. If only the name is wrong, the certificate has passed every other check.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.host => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns a hint for the user if the server's certificate was refused; `None` for every other error.
pub(crate) fn advice(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let rustls = error.downcast_ref::<Error>().or_else(|| inner?.downcast_ref::<Error>());
        if let Some(Error::InvalidCertificate(why)) = rustls {
            return Some(match why {
                CertificateError::UnknownIssuer => {
                    "its certificate is of an issuer that this machine does not trust: name the issuer's certificate \
                     with sslrootcert=FILE"
                }
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    "its certificate is for another name: write the address with the name in the certificate, or \
                     sslmode=verify-ca if every server of its issuer is right"
                }
                _ => "its certificate is not valid: have it renewed",
            });
        }
        cause = error.source();
    }
    None
}

/// Makes connections, encrypted or not.
#[derive(Clone)]
pub(crate) struct Encryption {
    tls: Option<TlsConnector>,
}

impl<S> MakeTlsConnect<S> for Encryption
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        // The name is used only for encryption. Without encryption it may be missing or invalid.
        let name = ServerName::try_from(host.to_owned());
        Ok(Handshake { tls: self.tls.clone().zip(name.ok()) })
    }
}

/// A handshake with one host.
pub(crate) struct Handshake {
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let unnamed =
                || io::Error::new(io::ErrorKind::InvalidInput, "the host has no name that can be proved");
            let (tls, name) = self.tls.ok_or_else(unnamed)?;
            Ok(Stream(tls.connect(name, stream).await?))
        })
    }
}

/// An encrypted connection.
pub(crate) struct Stream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(address: &str) -> (String, Option<String>, Option<PathBuf>) {
        let (rest, wishes) = EncryptionSettings::taken_from(address);
        (rest, wishes.mode, wishes.roots)
    }

    #[test]
    fn an_address_is_read_without_what_it_says_of_encryption() {
        let full = Some("verify-full".to_owned());
        assert_eq!(
            wishes("postgres://me@h/db?sslmode=verify-full&a=b&sslrootcert=%2Fetc%2Fmy%20ca.pem"),
            ("postgres://me@h/db?a=b".into(), full.clone(), Some("/etc/my ca.pem".into()))
        );
        assert_eq!(
            wishes("postgresql://h?sslmode=verify-full&sslrootcert=system"),
            ("postgresql://h".into(), full.clone(), None)
        );
        assert_eq!(
            wishes("host=h password='a  \\' sslmode=x' sslmode='verify-full' user=me"),
            ("host=h password='a  \\' sslmode=x' user=me".into(), full, None)
        );
        assert_eq!(wishes("postgres://h/db"), ("postgres://h/db".into(), None, None));
    }

    #[test]
    fn another_machine_is_never_reached_openly_unasked() {
        let mode = |address: &str| read(address).map(|(config, _)| config.get_ssl_mode());
        for (address, wanted) in [
            ("postgres://db.example.org/x", SslMode::Require),
            ("postgres://db.example.org/x?sslmode=require", SslMode::Require),
            ("postgres://db.example.org/x?sslmode=verify-ca", SslMode::Require),
            ("postgres://db.example.org/x?sslmode=disable", SslMode::Disable),
            ("postgres://localhost,db.example.org/x", SslMode::Require),
            ("postgres://localhost/x", SslMode::Disable),
            ("postgres://localhost/x?sslmode=prefer", SslMode::Disable),
            ("postgres://localhost/x?sslmode=verify-full", SslMode::Require),
            ("postgres:///x?host=/run/postgresql&sslmode=require", SslMode::Disable),
            ("host=/run/postgresql user=me", SslMode::Disable),
            ("host=localhost hostaddr=192.0.2.1 user=me", SslMode::Require),
            ("hostaddr=127.0.0.1 user=me", SslMode::Disable),
        ] {
            assert_eq!(mode(address).unwrap(), wanted, "{address}");
        }
        let far = mode("postgres://db.example.org/x?sslmode=prefer").unwrap_err();
        assert!(matches!(&far, ConnectError::Plain { host, .. } if host == "db.example.org"), "{far}");
        for (address, said) in [
            ("postgres://h/x?sslmode=on", "sslmode=on is none of"),
            (
                "postgres://h/x?sslrootcert=/nonexistent/ca.pem",
                "sslrootcert=/nonexistent/ca.pem cannot be used",
            ),
            ("postgres://h/x?sslcert=a.pem", "unknown option `sslcert`"),
        ] {
            let refused = mode(address).unwrap_err().to_string();
            assert!(refused.contains(said), "{address}: {refused}");
        }
    }
}
