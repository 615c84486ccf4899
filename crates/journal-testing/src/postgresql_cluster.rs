//! Real PostgreSQL servers on this machine, a primary and its standbys, for tests that kill them.

mod programs;
mod server;

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::etcd_cluster::ServerTlsFiles;
use crate::ports::free_ports;
use programs::Programs;
use server::Server;

/// How long a server may take to start, to attach to its primary, or to be promoted.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two looks at a server.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// The settings of servers that differ from the defaults.
#[derive(Clone, Debug)]
pub struct PostgresqlClusterOptions {
    /// The files for TLS. Without them clients connect without TLS; with them only with TLS and a certificate.
    pub tls: Option<ServerTlsFiles>,
    /// The password of the user `placewright`. Without one everybody is trusted.
    pub password: Option<String>,
    /// The value of the setting `synchronous_standby_names`. The standbys are `s0`, `s1` and so on.
    pub synchronous_standby_names: String,
}

impl Default for PostgresqlClusterOptions {
    fn default() -> Self {
        Self {
            tls: None,
            password: None,
            synchronous_standby_names: "ANY 1 (s0, s1, s2)".into(),
        }
    }
}

/// A primary and its standbys in a temporary directory. When this is dropped, the servers are killed and the directory
/// is removed. There is a database `placewright`, whose owner is the user `placewright`.
pub struct PostgresqlCluster {
    servers: Vec<Server>,
    primary: usize,
    options: PostgresqlClusterOptions,
    programs: Programs,
    directory: TempDir,
}

impl PostgresqlCluster {
    /// Whether PostgreSQL's programs are installed. If they are not, a message on standard error says so.
    ///
    /// # Panics
    /// If the programs are not installed, and the environment variable `PLACEWRIGHT_TEST_ENGINES` is 1.
    #[must_use]
    pub fn available() -> bool {
        Programs::are_available()
    }

    /// Starts a primary, which is server 0, and its standbys, and waits until all are attached.
    ///
    /// # Errors
    /// A program cannot be started, or a server does not take requests.
    pub fn start(standbys: usize) -> io::Result<Self> {
        Self::start_with(standbys, &PostgresqlClusterOptions::default())
    }

    /// Starts servers with options.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(standbys: usize, options: &PostgresqlClusterOptions) -> io::Result<Self> {
        let programs = Programs::find()?;
        let directory = tempfile::Builder::new()
            .prefix("placewright-postgresql-")
            .tempdir()?;
        programs.give(directory.path())?;
        let ports = free_ports(standbys + 1)?;
        let server = |(index, port): (usize, u16)| {
            Server::new(index, port, directory.path().join(format!("s{index}")))
        };
        let mut cluster = Self {
            servers: ports.into_iter().enumerate().map(server).collect(),
            primary: 0,
            options: options.clone(),
            programs,
            directory,
        };
        cluster.create_primary()?;
        for standby in 1..cluster.servers.len() {
            cluster.create_standby(standby)?;
        }
        cluster.wait_until_attached(standbys)?;
        Ok(cluster)
    }

    fn create_primary(&mut self) -> io::Result<()> {
        let data = self.servers[0].data().display().to_string();
        let arguments = [
            "-D",
            &data,
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--data-checksums",
        ];
        self.programs.run("initdb", &arguments)?;
        self.configure(0)?;
        self.start_again(0)?;
        self.wait_until_ready(0)?;
        let password = match &self.options.password {
            Some(password) => format!(" PASSWORD '{password}'"),
            None => String::new(),
        };
        // The role and the database are made with `synchronous_commit=local`, because otherwise the primary would wait
        // for standbys, which are not there yet.
        self.sql_in(
            0,
            "postgres",
            &format!("CREATE ROLE placewright LOGIN{password}"),
        )?;
        let port = self.servers[0].port.to_string();
        let folder = self.directory.path().display().to_string();
        self.programs.run_with(
            "createdb",
            &[
                "-h",
                &folder,
                "-p",
                &port,
                "-U",
                "postgres",
                "-O",
                "placewright",
                "placewright",
            ],
            &[("PGOPTIONS", "-c synchronous_commit=local")],
        )
    }

    /// Copies the data of the primary, and starts a standby on it.
    fn create_standby(&mut self, index: usize) -> io::Result<()> {
        let (host, port) = (
            self.directory.path().display().to_string(),
            self.servers[0].port,
        );
        let connection = format!("host={host} port={port} user=postgres application_name=s{index}");
        let data = self.servers[index].data().display().to_string();
        let arguments = ["-D", &data, "-R", "-c", "fast", "-d", &connection];
        self.programs.run("pg_basebackup", &arguments)?;
        self.configure(index)?;
        self.start_again(index)?;
        self.wait_until_ready(index)
    }

    /// Writes a server's own settings. Settings that it had before stay in its other files.
    fn configure(&self, index: usize) -> io::Result<()> {
        let server = &self.servers[index];
        let mut settings = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = '{}'\n\
             synchronous_standby_names = '{}'\nmax_connections = 50\nmax_wal_senders = 8\n\
             shared_buffers = 32MB\nwal_keep_size = 256MB\nwal_log_hints = on\n\
             hot_standby = on\nlog_min_messages = warning\nlogging_collector = off\nautovacuum_naptime = 10\n",
            server.port,
            self.directory.path().display(),
            self.options.synchronous_standby_names,
        );
        // The administrator connects over the socket in the directory, and the journal over TCP.
        let method = match &self.options.password {
            Some(_) => "scram-sha-256",
            None => "trust",
        };
        let mut access = "local all all trust\nlocal replication all trust\n".to_owned();
        match &self.options.tls {
            Some(tls) => {
                let (certificate, key, authorities) = (
                    server.file("server.pem"),
                    server.file("server.key"),
                    server.file("ca.pem"),
                );
                for (from, to) in [
                    (&tls.certificate, &certificate),
                    (&tls.key, &key),
                    (&tls.client_authorities, &authorities),
                ] {
                    self.programs.write(to, &std::fs::read(from)?)?;
                }
                let _ = write!(
                    settings,
                    "ssl = on\nssl_cert_file = '{}'\nssl_key_file = '{}'\nssl_ca_file = '{}'\n",
                    certificate.display(),
                    key.display(),
                    authorities.display(),
                );
                let _ = writeln!(
                    access,
                    "hostssl all all 127.0.0.1/32 {method} clientcert=verify-ca"
                );
            }
            None => {
                let _ = writeln!(access, "host all all 127.0.0.1/32 {method}");
            }
        }
        self.programs
            .write(&server.file("postgresql.conf"), settings.as_bytes())?;
        self.programs
            .write(&server.file("pg_hba.conf"), access.as_bytes())
    }

    /// The servers' addresses as `host:port`, with commas between them.
    #[must_use]
    pub fn address(&self) -> String {
        let addresses: Vec<String> = (0..self.servers.len())
            .map(|i| self.address_of(i))
            .collect();
        addresses.join(",")
    }

    /// The address of one server as `host:port`.
    #[must_use]
    pub fn address_of(&self, server: usize) -> String {
        format!("127.0.0.1:{}", self.servers[server].port)
    }

    /// The index of the primary.
    #[must_use]
    pub fn primary(&self) -> usize {
        self.primary
    }

    /// The directory that has the data of each server below the server's name, `s0` and so on.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    /// Runs statements in the database `placewright` of a server as its administrator, and returns the rows, their
    /// columns parted by `|`. The statements wait for no standby.
    ///
    /// # Errors
    /// The error of the server.
    pub fn sql(&self, server: usize, statements: &str) -> io::Result<String> {
        self.sql_in(server, "placewright", statements)
    }

    fn sql_in(&self, server: usize, database: &str, statements: &str) -> io::Result<String> {
        let folder = self.directory.path().display().to_string();
        let port = self.servers[server].port.to_string();
        let arguments = [
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            &folder,
            "-p",
            &port,
            "-U",
            "postgres",
            "-d",
            database,
            "-c",
            statements,
        ];
        let environment = [
            ("PGOPTIONS", "-c synchronous_commit=local"),
            ("PGCONNECT_TIMEOUT", "5"),
        ];
        self.programs.output("psql", &arguments, &environment)
    }

    /// Kills a server with all its processes (SIGKILL).
    ///
    /// # Errors
    /// The server does not run.
    pub fn kill(&mut self, server: usize) -> io::Result<()> {
        self.servers[server].kill()
    }

    /// Suspends a server with all its processes (SIGSTOP): its connections stay open, and nothing is answered.
    ///
    /// # Errors
    /// The server does not run.
    pub fn stop(&self, server: usize) -> io::Result<()> {
        self.servers[server].stop()
    }

    /// Lets a suspended server go on (SIGCONT).
    ///
    /// # Errors
    /// The server does not run.
    pub fn resume(&self, server: usize) -> io::Result<()> {
        self.servers[server].resume()
    }

    /// Starts a killed server again with its data, without waiting for it.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start_again(&mut self, server: usize) -> io::Result<()> {
        self.servers[server].spawn(&self.programs)
    }

    /// Waits until a server answers.
    ///
    /// # Errors
    /// The server does not answer within a minute.
    pub fn wait_until_ready(&mut self, server: usize) -> io::Result<()> {
        let started = Instant::now();
        loop {
            let answer = self.sql_in(server, "postgres", "SELECT 1");
            match answer {
                Ok(_) => return Ok(()),
                Err(error) if started.elapsed() > PATIENCE => return Err(error),
                Err(_) => {}
            }
            if self.servers[server].has_ended()? {
                // The server ends at its start while the shared memory of the killed processes is still in use.
                self.start_again(server)?;
            }
            thread::sleep(LOOK_PAUSE);
        }
    }

    /// Waits until this number of standbys is attached to the primary.
    ///
    /// # Errors
    /// Fewer standbys are attached after a minute.
    pub fn wait_until_attached(&self, standbys: usize) -> io::Result<()> {
        let question = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
        self.wait_for(self.primary, question, &standbys.to_string())
    }

    /// Repeats a query until it returns the wanted value.
    fn wait_for(&self, server: usize, question: &str, wanted: &str) -> io::Result<()> {
        let started = Instant::now();
        loop {
            let answer = self.sql_in(server, "postgres", question);
            if answer.as_ref().is_ok_and(|answer| answer.trim() == wanted) {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("{question}: {answer:?}")));
            }
            thread::sleep(LOOK_PAUSE);
        }
    }

    /// Promotes the standby that has received most to be the primary, as a failover does. The other standbys that run
    /// follow it. The old primary has to be killed before.
    ///
    /// # Errors
    /// No standby runs, or it cannot be promoted.
    pub fn fail_over(&mut self) -> io::Result<()> {
        // The position up to which a standby has received the log of the primary, in bytes.
        let received = |server: usize| -> io::Result<u64> {
            let question =
                "SELECT pg_wal_lsn_diff(coalesce(pg_last_wal_receive_lsn(), '0/0'), '0/0')";
            let answer = self.sql_in(server, "postgres", question)?;
            answer.trim().parse().map_err(io::Error::other)
        };
        let standbys = (0..self.servers.len()).filter(|&server| server != self.primary);
        let running = standbys.filter_map(|server| Some((received(server).ok()?, server)));
        let newest = running.max().map(|(_, server)| server);
        self.promote(newest.ok_or_else(|| io::Error::other("no standby runs"))?)
    }

    /// Promotes a standby to be the primary, however much it has received. The other standbys that run follow it.
    ///
    /// # Errors
    /// The standby cannot be promoted.
    pub fn promote(&mut self, server: usize) -> io::Result<()> {
        self.sql_in(server, "postgres", "SELECT pg_promote()")?;
        self.wait_for(server, "SELECT pg_is_in_recovery()", "f")?;
        let old = std::mem::replace(&mut self.primary, server);
        for other in 0..self.servers.len() {
            if other != server && other != old && self.servers[other].is_running() {
                self.follow(other)?;
            }
        }
        Ok(())
    }

    /// Lets a standby follow the present primary.
    fn follow(&self, standby: usize) -> io::Result<()> {
        let connection = self.connection_of(standby);
        let statement = format!("ALTER SYSTEM SET primary_conninfo = '{connection}'");
        self.sql_in(standby, "postgres", &statement)?;
        self.sql_in(standby, "postgres", "SELECT pg_reload_conf()")?;
        Ok(())
    }

    /// The connection string by which a standby follows the present primary.
    fn connection_of(&self, standby: usize) -> String {
        let host = self.directory.path().display();
        let port = self.servers[self.primary].port;
        format!("host={host} port={port} user=postgres dbname=postgres application_name=s{standby}")
    }

    /// Makes a killed server a standby of the present primary. Entries that it has and the primary lacks are removed.
    ///
    /// # Errors
    /// A program fails.
    pub fn rejoin(&mut self, server: usize) -> io::Result<()> {
        // Without this checkpoint the files of the new primary do not show yet that it is on another timeline.
        self.sql_in(self.primary, "postgres", "CHECKPOINT")?;
        let connection = self.connection_of(server);
        let data = self.servers[server].data().display().to_string();
        let source = format!("--source-server={connection}");
        let rewind = ["--target-pgdata", &data, &source];
        self.retry(|cluster| cluster.programs.run("pg_rewind", &rewind))?;
        self.configure(server)?;
        let settings = format!("primary_conninfo = '{connection}'\n");
        let file = self.servers[server].file("postgresql.auto.conf");
        self.programs.write(&file, settings.as_bytes())?;
        let signal = self.servers[server].file("standby.signal");
        self.programs.write(&signal, b"")?;
        self.start_again(server)?;
        self.wait_until_ready(server)
    }

    /// Repeats an action that fails while processes of a killed server are still ending.
    fn retry(&self, attempt: impl Fn(&Self) -> io::Result<()>) -> io::Result<()> {
        let started = Instant::now();
        loop {
            match attempt(self) {
                Err(error) if started.elapsed() > PATIENCE => return Err(error),
                Err(_) => thread::sleep(LOOK_PAUSE * 10),
                Ok(()) => return Ok(()),
            }
        }
    }
}
