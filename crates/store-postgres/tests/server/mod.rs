//! A PostgreSQL server of the tests' own: in a temporary directory, on a socket there, gone with the test.

use std::cell::Cell;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The user that runs the server if the tests run as root, because PostgreSQL refuses to run as root.
const NOBODY: &str = "65534";

pub(crate) struct Server {
    dir: tempfile::TempDir,
    bin: PathBuf,
    port: Cell<u16>,
}

/// Where the programs of a server are: in PATH, or where Debian puts them.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut places: Vec<PathBuf> = debian.map(|version| version.path().join("bin")).collect();
    places.extend(std::env::split_paths(&path));
    places.into_iter().find(|dir| dir.join("pg_ctl").is_file() && dir.join("initdb").is_file())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout == b"0\n"
}

impl Server {
    /// Starts a server. `None`, with a line on stderr, if there are no programs for one.
    pub(crate) fn start() -> Option<Self> {
        let server = Self::made()?;
        let started = server.listen("");
        assert!(started.is_ok(), "{started:?}");
        Some(server)
    }

    /// Starts a server with a certificate for the name localhost, from an issuer of its own (`ca.pem`). Over TCP it takes
    /// only encrypted connections. Returns it with its port.
    #[expect(clippy::print_stderr, reason = "what is skipped is said")]
    pub(crate) fn start_encrypted() -> Option<(Self, u16)> {
        let server = Self::made()?;
        if Command::new("openssl").arg("version").output().is_err() {
            eprintln!("skipped: no openssl is installed to make a certificate with");
            return None;
        }
        server.make_certificates();
        let hba = server.dir.path().join("data/pg_hba.conf");
        fs::write(hba, "local all all trust\nhostssl all all all trust\n").unwrap();
        // Another program may take the free port before the server does, so this is tried several times.
        for _ in 0..20 {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            server.port.set(port);
            let encrypted = "-c ssl=on -c ssl_cert_file=../server.pem -c ssl_key_file=../server.key";
            match server.listen(&format!("-c listen_addresses=127.0.0.1 -p {port} {encrypted}")) {
                Ok(()) => return Some((server, port)),
                Err(said) => eprintln!("port {port}: {said}"),
            }
        }
        unreachable!("twenty ports were taken")
    }

    fn make_certificates(&self) {
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout"];
        let openssl = |args: &[&str]| self.run(Path::new("openssl"), args);
        let ca = ["ca.key", "-x509", "-days", "2", "-subj", "/CN=issuer", "-out", "ca.pem"];
        let request = ["server.key", "-subj", "/CN=localhost", "-out", "server.csr"];
        let names = self.dir.path().join("names");
        fs::write(&names, "subjectAltName=DNS:localhost\n").unwrap();
        let signed = ["x509", "-req", "-days", "2", "-CA", "ca.pem", "-CAkey", "ca.key", "-in", "server.csr"];
        let into = ["-out", "server.pem", "-extfile", "names"];
        openssl(&[&["req"][..], &key, &ca].concat()).unwrap();
        openssl(&[&["req"][..], &key, &request].concat()).unwrap();
        openssl(&[&signed[..], &into].concat()).unwrap();
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    #[expect(clippy::print_stderr, reason = "what is skipped is said")]
    fn made() -> Option<Self> {
        let Some(bin) = programs() else {
            eprintln!("skipped: no PostgreSQL server is installed (apt-get install postgresql)");
            return None;
        };
        let dir = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").unwrap();
        if is_root() {
            let owned = Command::new("chown").arg(NOBODY).arg(dir.path()).status().unwrap();
            assert!(owned.success());
        }
        let server = Self { dir, bin, port: Cell::new(5432) };
        server
            .run(
                &server.bin.join("initdb"),
                &["-D", "data", "-U", "postgres", "--auth=trust", "-N", "--locale=C"],
            )
            .unwrap();
        Some(server)
    }

    /// Starts the server on a socket in its folder, with these options.
    fn listen(&self, options: &str) -> Result<(), String> {
        let options = format!(
            "-k {} -c listen_addresses='' -c fsync=off -c shared_buffers=16MB {options}",
            self.dir.path().display()
        );
        self.run(&self.bin.join("pg_ctl"), &["-D", "data", "-w", "-l", "log", "-o", &options, "start"])?;
        self.sql("postgres", "CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN");
        self.sql("postgres", "GRANT CREATE ON DATABASE postgres TO alice");
        Ok(())
    }

    /// Runs a program; on failure, returns its output.
    fn run(&self, program: &Path, args: &[&str]) -> Result<(), String> {
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        let log = fs::File::create(self.dir.path().join("out")).unwrap();
        let errors = log.try_clone().unwrap();
        let ran = command
            .args(args)
            .current_dir(self.dir.path())
            .env("HOME", self.dir.path())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .status()
            .unwrap();
        let said = fs::read_to_string(self.dir.path().join("out")).unwrap_or_default();
        if ran.success() { Ok(()) } else { Err(format!("{args:?}: {said}")) }
    }

    pub(crate) fn address(&self, user: &str) -> String {
        format!("postgres:///postgres?host={}&user={user}", self.dir.path().display())
    }

    /// Returns the output of `psql` for a statement as that user, including errors.
    pub(crate) fn sql(&self, user: &str, statement: &str) -> String {
        let at = |dir: &Path| dir.join("psql");
        let psql = Some(at(&self.bin)).filter(|p| p.is_file()).unwrap_or_else(|| "psql".into());
        let out = Command::new(psql)
            .args(["-XqAt", "-h"])
            .arg(self.dir.path())
            .args(["-p", &self.port.get().to_string()])
            .args(["-U", user, "-d", "postgres", "-c", statement])
            .output()
            .unwrap();
        format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.run(&self.bin.join("pg_ctl"), &["-D", "data", "-w", "-m", "immediate", "stop"]);
    }
}
