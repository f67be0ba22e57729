//! The database connection: one thread with one connection. Callers send requests and wait for the answer.
//!
//! Locks and lines use the same connection, so a lock that is lost with it is noticed before the next line. A
//! broken connection is opened again at the next request, and its locks are taken again. A session that
//! another process has locked by then is refused from that point on.

use crate::encryption::{Encryption, advice};
use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config};
use uuid::Uuid;

const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(20);
/// Number of attempts to get a lock after the connection of its holder was ended, and the pause between them.
const TRIES: u32 = 100;
const APART: Duration = Duration::from_millis(20);

const SCHEMA: &str = "
    SELECT pg_advisory_xact_lock(7161283940112);
    CREATE SCHEMA IF NOT EXISTS becket;
    CREATE TABLE IF NOT EXISTS becket.sessions (
        owner name NOT NULL DEFAULT current_user,
        id uuid NOT NULL,
        project text NOT NULL,
        -- 'sessions' or 'trash'; what the file `trashed` says there.
        place text NOT NULL DEFAULT 'sessions',
        stamp text NOT NULL DEFAULT '',
        epoch bigint NOT NULL DEFAULT 0,
        PRIMARY KEY (owner, id)
    );
    CREATE TABLE IF NOT EXISTS becket.pieces (
        owner name NOT NULL DEFAULT current_user,
        session uuid NOT NULL,
        start bigint NOT NULL,
        bytes bytea NOT NULL,
        PRIMARY KEY (owner, session, start)
    );
    CREATE TABLE IF NOT EXISTS becket.blobs (
        owner name NOT NULL DEFAULT current_user,
        session uuid NOT NULL,
        name text NOT NULL,
        packed bytea NOT NULL,
        PRIMARY KEY (owner, session, name)
    );
    DO $$
    DECLARE t text;
    BEGIN
        FOREACH t IN ARRAY ARRAY['sessions', 'pieces', 'blobs'] LOOP
            EXECUTE format('ALTER TABLE becket.%I ENABLE ROW LEVEL SECURITY', t);
            EXECUTE format('ALTER TABLE becket.%I FORCE ROW LEVEL SECURITY', t);
            EXECUTE format('DROP POLICY IF EXISTS own ON becket.%I', t);
            EXECUTE format('CREATE POLICY own ON becket.%I USING (owner = current_user) '
                           'WITH CHECK (owner = current_user)', t);
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON becket.%I TO PUBLIC', t);
        END LOOP;
    END $$;
    GRANT USAGE ON SCHEMA becket TO PUBLIC;
";

/// A request to the database. An id is that of a session.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Lock(Uuid),
    /// Takes the lock away from its current holder, which can no longer write.
    TakeOver(Uuid),
    Unlock(Uuid),
    /// Creates a session with its first line.
    Begin {
        id: Uuid,
        project: String,
        line: Vec<u8>,
    },
    Append {
        id: Uuid,
        start: u64,
        bytes: Vec<u8>,
    },
    Cut {
        id: Uuid,
        len: u64,
    },
    PutBlob {
        id: Uuid,
        name: String,
        packed: Vec<u8>,
    },
    Move {
        id: Uuid,
        place: String,
        stamp: String,
    },
    Delete(Uuid),
    List(Option<Uuid>),
    /// Reads the ledger from the byte offset `from` on.
    Read {
        id: Uuid,
        from: u64,
    },
    BlobNames(Uuid),
    Blob {
        id: Uuid,
        name: String,
    },
}

#[derive(Debug)]
pub(crate) enum Answer {
    Yes,
    /// Refused: another process holds the lock or took the session over, or the session to create already exists.
    No,
    Sessions(Vec<Row>),
    Bytes(Vec<u8>),
    Names(Vec<String>),
}

/// A stored session, as the database lists it.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub id: Uuid,
    pub project: String,
    pub place: String,
    pub stamp: String,
    pub bytes: u64,
}

type Question = (Ask, Sender<io::Result<Answer>>);

/// Handle of the thread that owns the connection.
#[derive(Debug)]
pub(crate) struct Server {
    questions: Sender<Question>,
}

impl Server {
    /// Connects, and creates missing tables.
    ///
    /// # Errors
    ///
    /// Returns a message if the connection or the tables fail.
    pub(crate) fn start(config: Config, encryption: Encryption) -> Result<Self, String> {
        let (questions, asked) = channel();
        let (ready, started) = channel();
        let run = move || match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let mut worker = Worker { config, encryption, client: None, held: HashMap::new() };
                let begun = runtime.block_on(worker.begin());
                let go_on = begun.is_ok();
                let _ = ready.send(begun);
                if go_on {
                    worker.serve(&runtime, &asked);
                }
            }
            Err(error) => drop(ready.send(Err(error.to_string()))),
        };
        std::thread::Builder::new().name("store".to_owned()).spawn(run).map_err(|e| e.to_string())?;
        started.recv().map_err(|e| e.to_string())??;
        Ok(Self { questions })
    }

    pub(crate) fn ask(&self, ask: Ask) -> io::Result<Answer> {
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the connection to the store ended");
        let (reply, answer) = channel();
        self.questions.send((ask, reply)).map_err(|_| gone())?;
        match answer.recv_timeout(ANSWER) {
            Ok(answer) => answer,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the store does not answer")),
        }
    }
}

struct Worker {
    config: Config,
    encryption: Encryption,
    client: Option<Client>,
    /// Locked sessions, each with the `epoch` that this process knows and sends with its lines.
    held: HashMap<Uuid, i64>,
}

fn io_error(error: &tokio_postgres::Error) -> io::Error {
    let text = match (error.as_db_error(), advice(error)) {
        (Some(db), _) => db.message().to_owned(),
        (None, Some(advice)) => advice.to_owned(),
        (None, None) => match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    };
    io::Error::other(format!("the store: {text}"))
}

const KEY: &str = "hashtextextended(current_user || '/' || $1::uuid::text, 0)";

impl Worker {
    fn serve(&mut self, runtime: &tokio::runtime::Runtime, asked: &Receiver<Question>) {
        while let Ok((ask, reply)) = asked.recv() {
            let answer = runtime.block_on(async {
                match tokio::time::timeout(ANSWER, self.answer_again(ask)).await {
                    Ok(answer) => answer,
                    Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the store does not answer")),
                }
            });
            let _ = reply.send(answer);
        }
    }

    async fn begin(&mut self) -> Result<(), String> {
        let mut client = self.connect().await.map_err(|e| e.to_string())?;
        let there = client
            .query_one("SELECT to_regclass('becket.blobs') IS NOT NULL", &[])
            .await
            .map_err(|e| io_error(&e).to_string())?;
        if !there.get::<_, bool>(0) {
            let transaction = client.transaction().await.map_err(|e| io_error(&e).to_string())?;
            transaction.batch_execute(SCHEMA).await.map_err(|e| io_error(&e).to_string())?;
            transaction.commit().await.map_err(|e| io_error(&e).to_string())?;
        }
        self.client = Some(client);
        Ok(())
    }

    async fn connect(&self) -> io::Result<Client> {
        let connecting = self.config.connect(self.encryption.clone());
        let (client, connection) = tokio::time::timeout(CONNECT, connecting)
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the store does not answer"))?
            .map_err(|e| io_error(&e))?;
        tokio::spawn(async move { drop(connection.await) });
        Ok(client)
    }

    /// Returns the connection. If it is broken, opens a new one and takes the held locks again.
    async fn client(&mut self) -> io::Result<&Client> {
        if self.client.as_ref().is_none_or(Client::is_closed) {
            let client = self.connect().await?;
            for (id, epoch) in &mut self.held {
                let locked = client
                    .query_one(&format!("SELECT pg_try_advisory_lock({KEY})"), &[id])
                    .await
                    .map_err(|e| io_error(&e))?;
                if !locked.get::<_, bool>(0) {
                    // Another process has locked the session meanwhile. No session has this epoch, so no further line of this process is
                    // accepted.
                    *epoch = -1;
                }
            }
            self.client = Some(client);
        }
        self.client.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Sends a request, and repeats it if the connection turns out to be broken. `Begin` is not repeated: if the first attempt reached the
    /// database, the second would report that the session exists. Every other request has the same effect if it is carried out twice.
    async fn answer_again(&mut self, ask: Ask) -> io::Result<Answer> {
        let again = (!matches!(ask, Ask::Begin { .. })).then(|| ask.clone());
        match (self.answer(ask).await, again) {
            (Err(_), Some(again)) if self.client.as_ref().is_none_or(Client::is_closed) => {
                self.answer(again).await
            }
            (answer, _) => answer,
        }
    }

    async fn answer(&mut self, ask: Ask) -> io::Result<Answer> {
        match ask {
            Ask::Lock(id) => self.lock(id).await,
            Ask::TakeOver(id) => self.take_over(id).await,
            Ask::Unlock(id) => {
                self.held.remove(&id);
                self.execute(&format!("SELECT pg_advisory_unlock({KEY})"), &[&id]).await?;
                Ok(Answer::Yes)
            }
            Ask::Begin { id, project, line } => self.begin_session(id, &project, &line).await,
            Ask::Append { id, start, bytes } => {
                let Some(epoch) = self.held.get(&id).copied() else { return Ok(Answer::No) };
                let written = self
                    .execute(
                        "WITH mine AS (SELECT 1 FROM becket.sessions
                                       WHERE owner = current_user AND id = $1 AND epoch = $4 FOR SHARE)
                         INSERT INTO becket.pieces (session, start, bytes) SELECT $1, $2, $3 FROM mine
                         ON CONFLICT (owner, session, start) DO UPDATE SET bytes = excluded.bytes",
                        &[&id, &(start as i64), &bytes, &epoch],
                    )
                    .await?;
                Ok(if written == 1 { Answer::Yes } else { Answer::No })
            }
            Ask::Cut { id, len } => self.cut(id, len as i64).await,
            Ask::PutBlob { id, name, packed } => {
                let sql = "INSERT INTO becket.blobs (session, name, packed) VALUES ($1, $2, $3)
                           ON CONFLICT (owner, session, name) DO UPDATE SET packed = excluded.packed";
                self.execute(sql, &[&id, &name, &packed]).await?;
                Ok(Answer::Yes)
            }
            Ask::Move { id, place, stamp } => {
                let sql = "UPDATE becket.sessions SET place = $2, stamp = $3 WHERE owner = current_user AND id = $1";
                let moved = self.execute(sql, &[&id, &place, &stamp]).await?;
                Ok(if moved == 1 { Answer::Yes } else { Answer::No })
            }
            Ask::Delete(id) => {
                for (table, key) in [("pieces", "session"), ("blobs", "session"), ("sessions", "id")] {
                    let sql = format!("DELETE FROM becket.{table} WHERE owner = current_user AND {key} = $1");
                    self.execute(&sql, &[&id]).await?;
                }
                Ok(Answer::Yes)
            }
            Ask::List(only) => self.list(only).await,
            Ask::Read { id, from } => {
                let sql = "SELECT start, bytes FROM becket.pieces
                           WHERE owner = current_user AND session = $1 AND start >= $2 ORDER BY start";
                let rows = self
                    .client()
                    .await?
                    .query(sql, &[&id, &(from as i64)])
                    .await
                    .map_err(|e| io_error(&e))?;
                let mut bytes = Vec::new();
                for row in rows {
                    // A piece is skipped if it does not begin where the previous one ends, because the ledger would have a gap or a
                    // repetition.
                    if row.get::<_, i64>(0) as u64 == from + bytes.len() as u64 {
                        bytes.extend_from_slice(row.get(1));
                    }
                }
                Ok(Answer::Bytes(bytes))
            }
            Ask::BlobNames(id) => {
                let sql = "SELECT name FROM becket.blobs WHERE owner = current_user AND session = $1";
                let rows = self.client().await?.query(sql, &[&id]).await.map_err(|e| io_error(&e))?;
                Ok(Answer::Names(rows.iter().map(|row| row.get(0)).collect()))
            }
            Ask::Blob { id, name } => {
                let sql = "SELECT packed FROM becket.blobs WHERE owner = current_user AND session = $1 AND name = $2";
                let row =
                    self.client().await?.query_opt(sql, &[&id, &name]).await.map_err(|e| io_error(&e))?;
                row.map(|row| Answer::Bytes(row.get(0))).ok_or_else(|| io::ErrorKind::NotFound.into())
            }
        }
    }

    async fn execute(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> io::Result<u64> {
        self.client().await?.execute(sql, values).await.map_err(|e| io_error(&e))
    }

    async fn epoch(&mut self, id: Uuid) -> io::Result<i64> {
        let sql = "SELECT epoch FROM becket.sessions WHERE owner = current_user AND id = $1";
        let row = self.client().await?.query_opt(sql, &[&id]).await.map_err(|e| io_error(&e))?;
        Ok(row.map_or(0, |row| row.get(0)))
    }

    async fn try_lock(&mut self, id: Uuid) -> io::Result<bool> {
        let sql = format!("SELECT pg_try_advisory_lock({KEY})");
        let row = self.client().await?.query_one(&sql, &[&id]).await.map_err(|e| io_error(&e))?;
        Ok(row.get(0))
    }

    async fn lock(&mut self, id: Uuid) -> io::Result<Answer> {
        if !self.try_lock(id).await? {
            return Ok(Answer::No);
        }
        let epoch = self.epoch(id).await?;
        self.held.insert(id, epoch);
        Ok(Answer::Yes)
    }

    async fn take_over(&mut self, id: Uuid) -> io::Result<Answer> {
        // The epoch is increased first, so that no line of the old holder is accepted from here on. Then the connection of the old holder
        // is ended, which frees its lock.
        let sql = "UPDATE becket.sessions SET epoch = epoch + 1 WHERE owner = current_user AND id = $1";
        self.execute(sql, &[&id]).await?;
        let sql = format!(
            "SELECT pg_terminate_backend(l.pid) FROM pg_locks l
             WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.pid <> pg_backend_pid()
               AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
               AND ((l.classid::bigint << 32) | l.objid::bigint) = {KEY}"
        );
        self.execute(&sql, &[&id]).await?;
        for _ in 0..TRIES {
            if self.try_lock(id).await? {
                let epoch = self.epoch(id).await?;
                self.held.insert(id, epoch);
                return Ok(Answer::Yes);
            }
            tokio::time::sleep(APART).await;
        }
        Ok(Answer::No)
    }

    async fn begin_session(&mut self, id: Uuid, project: &str, line: &[u8]) -> io::Result<Answer> {
        let sql = "WITH made AS (INSERT INTO becket.sessions (id, project) VALUES ($1, $2)
                                 ON CONFLICT (owner, id) DO NOTHING RETURNING id)
                   INSERT INTO becket.pieces (session, start, bytes) SELECT id, 0, $3 FROM made";
        let made = self.execute(sql, &[&id, &project, &line]).await?;
        Ok(if made == 1 { Answer::Yes } else { Answer::No })
    }

    /// Shortens the ledger, if this process may still write it, which the `epoch` shows, as for a new line. So lines of a process that took
    /// the session over are not removed.
    async fn cut(&mut self, id: Uuid, len: i64) -> io::Result<Answer> {
        let Some(epoch) = self.held.get(&id).copied() else { return Ok(Answer::No) };
        let sql = "WITH mine AS (SELECT 1 FROM becket.sessions
                                 WHERE owner = current_user AND id = $1 AND epoch = $3 FOR SHARE),
                        gone AS (DELETE FROM becket.pieces USING mine
                                 WHERE owner = current_user AND session = $1 AND start >= $2),
                        cut AS (UPDATE becket.pieces SET bytes = substring(bytes FOR ($2::bigint - start)::int)
                                FROM mine WHERE owner = current_user AND session = $1 AND start < $2
                                  AND start + length(bytes) > $2)
                   SELECT count(*) FROM mine";
        let row =
            self.client().await?.query_one(sql, &[&id, &len, &epoch]).await.map_err(|e| io_error(&e))?;
        Ok(if row.get::<_, i64>(0) == 1 { Answer::Yes } else { Answer::No })
    }

    async fn list(&mut self, only: Option<Uuid>) -> io::Result<Answer> {
        let sql = "SELECT s.id, s.project, s.place, s.stamp,
                          coalesce((SELECT max(p.start + length(p.bytes)) FROM becket.pieces p
                                    WHERE p.owner = s.owner AND p.session = s.id), 0)
                   FROM becket.sessions s WHERE s.owner = current_user AND ($1::uuid IS NULL OR s.id = $1)";
        let rows = self.client().await?.query(sql, &[&only]).await.map_err(|e| io_error(&e))?;
        let row = |row: &tokio_postgres::Row| Row {
            id: row.get(0),
            project: row.get(1),
            place: row.get(2),
            stamp: row.get(3),
            bytes: row.get::<_, i64>(4) as u64,
        };
        Ok(Answer::Sessions(rows.iter().map(row).collect()))
    }
}
