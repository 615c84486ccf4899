//! The servers of a store: finding the primary, and sessions with it.
//!
//! The futures run on a thread of the store's own runtime, and the caller's thread waits for their results. So
//! requests can be made on any thread, whether or not it belongs to a runtime; in asynchronous code they block
//! the thread, as every call of a journal does.

use std::io::Read as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use crate::connector::{self, Handshake};
use crate::failure::{Cause, Failure};
use crate::notice::PostgresqlNotice;
use crate::options::PostgresqlOptions;
use crate::session::{Session, drive, no_standbys};

/// The oldest release that is tested: PostgreSQL 15, as `server_version_num` writes it.
const OLDEST: u32 = 150_000;
/// The largest password in bytes.
const PASSWORD_BYTES_MAX: u64 = 4096;

/// Queries the state and the settings of a server when a session begins.
const QUERY_STATE: &str = "SELECT pg_is_in_recovery() AS in_recovery, \
    current_setting('transaction_read_only') AS read_only, \
    current_setting('server_version_num') AS version_number, current_setting('server_version') AS version, \
    current_setting('synchronous_standby_names') AS standbys, current_setting('fsync') AS fsync, \
    current_setting('full_page_writes') AS full_page_writes, current_setting('data_checksums') AS checksums, \
    (SELECT system_identifier FROM pg_control_system()) AS system";

/// The servers of a store, which all its handles share.
pub(crate) struct Servers {
    shared: Arc<Shared>,
    /// `None` only while [`Servers`] is dropped.
    runtime: Option<Runtime>,
}

pub(crate) struct Shared {
    pub(crate) options: PostgresqlOptions,
    /// The index of the server that is asked first.
    current: AtomicUsize,
    /// The system identifier of the first primary whose version is not too old and that has `fsync`; empty before one
    /// is found. A primary and its standbys have the same identifier; a server of another system has another store.
    system: OnceLock<String>,
}

impl Drop for Servers {
    fn drop(&mut self) {
        // Waiting for the runtime's thread is not allowed in asynchronous code, and not needed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Servers {
    /// Servers to which nothing is connected yet.
    pub(crate) fn new(options: &PostgresqlOptions) -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("journal-postgresql")
            .enable_io()
            .enable_time()
            .build()?;
        let shared = Shared {
            options: options.clone(),
            current: AtomicUsize::new(0),
            system: OnceLock::new(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            runtime: Some(runtime),
        })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn options(&self) -> &PostgresqlOptions {
        &self.shared.options
    }

    /// Runs a future, and waits for its result.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.start(async move {
            // Sending fails only if the caller no longer waits for the result.
            let _ = sender.send(future.await);
        });
        let abandoned = |_| Failure::new(Cause::Unknown, "the request was abandoned");
        receiver.recv().map_err(abandoned)?
    }

    /// Runs a future for whose result nobody waits.
    pub(crate) fn start(&self, future: impl Future<Output = ()> + Send + 'static) {
        // Boxed, so that the program has the runtime's code for tasks once, and not once for each kind of request.
        let future: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(future);
        if let Some(runtime) = &self.runtime {
            runtime.spawn(future);
        }
    }

    /// The conditions that an operator should know of, for each server; that it does not answer is one of them.
    pub(crate) fn notices(&self) -> Vec<PostgresqlNotice> {
        let shared = Arc::clone(&self.shared);
        let notices = self.wait(async move {
            let mut notices = Vec::new();
            for index in 0..shared.options.hosts.len() {
                notices.extend(shared.notices_of(index).await);
            }
            Ok(notices)
        });
        notices.unwrap_or_default()
    }
}

/// The state and the settings of a server when a session began.
struct ServerSettings {
    is_standby: bool,
    is_read_only: bool,
    version_number: u32,
    version: String,
    /// The value of `synchronous_standby_names`.
    standbys: String,
    has_fsync: bool,
    has_full_page_writes: bool,
    has_checksums: bool,
    /// The system identifier: the same on a primary and its standbys.
    system: String,
}

impl Shared {
    /// Opens a session with the primary, wherever it is.
    pub(crate) async fn connect(&self) -> Result<Session, Failure> {
        let hosts = &self.options.hosts;
        let start = self.current.load(Ordering::Relaxed);
        let mut reasons: Vec<String> = Vec::new();
        for index in (start..hosts.len()).chain(0..start) {
            match self.connect_to(index).await {
                Ok(session) => {
                    self.current.store(index, Ordering::Relaxed);
                    return Ok(session);
                }
                // A refusal is due to the configuration, so no other server is asked then.
                Err(failure) if failure.ends_session() => reasons.push(failure.reason),
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::new(Cause::NotDone, reasons.join("; ")))
    }

    /// Makes the next session begin with the server after one that failed.
    pub(crate) fn leave(&self, index: usize) {
        let next = (index + 1) % self.options.hosts.len();
        // Another request may already have moved on to the next server.
        let _ = (self.current).compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Opens a session with one server, if it is the primary and fit for a journal.
    async fn connect_to(&self, index: usize) -> Result<Session, Failure> {
        let (session, found) = self.in_time(index, self.begin(index)).await?;
        self.check(&session.address, &found)?;
        Ok(session)
    }

    /// Limits the time of connecting to a server. When the time is over, nothing was written to the server yet, so the
    /// failure is of the kind after which a write may be repeated.
    async fn in_time<T>(
        &self,
        index: usize,
        connecting: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let result = tokio::time::timeout(self.options.connect_timeout, connecting).await;
        let address = &self.options.hosts[index];
        let not_done = |reason| Failure::new(Cause::NotDone, reason);
        match result {
            Ok(Err(failure)) if failure.cause == Cause::Unknown => Err(not_done(failure.reason)),
            Ok(result) => result,
            Err(_) => Err(not_done(format!("{address} did not answer in time"))),
        }
    }

    /// Opens a session with one server, and reads the server's state and settings.
    async fn begin(&self, index: usize) -> Result<(Session, ServerSettings), Failure> {
        let address = self.options.hosts[index].as_str();
        let failed =
            |error: std::io::Error| Failure::new(Cause::NotDone, format!("{address}: {error}"));
        let refused = |error: std::io::Error| {
            let reason = format!("{address}: {}", placewright_errors::chain(&error));
            Failure::new(Cause::Refused, reason)
        };
        let config = self.config()?;
        let handshake = match &self.options.tls {
            Some(tls) => Some(Handshake::new(tls, address).map_err(refused)?),
            None => None,
        };
        let stream = connector::connect(address).await.map_err(failed)?;
        let warnings = Arc::new(AtomicU64::new(0));
        let started = start(&config, stream, handshake, &warnings).await;
        let (client, driver) =
            started.map_err(|error| Failure::of_session_start(address, &error))?;
        let allow_async = self.options.allow_async;
        // From here on the session owns the client. Dropping the session ends the driver, too, however this function
        // ends.
        let session = Session::new(client, warnings, driver, (index, address), allow_async);
        let answers = session
            .ask(&format!("{}; {QUERY_STATE}", self.settings()))
            .await?;
        let found = ServerSettings::read(&answers).ok_or_else(|| {
            let reason = format!("{address} did not say what it is");
            Failure::new(Cause::NotDone, reason)
        })?;
        Ok((session, found))
    }

    fn config(&self) -> Result<Config, Failure> {
        let mut config = Config::new();
        config
            .user(&self.options.user)
            .dbname(&self.options.database)
            .application_name("placewright")
            .ssl_mode(match self.options.tls {
                Some(_) => SslMode::Require,
                None => SslMode::Disable,
            });
        if let Some(path) = &self.options.password_file {
            config.password(read_password(path)?);
        }
        Ok(config)
    }

    /// The settings of each session. They override those of the role and of the database.
    fn settings(&self) -> String {
        // The time-out for locks is shorter than that of a request, so that the server ends a statement that waits for
        // a lock before the caller stops waiting.
        let lock_timeout = self.options.request_timeout.as_millis() * 3 / 4;
        format!(
            "SET synchronous_commit TO on; SET default_transaction_isolation TO 'read committed'; \
             SET default_transaction_deferrable TO off; SET client_min_messages TO warning; \
             SET statement_timeout TO 0; SET lock_timeout TO {lock_timeout}; SET search_path TO \"{}\"",
            self.options.schema
        )
    }

    /// Refuses a server that is not fit for a journal.
    fn check(&self, address: &str, found: &ServerSettings) -> Result<(), Failure> {
        let refuse = |reason: &str| {
            let reason = format!("{address} {reason}");
            Err(Failure::new(Cause::Refused, reason))
        };
        if found.version_number < OLDEST {
            let version = &found.version;
            return refuse(&format!(
                "runs PostgreSQL {version}, which is too old: use 15 or newer"
            ));
        }
        if !found.has_fsync {
            return refuse("runs with fsync = off, so a power cut loses what it acknowledged");
        }
        if found.is_standby || found.is_read_only {
            let what = if found.is_standby {
                "a standby"
            } else {
                "read-only"
            };
            return Err(Failure::new(Cause::NotDone, format!("{address} is {what}")));
        }
        // Only a primary decides which system the store is in, because a standby of a foreign system may answer first.
        if self.system.get_or_init(|| found.system.clone()) != &found.system {
            return refuse("belongs to another system than the servers before it");
        }
        if found.standbys.trim().is_empty() && !self.options.allow_async {
            return Err(no_standbys(address));
        }
        Ok(())
    }

    async fn notices_of(&self, index: usize) -> Vec<PostgresqlNotice> {
        let host = self.options.hosts[index].clone();
        let found = match self.in_time(index, self.begin(index)).await {
            Ok((_, found)) => found,
            Err(Failure { reason, .. }) => {
                return vec![PostgresqlNotice::NoAnswer { host, reason }];
            }
        };
        let mut notices = Vec::new();
        let names = found.standbys.trim().to_owned();
        if !found.is_standby {
            if names.is_empty() {
                notices.push(PostgresqlNotice::Asynchronous { host: host.clone() });
            } else if waits_for_all(&names) {
                let host = host.clone();
                notices.push(PostgresqlNotice::EveryStandby { host, names });
            }
        }
        if !found.has_full_page_writes {
            notices.push(PostgresqlNotice::NoFullPageWrites { host: host.clone() });
        }
        if !found.has_checksums {
            notices.push(PostgresqlNotice::NoDataChecksums { host });
        }
        notices
    }

    /// Requests that a server cancel the present statement of a session. A failure is ignored: a server that cannot be
    /// reached is probably not working on the statement.
    pub(crate) async fn cancel(&self, session: &Session) {
        let token = session.cancel_token();
        let cancelling = async {
            let stream = connector::connect(&session.address).await.ok()?;
            match &self.options.tls {
                Some(tls) => {
                    let handshake = Handshake::new(tls, &session.address).ok()?;
                    token.cancel_query_raw(stream, handshake).await.ok()
                }
                None => token.cancel_query_raw(stream, NoTls).await.ok(),
            }
        };
        let _ = tokio::time::timeout(self.options.connect_timeout, cancelling).await;
    }

    /// The time-out of a request that carries `bytes` bytes.
    pub(crate) fn request_timeout(&self, bytes: usize) -> Duration {
        /// For each of this many bytes a request gets one second more: even a slow disk and a slow network transfer as
        /// many in that time.
        const BYTES_PER_SECOND: u64 = 8 << 20;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.options.request_timeout + Duration::from_millis(bytes * 1000 / BYTES_PER_SECOND)
    }
}

/// Starts a session on a connection, and the task that carries its messages.
async fn start(
    config: &Config,
    stream: TcpStream,
    handshake: Option<Handshake>,
    warnings: &Arc<AtomicU64>,
) -> Result<(Client, tokio::task::AbortHandle), tokio_postgres::Error> {
    let warnings = Arc::clone(warnings);
    Ok(match handshake {
        Some(handshake) => {
            let (client, connection) = config.connect_raw(stream, handshake).await?;
            let driver = tokio::spawn(drive(connection, warnings));
            (client, driver.abort_handle())
        }
        None => {
            let (client, connection) = config.connect_raw(stream, NoTls).await?;
            let driver = tokio::spawn(drive(connection, warnings));
            (client, driver.abort_handle())
        }
    })
}

/// Whether a write waits for every named standby, as with the settings `s1`, `1 (s1)` and `FIRST 1 (s1)`.
fn waits_for_all(names: &str) -> bool {
    let (count, list) = match names.split_once('(') {
        Some((count, list)) => (count, list.trim_end_matches(')')),
        None => ("1", names),
    };
    let number = count.split_whitespace().last().and_then(|n| n.parse().ok());
    let is_any_name = list.contains('*');
    !is_any_name && number.unwrap_or(1) >= list.split(',').count()
}

impl ServerSettings {
    /// Reads the answer to [`QUERY_STATE`]; `None` if a part of it is missing.
    fn read(answers: &[SimpleQueryMessage]) -> Option<Self> {
        let row = answers.iter().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        })?;
        let get = |name: &str| row.try_get(name).ok().flatten();
        Some(Self {
            is_standby: get("in_recovery")? != "f",
            is_read_only: get("read_only")? != "off",
            version_number: get("version_number")?.parse().ok()?,
            version: get("version")?.to_owned(),
            standbys: get("standbys")?.to_owned(),
            has_fsync: get("fsync")? != "off",
            has_full_page_writes: get("full_page_writes")? != "off",
            has_checksums: get("checksums")? != "off",
            system: get("system")?.to_owned(),
        })
    }
}

/// Reads a password; a line end after it does not belong to it.
fn read_password(path: &Path) -> Result<String, Failure> {
    let failure =
        |reason: String| Failure::new(Cause::Refused, format!("{}: {reason}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| failure(error.to_string()))?;
    let mut password = String::new();
    // With two bytes for a line end, and one that shows that the password is longer.
    file.take(PASSWORD_BYTES_MAX + 3)
        .read_to_string(&mut password)
        .map_err(|error| failure(error.to_string()))?;
    let password = password.trim_end_matches(['\r', '\n']);
    if password.len() as u64 > PASSWORD_BYTES_MAX {
        return Err(failure(format!(
            "it has more than {PASSWORD_BYTES_MAX} bytes"
        )));
    }
    if password.is_empty() {
        return Err(failure("it holds no password".into()));
    }
    Ok(password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_standbys_that_all_have_to_answer_is_recognized() {
        for all in ["s1", "1 (s1)", "FIRST 2 (s1, s2)", "ANY 2 (s1,s2)"] {
            assert!(waits_for_all(all), "{all}");
        }
        for some in [
            "s1, s2",
            "ANY 1 (s1, s2)",
            "FIRST 1 (s1, s2)",
            "*",
            "ANY 1 (*)",
        ] {
            assert!(!waits_for_all(some), "{some}");
        }
    }

    #[test]
    fn a_password_that_is_too_long_is_refused_and_not_cut() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        let longest = "p".repeat(usize::try_from(PASSWORD_BYTES_MAX).unwrap());
        std::fs::write(&path, format!("{longest}\r\n")).unwrap();
        assert_eq!(read_password(&path).unwrap(), longest);
        std::fs::write(&path, format!("{longest}p")).unwrap();
        assert!(read_password(&path).unwrap_err().reason.contains("4096"));
    }
}
