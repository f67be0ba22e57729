//! An encrypted way to a store: what the address asks for is what is done, and who does not prove itself is not talked to.
//!
//! Where no server can be started, the test says that it skipped.

use crate::server::Server;
use becket_session::context::{ModelScope, Policy};
use becket_session::store::Outside;
use becket_session::{CreateOptions, Durability, Session};
use becket_store_postgres::Postgres;
use becket_types::{EntryKind, Message};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

fn connect(address: &str) -> Result<(Postgres, tempfile::TempDir), String> {
    let home = tempfile::tempdir().unwrap();
    let store = Postgres::connect(address, home.path()).map_err(|e| e.to_string())?;
    Ok((store, home))
}

fn refused(address: &str) -> String {
    connect(address).map(drop).unwrap_err()
}

#[test]
fn a_server_proves_who_it_is_as_far_as_the_address_asks() {
    let Some((server, port)) = Server::start_encrypted() else { return };
    let ca = server.dir().join("ca.pem");
    let at = |host: &str, mode: &str| format!("postgres://alice@{host}:{port}/postgres?sslmode={mode}");
    let known = |host: &str, mode: &str| format!("{}&sslrootcert={}", at(host, mode), ca.display());

    // A session is written and read over an encrypted connection.
    let (store, home) = connect(&known("localhost", "verify-full")).unwrap();
    let of_alice = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'alice'";
    assert_eq!(server.sql("postgres", of_alice), "t\n");
    let outside = Outside { io: Arc::new(store), ..Outside::default() };
    let options = CreateOptions { persist: true, outside, ..CreateOptions::default() };
    let scope = ModelScope {
        provider: "p".into(),
        model: "m".into(),
        images: true,
        max_images: 10,
        max_media_bytes: 1 << 20,
    };
    let root = home.path().join("sessions");
    let mut session = Session::create(&root, Path::new("/"), options, Policy::default(), scope).unwrap();
    let long = "said ".repeat(100_000);
    session.append(vec![EntryKind::Message { message: Message::user(long) }], Durability::Synced).unwrap();
    assert_eq!(session.take_notices(), [] as [String; 0]);
    let id = session.id();
    drop(session);
    let (_other, copy) = connect(&known("localhost", "verify-full")).unwrap();
    let there = becket_session::store::list(&copy.path().join("sessions"), None).unwrap();
    assert_eq!(there.iter().map(|s| (s.id, s.ledger.bytes > 500_000)).collect::<Vec<_>>(), [(id, true)]);

    connect(&known("127.0.0.1", "verify-ca")).unwrap();
    connect(&known("127.0.0.1", "require")).unwrap();
    connect(&at("127.0.0.1", "require")).unwrap();

    let name = refused(&known("127.0.0.1", "verify-full"));
    assert!(name.contains("certificate is for another name") && name.contains("verify-ca"), "{name}");
    for mode in ["verify-full", "verify-ca"] {
        let issuer = refused(&at("localhost", mode));
        assert!(issuer.contains("sslrootcert=FILE") && issuer.contains("unset BECKET_STORE"), "{issuer}");
    }
    let open = refused(&at("localhost", "disable"));
    assert!(open.contains("no encryption"), "{open}");
    let other = server.dir().join("server.key");
    let no_certificate =
        refused(&format!("{}&sslrootcert={}", at("localhost", "verify-full"), other.display()));
    assert!(no_certificate.contains("no certificate in it"), "{no_certificate}");
}

#[test]
fn a_server_without_encryption_is_not_talked_to_where_it_is_asked_for() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let answers = std::thread::spawn(move || {
        let (mut connection, _) = socket.accept().unwrap();
        let mut request = [0; 8];
        connection.read_exact(&mut request).unwrap();
        connection.write_all(b"N").unwrap();
        let mut rest = Vec::new();
        connection.read_to_end(&mut rest).unwrap();
        rest
    });
    let said = refused(&format!("postgres://alice:secret@127.0.0.1:{port}/db?sslmode=require"));
    assert!(said.contains("does not support TLS") && !said.contains("secret"), "{said}");
    assert_eq!(answers.join().unwrap(), [] as [u8; 0], "nothing more was said to it");
}
