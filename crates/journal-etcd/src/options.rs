//! The address of the store, and the options of the connections to its servers.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use placewright_tls::IdentityFiles;
use thiserror::Error;

/// How long one request may take. An election takes 1 s with etcd's defaults, so a slow answer does not mean that the
/// member is gone.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection may take. It is shorter than a request, so that a machine that is down is known to have
/// received nothing.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest prefix in bytes. It is part of every key.
const PREFIX_BYTES_MAX: usize = 200;
/// The most endpoints. Clusters have at most 7 members.
const ENDPOINTS_MAX: usize = 16;

/// The address of a store in etcd, and how its servers are reached. It holds no secret: a password is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdOptions {
    /// The members' client addresses as `host:port`. One suffices; with more, another is used when one fails.
    pub endpoints: Vec<String>,
    /// The beginning of the store's keys, before a slash. Stores on one cluster need different prefixes, and no prefix
    /// may begin with that of another store and a slash.
    pub prefix: String,
    /// TLS, if the members require it.
    pub tls: Option<EtcdTls>,
    /// The user as whom requests are made, if the cluster has authentication by password.
    pub user: Option<EtcdUser>,
    /// How long one request to one member may take. Default 2 s.
    pub request_timeout: Duration,
    /// How long connecting to a member may take. Default 1 s; it has to be less than `request_timeout`.
    pub connect_timeout: Duration,
    /// Whether trimming compacts etcd's history, which concerns the whole cluster: the cluster should serve
    /// this installation only. Default true. If it is off, the operator has to compact, or the quota fills up.
    pub compact: bool,
}

/// The files for TLS. They are read for each connection, so renewed ones need no restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdTls {
    /// The authorities that may have signed the members' certificates (PEM).
    pub authorities: PathBuf,
    /// The client's certificate and key, if the members ask for one.
    pub identity: Option<IdentityFiles>,
}

/// A user of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdUser {
    /// The name of the user, as etcd has it.
    pub name: String,
    /// The file with the password. It is read for each authentication.
    pub password_file: PathBuf,
}

/// A part of a store's address is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the store's address, {field}: {reason}")]
pub struct EtcdAddressError {
    /// The part: `scheme`, `endpoints`, `prefix`, or the name of a parameter.
    pub field: String,
    /// The problem with the part. The text never repeats a part that may be a secret.
    pub reason: String,
}

impl EtcdAddressError {
    fn new(field: &str, reason: impl Into<String>) -> Self {
        Self {
            field: field.to_owned(),
            reason: reason.into(),
        }
    }
}

impl EtcdOptions {
    /// The default options for a store.
    pub fn new(endpoints: Vec<String>, prefix: impl Into<String>) -> Self {
        Self {
            endpoints,
            prefix: prefix.into(),
            tls: None,
            user: None,
            request_timeout: REQUEST_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            compact: true,
        }
    }

    /// Reads an address: `etcd://host:port,host:port/prefix?parameters`, with TLS `etcds://…`.
    ///
    /// | parameter | meaning |
    /// | --- | --- |
    /// | `ca` | the file with the authorities of the members' certificates; required with TLS |
    /// | `cert`, `key` | the files with the client's certificate and its key |
    /// | `user`, `password_file` | the user, and the file with the password |
    /// | `timeout_ms`, `connect_timeout_ms` | how long a request and a connection may take |
    /// | `compact` | `false` leaves the compaction of etcd's history to the operator |
    ///
    /// Values are percent-encoded where they contain `&`, `%` or `#`.
    ///
    /// # Errors
    /// The part that is not valid.
    pub fn parse(url: &str) -> Result<Self, EtcdAddressError> {
        let (is_tls, rest) = match url.split_once("://") {
            Some(("etcd", rest)) => (false, rest),
            Some(("etcds", rest)) => (true, rest),
            _ => {
                let reason = "it begins with etcd:// or, with TLS, etcds://";
                return Err(EtcdAddressError::new("scheme", reason));
            }
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (endpoints, prefix) = place.split_once('/').unwrap_or((place, ""));
        let mut options = Self::new(parse_endpoints(endpoints)?, parse_prefix(prefix)?);
        let mut parameters = Parameters::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8();
            let value = value.map_err(|_| EtcdAddressError::new(name, "it is not UTF-8"))?;
            if value.is_empty() {
                return Err(EtcdAddressError::new(name, "it has no value"));
            }
            parameters.set(&mut options, name, &value)?;
        }
        parameters.finish(&mut options, is_tls)?;
        Ok(options)
    }
}

impl fmt::Display for EtcdOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "etcds" } else { "etcd" };
        let endpoints = self.endpoints.join(",");
        write!(f, "{scheme}://{endpoints}/{}", self.prefix)
    }
}

/// Parameters that are checked together, once all of them are read.
#[derive(Default)]
struct Parameters {
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    user: Option<String>,
    password_file: Option<PathBuf>,
}

impl Parameters {
    fn set(
        &mut self,
        options: &mut EtcdOptions,
        name: &str,
        value: &str,
    ) -> Result<(), EtcdAddressError> {
        let path = || Some(PathBuf::from(value));
        let milliseconds = || match value.parse() {
            Ok(number) if (10..=600_000).contains(&number) => Ok(Duration::from_millis(number)),
            _ => {
                let reason = "it has to be a number from 10 to 600000, in milliseconds";
                Err(EtcdAddressError::new(name, reason))
            }
        };
        match name {
            "ca" => self.ca = path(),
            "cert" => self.cert = path(),
            "key" => self.key = path(),
            "user" => self.user = Some(value.to_owned()),
            "password_file" => self.password_file = path(),
            "timeout_ms" => options.request_timeout = milliseconds()?,
            "connect_timeout_ms" => options.connect_timeout = milliseconds()?,
            "compact" => {
                let no_bool = |_| EtcdAddressError::new(name, "it has to be true or false");
                options.compact = value.parse().map_err(no_bool)?;
            }
            "password" => {
                let reason =
                    "a password does not belong into an address: name its file with password_file";
                return Err(EtcdAddressError::new(name, reason));
            }
            _ => return Err(EtcdAddressError::new(name, "there is no such parameter")),
        }
        Ok(())
    }

    fn finish(self, options: &mut EtcdOptions, is_tls: bool) -> Result<(), EtcdAddressError> {
        let missing = |field| EtcdAddressError::new(field, "it is missing");
        let identity = match (self.cert, self.key) {
            (Some(certificate), Some(key)) => Some(IdentityFiles { certificate, key }),
            (None, None) => None,
            (Some(_), None) => return Err(missing("key")),
            (None, Some(_)) => return Err(missing("cert")),
        };
        options.tls = match (is_tls, self.ca) {
            (true, Some(authorities)) => Some(EtcdTls {
                authorities,
                identity,
            }),
            (true, None) => return Err(missing("ca")),
            (false, None) if identity.is_none() => None,
            (false, ca) => {
                let field = if ca.is_some() { "ca" } else { "cert" };
                return Err(EtcdAddressError::new(field, "TLS needs etcds://"));
            }
        };
        options.user = match (self.user, self.password_file) {
            (Some(name), Some(password_file)) => Some(EtcdUser {
                name,
                password_file,
            }),
            (None, None) => None,
            (Some(_), None) => return Err(missing("password_file")),
            (None, Some(_)) => return Err(missing("user")),
        };
        if options.connect_timeout >= options.request_timeout {
            let reason = "it has to be less than timeout_ms";
            return Err(EtcdAddressError::new("connect_timeout_ms", reason));
        }
        Ok(())
    }
}

fn parse_endpoints(endpoints: &str) -> Result<Vec<String>, EtcdAddressError> {
    let error = |reason: String| EtcdAddressError::new("endpoints", reason);
    if endpoints.contains('@') {
        let reason =
            "a user and a password do not belong here: use the parameters user and password_file";
        return Err(error(reason.into()));
    }
    let endpoints: Vec<String> = endpoints.split(',').map(str::to_owned).collect();
    if endpoints.len() > ENDPOINTS_MAX {
        return Err(error(format!("there are more than {ENDPOINTS_MAX}")));
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        let is_valid = endpoint.rsplit_once(':').is_some_and(|(host, port)| {
            let is_bare = !host.contains(':');
            let is_host = is_bare || (host.starts_with('[') && host.ends_with(']'));
            !host.is_empty() && is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        if !is_valid {
            let number = index + 1;
            return Err(error(format!(
                "number {number} is not host:port (an IPv6 address is written in brackets)"
            )));
        }
    }
    Ok(endpoints)
}

fn parse_prefix(prefix: &str) -> Result<String, EtcdAddressError> {
    let error = |reason: String| Err(EtcdAddressError::new("prefix", reason));
    let prefix = prefix.trim_matches('/');
    if prefix.is_empty() {
        return error(
            "it is missing: name the store's keys, as in etcd://host:2379/placewright".into(),
        );
    }
    if prefix.len() > PREFIX_BYTES_MAX {
        return error(format!("it is longer than {PREFIX_BYTES_MAX} bytes"));
    }
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    if !prefix.bytes().all(is_allowed) {
        return error("it has characters other than letters, digits and / . _ -".into());
    }
    Ok(prefix.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_all_options() {
        let url = "etcds://a:2379,[::1]:2380/east/pw/?ca=/c%26a.pem&cert=c.pem&key=k.pem&user=pw\
                   &password_file=/p&timeout_ms=3000&connect_timeout_ms=500&compact=false";
        let options = EtcdOptions::parse(url).unwrap();
        assert_eq!(options.endpoints, ["a:2379", "[::1]:2380"]);
        assert_eq!(options.to_string(), "etcds://a:2379,[::1]:2380/east/pw");
        let tls = options.tls.unwrap();
        assert_eq!(tls.authorities, PathBuf::from("/c&a.pem"));
        assert_eq!(tls.identity.unwrap().key, PathBuf::from("k.pem"));
        assert_eq!(options.user.unwrap().name, "pw");
        assert_eq!(options.request_timeout, Duration::from_secs(3));
        assert_eq!(options.connect_timeout, Duration::from_millis(500));
        assert!(!options.compact);
    }

    #[test]
    fn an_error_names_the_field_and_no_secret() {
        for (url, field) in [
            ("http://a:1/p", "scheme"),
            ("etcd:///p", "endpoints"),
            ("etcd://a/p", "endpoints"),
            ("etcd://a:0/p", "endpoints"),
            ("etcd://::1:2379/p", "endpoints"),
            ("etcd://pw:hunter2@a:1/p", "endpoints"),
            ("etcd://a:1", "prefix"),
            ("etcd://a:1/p q", "prefix"),
            ("etcd://a:1/p?password=hunter2", "password"),
            ("etcd://a:1/p?user=pw", "password_file"),
            ("etcd://a:1/p?password_file=f", "user"),
            ("etcd://a:1/p?ca=f", "ca"),
            ("etcds://a:1/p", "ca"),
            ("etcds://a:1/p?ca=f&cert=f", "key"),
            ("etcd://a:1/p?timeout_ms=1s", "timeout_ms"),
            ("etcd://a:1/p?timeout_ms=500", "connect_timeout_ms"),
            ("etcd://a:1/p?compact=maybe", "compact"),
            ("etcd://a:1/p?colour=red", "colour"),
        ] {
            let error = EtcdOptions::parse(url).unwrap_err();
            assert_eq!(error.field, field, "{url}");
            assert!(!error.to_string().contains("hunter2"));
        }
    }
}
