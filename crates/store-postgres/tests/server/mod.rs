//! A PostgreSQL server of the tests' own: in a temporary directory, on a socket there, gone with the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A user that may run a server where the tests are run by root, who may not.
const NOBODY: &str = "65534";

pub(crate) struct Server {
    dir: tempfile::TempDir,
    bin: PathBuf,
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
    /// `None`, said on stderr, where there is no server to start.
    #[expect(clippy::print_stderr, reason = "what is skipped is said")]
    pub(crate) fn start() -> Option<Self> {
        let Some(bin) = programs() else {
            eprintln!("skipped: no PostgreSQL server is installed (apt-get install postgresql)");
            return None;
        };
        let dir = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").unwrap();
        if is_root() {
            let owned = Command::new("chown").arg(NOBODY).arg(dir.path()).status().unwrap();
            assert!(owned.success());
        }
        let server = Self { dir, bin };
        server.run("initdb", &["-D", "data", "-U", "postgres", "--auth=trust", "-N", "--locale=C"]);
        let options = format!(
            "-k {} -c listen_addresses='' -c fsync=off -c shared_buffers=16MB",
            server.dir.path().display()
        );
        server.run("pg_ctl", &["-D", "data", "-w", "-l", "log", "-o", &options, "start"]);
        server.sql("postgres", "CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN");
        server.sql("postgres", "GRANT CREATE ON DATABASE postgres TO alice");
        Some(server)
    }

    fn run(&self, program: &str, args: &[&str]) {
        let program = self.bin.join(program);
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
        assert!(ran.success(), "{args:?}: {said}");
    }

    pub(crate) fn address(&self, user: &str) -> String {
        format!("postgres:///postgres?host={}&user={user}", self.dir.path().display())
    }

    /// What `psql` says to a statement, as that user; an error in words, too.
    pub(crate) fn sql(&self, user: &str, statement: &str) -> String {
        let at = |dir: &Path| dir.join("psql");
        let psql = Some(at(&self.bin)).filter(|p| p.is_file()).unwrap_or_else(|| "psql".into());
        let out = Command::new(psql)
            .args(["-XqAt", "-h"])
            .arg(self.dir.path())
            .args(["-U", user, "-d", "postgres", "-c", statement])
            .output()
            .unwrap();
        format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.run("pg_ctl", &["-D", "data", "-w", "-m", "immediate", "stop"]);
    }
}
