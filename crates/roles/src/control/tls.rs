//! TLS of control's listeners: checks the options, reads the files that they name, and reads them again
//! when they change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use placewright_http::{ListenerTlsMetrics, TlsAcceptor, TlsMetrics};
use placewright_net::Handshakes;
use placewright_tls::{
    ClientFiles, FileBacked, FileError, IdentityFiles, LoadedServer, Outcome, ServerFiles,
    others_may_read,
};

use crate::config::ConfigErrors;
use crate::handshakes::HandshakeThreads;
use crate::identities::ControlIdentity;
use crate::options::{ClientCertificateMode, Options, PlainHttpMode};

/// The protocol of the REST services over TLS, as ALPN names it.
const HTTP_1_1: &[u8] = b"http/1.1";
/// A certificate that expires within this time gives a warning.
const EXPIRES_SOON: Duration = Duration::from_secs(14 * 24 * 3600);

/// The TLS options of one listener.
struct ListenerOptions<'a> {
    section: &'static str,
    certificate: Option<&'a Path>,
    key: Option<&'a Path>,
    client_ca: Option<&'a Path>,
    client_certificates: ClientCertificateMode,
    plain: PlainHttpMode,
}

/// The TLS options of all listeners that can have TLS.
fn listeners(options: &Options) -> [ListenerOptions<'_>; 8] {
    macro_rules! of_section {
        ($section:ident) => {
            ListenerOptions {
                section: stringify!($section),
                certificate: options.$section.tls_certificate.as_deref(),
                key: options.$section.tls_key.as_deref(),
                client_ca: options.$section.tls_client_ca.as_deref(),
                client_certificates: options.$section.tls_client_certificates,
                plain: options.$section.tls_plain,
            }
        };
    }
    [
        of_section!(placement),
        of_section!(scheduler),
        of_section!(compute),
        of_section!(identity),
        of_section!(image),
        of_section!(network),
        of_section!(ui),
        of_section!(health),
    ]
}

/// A listener with TLS.
struct Listener {
    section: &'static str,
    /// The listener's TLS configuration, which is read from its files, and read again when they change.
    server: Arc<FileBacked<LoadedServer, FileError>>,
    /// Whether the listener also serves HTTP without TLS.
    allows_plain: bool,
}

/// The listeners with TLS, whose files were read.
#[derive(Default)]
pub(super) struct TlsFiles(Vec<Listener>);

impl TlsFiles {
    /// Reads the files of all listeners, and adds warnings about them to `warnings`.
    ///
    /// # Errors
    ///
    /// The first error in the options or files of each listener.
    pub(super) fn load(
        options: &Options,
        warnings: &mut Vec<String>,
    ) -> Result<Self, ConfigErrors> {
        let (mut loaded, mut problems) = (Vec::new(), Vec::new());
        for listener in listeners(options) {
            match listener.files() {
                Ok(None) => {}
                Ok(Some(files)) => match files.load() {
                    Ok(server) => {
                        listener.add_warnings(&server, warnings);
                        loaded.push(Listener {
                            section: listener.section,
                            server: Arc::new(server),
                            allows_plain: listener.plain == PlainHttpMode::Allow,
                        });
                    }
                    Err(error) => problems.push(format!("[{}] TLS: {error}", listener.section)),
                },
                Err(problem) => problems.push(format!("{}.{problem}", listener.section)),
            }
        }
        if problems.is_empty() {
            Ok(Self(loaded))
        } else {
            Err(ConfigErrors(problems))
        }
    }

    /// Starts the threads for handshakes, if any listener has TLS, or control has a certificate for its
    /// connections with other roles.
    ///
    /// # Errors
    ///
    /// The system has no threads.
    pub(super) fn open(
        self,
        options: &Options,
        metrics: &TlsMetrics,
        identity: &ControlIdentity,
    ) -> std::io::Result<Tls> {
        let has_handshakes = identity.credentials.is_some() || !self.0.is_empty();
        let threads = HandshakeThreads::start(options, has_handshakes)?;
        Ok(Tls {
            handshakes: threads.handshakes(),
            listeners: Arc::new(Listeners::new(self.0, metrics)),
            threads,
        })
    }
}

impl ListenerOptions<'_> {
    /// The files that the options name; `None` if the listener has no TLS. An error begins with the name
    /// of an option.
    fn files(&self) -> Result<Option<ServerFiles>, String> {
        let Some(certificate) = self.certificate else {
            return match () {
                () if self.key.is_some() => Err("tls_key: goes with tls_certificate".to_owned()),
                () if self.plain == PlainHttpMode::Refuse => {
                    Err("tls_plain: to refuse HTTP takes a tls_certificate for HTTPS".to_owned())
                }
                () if self.client_certificates != ClientCertificateMode::Off => Err(
                    "tls_client_certificates: clients show one over TLS only: set tls_certificate"
                        .to_owned(),
                ),
                () => Ok(None),
            };
        };
        let clients = match (self.client_certificates, self.client_ca) {
            (ClientCertificateMode::Off, _) => None,
            (_, None) => {
                return Err(format!(
                    "tls_client_certificates: {} takes a tls_client_ca that says who signs them",
                    self.client_certificates.text()
                ));
            }
            (mode, Some(authorities)) => Some(ClientFiles {
                authorities: authorities.to_owned(),
                is_required: mode == ClientCertificateMode::Required,
            }),
        };
        Ok(Some(ServerFiles {
            identity: IdentityFiles {
                certificate: certificate.to_owned(),
                key: self.key_file(certificate),
            },
            clients,
            protocols: vec![HTTP_1_1.to_vec()],
        }))
    }

    fn key_file(&self, certificate: &Path) -> PathBuf {
        self.key.unwrap_or(certificate).to_owned()
    }

    /// Adds warnings about settings that are allowed but probably not intended.
    fn add_warnings(
        &self,
        server: &FileBacked<LoadedServer, FileError>,
        warnings: &mut Vec<String>,
    ) {
        let section = self.section;
        if let Some(key) = self.key.or(self.certificate)
            && others_may_read(key)
        {
            warnings.push(format!(
                "{section}.tls_key: everybody on this machine may read {}: chmod o-rwx",
                key.display()
            ));
        }
        if self.client_ca.is_some() && self.client_certificates == ClientCertificateMode::Off {
            warnings.push(format!(
                "{section}.tls_client_ca is set, but {section}.tls_client_certificates is off: \
                 clients are not asked for a certificate"
            ));
        }
        if self.plain == PlainHttpMode::Allow
            && self.client_certificates == ClientCertificateMode::Required
        {
            warnings.push(format!(
                "{section}.tls_client_certificates is required, but {section}.tls_plain is allow: \
                 a client without a certificate comes in over HTTP"
            ));
        }
        warnings.extend(expiry_warning(section, &server.current()));
    }
}

/// A warning about a certificate that has expired, will expire within [`EXPIRES_SOON`], or is not valid yet; `None` for
/// any other certificate.
fn expiry_warning(section: &str, server: &LoadedServer) -> Option<String> {
    let validity = server.validity();
    let now_s = now_s();
    let soon_s = now_s.saturating_add_unsigned(EXPIRES_SOON.as_secs());
    let expires_at = validity.not_after_text();
    if validity.is_over(now_s) {
        return Some(format!(
            "{section}.tls_certificate: it expired at {expires_at}"
        ));
    }
    if now_s < validity.not_before_s {
        return Some(format!(
            "{section}.tls_certificate: it is not valid yet; is the clock right?"
        ));
    }
    validity
        .is_over(soon_s)
        .then(|| format!("{section}.tls_certificate: it expires at {expires_at}"))
}

fn now_s() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.map_or(0, |since_epoch| since_epoch.as_secs().cast_signed())
}

/// TLS of a running control.
pub(super) struct Tls {
    /// The limits of the handshakes of the APIs.
    handshakes: Handshakes,
    listeners: Arc<Listeners>,
    /// The threads that compute the handshakes of all listeners.
    threads: HandshakeThreads,
}

impl Tls {
    /// The acceptor of TLS connections for the listener of this section, if it has TLS.
    pub(super) fn acceptor(&self, section: &str) -> Option<Arc<TlsAcceptor>> {
        let mut listeners = self.listeners.0.iter();
        let (listener, metrics) = listeners.find(|(listener, _)| listener.section == section)?;
        let server = Arc::clone(&listener.server);
        Some(Arc::new(TlsAcceptor::new(
            move || Arc::clone(server.current().config()),
            listener.allows_plain,
            self.handshakes.clone(),
            metrics.clone(),
        )))
    }

    /// The limits of the handshakes of a gRPC server. They are separate from those of the APIs, so that clients of the
    /// APIs cannot use them up.
    pub(super) fn handshakes_of_roles(&self) -> Handshakes {
        self.threads.handshakes()
    }

    /// The scheme of the listener's URL: `https` if it has TLS, even if it also accepts plain HTTP.
    pub(super) fn scheme(&self, section: &str) -> &'static str {
        let mut listeners = self.listeners.0.iter();
        match listeners.any(|(listener, _)| listener.section == section) {
            true => "https",
            false => "http",
        }
    }

    /// The listeners with TLS.
    pub(super) fn listeners(&self) -> &Arc<Listeners> {
        &self.listeners
    }
}

/// The listeners with TLS, with their metrics.
pub(super) struct Listeners(Vec<(Listener, ListenerTlsMetrics)>);

impl Listeners {
    fn new(listeners: Vec<Listener>, metrics: &TlsMetrics) -> Self {
        let with_metrics = listeners.into_iter().map(|listener| {
            let metrics = metrics.listener(listener.section);
            metrics.set_expiry(listener.server.current().validity().not_after_s);
            (listener, metrics)
        });
        Self(with_metrics.collect())
    }

    /// Whether no listener has TLS.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads again the files that have changed. Blocks.
    pub(super) fn reread_changed(&self) {
        self.for_each_listener(FileBacked::check);
    }

    /// Reads all files again. Blocks.
    pub(super) fn reread(&self) {
        self.for_each_listener(FileBacked::reread);
    }

    fn for_each_listener(
        &self,
        read: impl Fn(&FileBacked<LoadedServer, FileError>) -> Outcome<FileError>,
    ) {
        for (listener, metrics) in &self.0 {
            let section = listener.section;
            match read(&listener.server) {
                Outcome::Unchanged | Outcome::Changing => {}
                Outcome::Replaced => {
                    let server = listener.server.current();
                    let validity = server.validity();
                    metrics.count_reload(true);
                    metrics.set_expiry(validity.not_after_s);
                    tracing::info!(
                        listener = section,
                        expires = validity.not_after_text(),
                        "read the certificate again"
                    );
                    if let Some(warning) = expiry_warning(section, &server) {
                        tracing::warn!("{warning}");
                    }
                }
                Outcome::Invalid(error) => {
                    metrics.count_reload(false);
                    tracing::error!("[{section}] TLS: {error}; what was in force before stays");
                }
            }
        }
    }
}
