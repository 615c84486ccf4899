//! The address of the store, and the options of the connections to its servers.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use placewright_tls::IdentityFiles;
use thiserror::Error;

/// How long one request may take. It waits for a synchronous standby, and writes to two disks.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection may take. It is shorter than a request, so that a machine that is down is known to have
/// received nothing.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The default port of PostgreSQL.
const PORT: u16 = 5432;
/// The user, and also the schema, unless a parameter names another one.
const DEFAULT_NAME: &str = "placewright";
/// The longest name in bytes that PostgreSQL does not cut.
const NAME_BYTES_MAX: usize = 63;
/// The most hosts that one address may name.
const HOSTS_MAX: usize = 16;

/// The address of a store in PostgreSQL, and how its servers are reached. It holds no secret: a password is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresqlOptions {
    /// The servers as `host:port`, the primary and its standbys. The one that takes writes is used.
    pub hosts: Vec<String>,
    /// The name of the database that has the schema.
    pub database: String,
    /// The schema that has the store's tables. Two stores in one database have different schemas. Default
    /// `placewright`.
    pub schema: String,
    /// The user as whom sessions are made. Default `placewright`.
    pub user: String,
    /// The file with the user's password, if there is one. It is read for each connection.
    pub password_file: Option<PathBuf>,
    /// TLS, if the servers have it.
    pub tls: Option<PostgresqlTls>,
    /// How long one request may take. Default 2 s.
    pub request_timeout: Duration,
    /// How long connecting to a server may take. Default 1 s; it has to be less than `request_timeout`.
    pub connect_timeout: Duration,
    /// Whether a primary without synchronous standbys is accepted. If its disk is lost, acknowledged entries are lost.
    /// Default false.
    pub allow_async: bool,
}

/// The files for TLS. They are read for each connection, so renewed ones need no restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresqlTls {
    /// The authorities that may have signed the servers' certificates (PEM).
    pub authorities: PathBuf,
    /// The client's certificate and key, if the servers ask for one.
    pub identity: Option<IdentityFiles>,
}

/// A part of a store's address is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the store's address, {field}: {reason}")]
pub struct PostgresqlAddressError {
    /// The part: `scheme`, `hosts`, `database`, or the name of a parameter.
    pub field: String,
    /// The problem with the part. The text never repeats a part that may be a secret.
    pub reason: String,
}

impl PostgresqlAddressError {
    fn new(field: &str, reason: impl Into<String>) -> Self {
        Self {
            field: field.to_owned(),
            reason: reason.into(),
        }
    }
}

impl PostgresqlOptions {
    /// The default options for a store.
    pub fn new(hosts: Vec<String>, database: impl Into<String>) -> Self {
        Self {
            hosts,
            database: database.into(),
            schema: DEFAULT_NAME.into(),
            user: DEFAULT_NAME.into(),
            password_file: None,
            tls: None,
            request_timeout: REQUEST_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            allow_async: false,
        }
    }

    /// Reads an address: `postgresql://host:port,host:port/database?parameters`. A port that is left out is 5432.
    ///
    /// | parameter | meaning |
    /// | --- | --- |
    /// | `user`, `password_file` | the user (default `placewright`), and the file with the password |
    /// | `schema` | the schema with the store's tables (default `placewright`) |
    /// | `sslmode` | `verify-full`, or `disable`; the default is `verify-full` with `sslrootcert`, else `disable` |
    /// | `sslrootcert` | the file with the authorities of the servers' certificates; required with TLS |
    /// | `sslcert`, `sslkey` | the files with the client's certificate and its key |
    /// | `target_session_attrs` | `read-write`, which is the default, or `primary`: standbys are never read |
    /// | `timeout_ms`, `connect_timeout_ms` | how long a request and a connection may take |
    /// | `allow_async` | `yes` takes a primary without synchronous standbys |
    ///
    /// Values are percent-encoded where they contain `&`, `%` or `#`.
    ///
    /// # Errors
    /// The part that is not valid.
    pub fn parse(url: &str) -> Result<Self, PostgresqlAddressError> {
        let Some(("postgresql" | "postgres", rest)) = url.split_once("://") else {
            let reason = "it begins with postgresql://";
            return Err(PostgresqlAddressError::new("scheme", reason));
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
        let mut options = Self::new(parse_hosts(hosts)?, parse_database(database)?);
        let mut parameters = Parameters::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8();
            let value = value.map_err(|_| PostgresqlAddressError::new(name, "it is not UTF-8"))?;
            if value.is_empty() {
                return Err(PostgresqlAddressError::new(name, "it has no value"));
            }
            parameters.set(&mut options, name, &value)?;
        }
        parameters.finish(&mut options)?;
        Ok(options)
    }
}

impl fmt::Display for PostgresqlOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.hosts.join(",");
        write!(
            f,
            "postgresql://{hosts}/{}?schema={}",
            self.database, self.schema
        )
    }
}

/// The parameters that depend on each other: those of TLS.
#[derive(Default)]
struct Parameters {
    /// Whether `sslmode` requires TLS; `None` if the address does not have the parameter.
    requires_tls: Option<bool>,
    authorities: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Parameters {
    fn set(
        &mut self,
        options: &mut PostgresqlOptions,
        name: &str,
        value: &str,
    ) -> Result<(), PostgresqlAddressError> {
        let path = || Some(PathBuf::from(value));
        let error = |reason: &str| Err(PostgresqlAddressError::new(name, reason));
        let milliseconds = || match value.parse() {
            Ok(number) if (10..=600_000).contains(&number) => Ok(Duration::from_millis(number)),
            _ => Err(PostgresqlAddressError::new(
                name,
                "it has to be a number from 10 to 600000, in milliseconds",
            )),
        };
        match (name, value) {
            ("user", _) => options.user = parse_user(value)?,
            ("password_file", _) => options.password_file = path(),
            ("schema", _) => options.schema = parse_schema(value)?,
            ("sslmode", "verify-full") => self.requires_tls = Some(true),
            ("sslmode", "disable") => self.requires_tls = Some(false),
            ("sslmode", _) => {
                return error(
                    "it has to be verify-full or disable: the others do not check who answers",
                );
            }
            ("sslrootcert", _) => self.authorities = path(),
            ("sslcert", _) => self.certificate = path(),
            ("sslkey", _) => self.key = path(),
            ("target_session_attrs", "read-write" | "primary") => {}
            ("target_session_attrs", _) => {
                return error("it has to be read-write: a standby may lack what was acknowledged");
            }
            ("timeout_ms", _) => options.request_timeout = milliseconds()?,
            ("connect_timeout_ms", _) => options.connect_timeout = milliseconds()?,
            ("allow_async", "yes") => options.allow_async = true,
            ("allow_async", "no") => options.allow_async = false,
            ("allow_async", _) => return error("it has to be yes or no"),
            ("password", _) => {
                return error(
                    "a password does not belong into an address: name its file with password_file",
                );
            }
            _ => return error("there is no such parameter"),
        }
        Ok(())
    }

    /// Sets the options for TLS from the parameters together, and checks the time-outs against each other.
    fn finish(self, options: &mut PostgresqlOptions) -> Result<(), PostgresqlAddressError> {
        let missing = |field| Err(PostgresqlAddressError::new(field, "it is missing"));
        let identity = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some(IdentityFiles { certificate, key }),
            (None, None) => None,
            (Some(_), None) => return missing("sslkey"),
            (None, Some(_)) => return missing("sslcert"),
        };
        let is_tls = self.requires_tls.unwrap_or(self.authorities.is_some());
        options.tls = match (is_tls, self.authorities) {
            (true, Some(authorities)) => Some(PostgresqlTls {
                authorities,
                identity,
            }),
            (true, None) => return missing("sslrootcert"),
            (false, None) if identity.is_none() => None,
            (false, _) => {
                let reason = "without TLS there is no use for certificates: set verify-full";
                return Err(PostgresqlAddressError::new("sslmode", reason));
            }
        };
        if options.connect_timeout >= options.request_timeout {
            let reason = "it has to be less than timeout_ms";
            return Err(PostgresqlAddressError::new("connect_timeout_ms", reason));
        }
        Ok(())
    }
}

fn parse_hosts(hosts: &str) -> Result<Vec<String>, PostgresqlAddressError> {
    let error = |reason: String| PostgresqlAddressError::new("hosts", reason);
    if hosts.contains('@') {
        let reason =
            "a user and a password do not belong here: use the parameters user and password_file";
        return Err(error(reason.into()));
    }
    let hosts: Vec<&str> = hosts.split(',').collect();
    if hosts.len() > HOSTS_MAX {
        return Err(error(format!("there are more than {HOSTS_MAX}")));
    }
    let hosts = hosts.into_iter().enumerate().map(|(index, host)| {
        let number = index + 1;
        with_port(host).ok_or_else(|| {
            error(format!(
                "number {number} is not host:port (an IPv6 address is written in brackets)"
            ))
        })
    });
    hosts.collect()
}

/// A host with its port; `None` if it is not valid.
fn with_port(address: &str) -> Option<String> {
    let is_bare = |host: &str| !host.is_empty() && !host.contains([':', '[', ']', '/']);
    let is_bracketed = |host: &str| host.len() > 2 && host.starts_with('[') && host.ends_with(']');
    if is_bare(address) || is_bracketed(address) {
        return Some(format!("{address}:{PORT}"));
    }
    let (host, port) = address.rsplit_once(':')?;
    let is_host = is_bare(host) || is_bracketed(host);
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    (is_host && is_port).then(|| address.to_owned())
}

fn parse_database(database: &str) -> Result<String, PostgresqlAddressError> {
    let error = |reason: &str| Err(PostgresqlAddressError::new("database", reason));
    let Ok(database) = percent_decode_str(database).decode_utf8() else {
        return error("it is not UTF-8");
    };
    if database.is_empty() {
        return error("it is missing: name it, as in postgresql://host/placewright");
    }
    if database.len() > NAME_BYTES_MAX || database.contains(['\0', '/']) {
        return error("it is not the name of a database");
    }
    Ok(database.into_owned())
}

fn parse_user(user: &str) -> Result<String, PostgresqlAddressError> {
    if user.len() > NAME_BYTES_MAX || user.contains('\0') {
        let reason = "it is not the name of a user";
        return Err(PostgresqlAddressError::new("user", reason));
    }
    Ok(user.to_owned())
}

fn parse_schema(schema: &str) -> Result<String, PostgresqlAddressError> {
    let error = |reason: String| Err(PostgresqlAddressError::new("schema", reason));
    if schema.len() > NAME_BYTES_MAX {
        return error(format!("it is longer than {NAME_BYTES_MAX} bytes"));
    }
    // The name is put into statements between quotation marks.
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if !schema.bytes().all(is_allowed) || schema.starts_with("pg_") {
        return error(
            "it may have letters, digits, _ and -, and may not begin with pg_".to_owned(),
        );
    }
    Ok(schema.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_all_options() {
        let url = "postgresql://a,[::1]:5433/pw%20db?target_session_attrs=read-write&sslmode=verify-full\
                   &sslrootcert=/c%26a.pem&sslcert=c.pem&sslkey=k.pem&user=me&password_file=/p&schema=east\
                   &timeout_ms=3000&connect_timeout_ms=500&allow_async=yes";
        let options = PostgresqlOptions::parse(url).unwrap();
        assert_eq!(options.hosts, ["a:5432", "[::1]:5433"]);
        assert_eq!(
            options.to_string(),
            "postgresql://a:5432,[::1]:5433/pw db?schema=east"
        );
        let tls = options.tls.unwrap();
        assert_eq!(tls.authorities, PathBuf::from("/c&a.pem"));
        assert_eq!(tls.identity.unwrap().key, PathBuf::from("k.pem"));
        assert_eq!(
            (options.user.as_str(), options.schema.as_str()),
            ("me", "east")
        );
        assert_eq!(options.password_file, Some(PathBuf::from("/p")));
        assert_eq!(options.request_timeout, Duration::from_secs(3));
        assert_eq!(options.connect_timeout, Duration::from_millis(500));
        assert!(options.allow_async);
        let short = PostgresqlOptions::parse("postgres://a,b/db").unwrap();
        let hosts = vec!["a:5432".into(), "b:5432".into()];
        assert_eq!(short, PostgresqlOptions::new(hosts, "db"));
    }

    #[test]
    fn an_error_names_the_field_and_no_secret() {
        for (url, field) in [
            ("http://a:1/p", "scheme"),
            ("postgresql:///db", "hosts"),
            ("postgresql://a,,b/db", "hosts"),
            ("postgresql://a:0/db", "hosts"),
            ("postgresql://::1:5432/db", "hosts"),
            ("postgresql://pw:hunter2@a:1/db", "hosts"),
            ("postgresql://a:1", "database"),
            ("postgresql://a:1/db/more", "database"),
            ("postgresql://a:1/db?password=hunter2", "password"),
            ("postgresql://a:1/db?schema=x\"y", "schema"),
            ("postgresql://a:1/db?schema=pg_x", "schema"),
            ("postgresql://a:1/db?sslmode=require", "sslmode"),
            ("postgresql://a:1/db?sslmode=verify-full", "sslrootcert"),
            (
                "postgresql://a:1/db?sslmode=disable&sslrootcert=f",
                "sslmode",
            ),
            ("postgresql://a:1/db?sslrootcert=f&sslcert=f", "sslkey"),
            (
                "postgresql://a:1/db?target_session_attrs=any",
                "target_session_attrs",
            ),
            ("postgresql://a:1/db?timeout_ms=1s", "timeout_ms"),
            ("postgresql://a:1/db?timeout_ms=500", "connect_timeout_ms"),
            ("postgresql://a:1/db?allow_async=perhaps", "allow_async"),
            ("postgresql://a:1/db?colour=red", "colour"),
        ] {
            let error = PostgresqlOptions::parse(url).unwrap_err();
            assert_eq!(error.field, field, "{url}");
            assert!(!error.to_string().contains("hunter2"));
        }
    }
}
