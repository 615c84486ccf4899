//! Keeps the certificates of this process valid: renews them in time, reads them again when their files
//! change, and fetches revocation lists.

use std::sync::Arc;
use std::time::Duration;

use placewright_errors::chain;
use placewright_link::{CertificateLink, LinkError, Renewal};
use placewright_pki::holder::{self, WritableFolder};
use placewright_pki::{Credentials, KeyRequest, LoadedCredentials, PkiError, SKEW, now};
use placewright_rpc::CertificatesClient;
use thiserror::Error;
use tokio::time::{Instant, sleep};

/// How often files and expiry are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often the revocation list is fetched.
const LIST_INTERVAL: Duration = Duration::from_secs(10);
/// The longest wait in seconds before a failed renewal is tried again.
const RETRY_SECONDS_MAX: i64 = 60;

/// Credentials that are kept valid.
pub(crate) struct ManagedCredentials {
    credentials: Arc<Credentials>,
    /// The authority that renews the certificate, if there is one.
    authority: Option<Arc<dyn CertificateLink>>,
    /// The server from which the revocation list is fetched. `None` for control, and for cells in its process: they
    /// read the list of the authority's folder or, without the authority, the one that an operator copies.
    revocation_lists: Option<CertificatesClient>,
    /// When the revocation list is fetched next.
    list_due: Instant,
    /// When a renewal is tried next, in seconds since 1970.
    renew_at: i64,
}

/// Why a certificate is not renewed.
#[derive(Debug, Error)]
enum RenewError {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The thread that reads or writes the folder panicked, or did not run because the process ends.
    #[error("the folder cannot be written")]
    Interrupted,
}

impl ManagedCredentials {
    pub(crate) fn new(
        credentials: Arc<Credentials>,
        authority: Option<Arc<dyn CertificateLink>>,
        revocation_lists: Option<CertificatesClient>,
    ) -> Self {
        Self {
            renew_at: renewal_time(&credentials.current()),
            credentials,
            authority,
            revocation_lists,
            list_due: Instant::now(),
        }
    }

    /// Reloads changed files, and renews the certificate and fetches the revocation list when each is due.
    async fn keep_valid(&mut self) {
        self.reload();
        let current = self.credentials.current();
        if now() >= self.renew_at && current.is_renewed_by_placewright {
            self.renew(&current).await;
        }
        if self.list_due <= Instant::now() {
            self.list_due = Instant::now() + LIST_INTERVAL;
            self.fetch_list(&current).await;
        }
    }

    /// Reads the files again if they have changed.
    fn reload(&mut self) {
        match self.credentials.reload_if_changed() {
            Ok(false) => {}
            Ok(true) => {
                let current = self.credentials.current();
                self.renew_at = renewal_time(&current);
                tracing::info!(
                    identity = %current.identity(),
                    serial = current.facts.serial_text(),
                    "certificates were read again"
                );
            }
            Err(error) => tracing::error!(
                error = chain(&error),
                "certificates cannot be read again: what was read before stays in force"
            ),
        }
    }

    /// Renews the certificate; after a failure, sets when the renewal is tried again.
    async fn renew(&mut self, current: &LoadedCredentials) {
        let renewed = match &self.authority {
            Some(authority) => renew(&self.credentials, current, &**authority).await,
            None => Err(RenewError::Pki(PkiError::Refused(
                "nobody here has the authority: use `placewright pki renew`".to_owned(),
            ))),
        };
        match renewed {
            Ok(()) => self.reload(),
            Err(error) => {
                // The wait is a tenth of the time until the certificate expires, so there are several attempts before
                // it does.
                let seconds_left = current.facts.not_after - now();
                self.renew_at = now() + (seconds_left / 10).clamp(1, RETRY_SECONDS_MAX);
                tracing::warn!(
                    identity = %current.identity(),
                    seconds_left,
                    error = chain(&error),
                    "the certificate is not renewed yet"
                );
            }
        }
    }

    /// Fetches the revocation list, and writes it into the folder if it is newer than the present one. The server
    /// may have an older list, because operators copy lists to replicas by hand.
    async fn fetch_list(&self, current: &LoadedCredentials) {
        let Some(revocation_lists) = &self.revocation_lists else {
            return;
        };
        let result = revocation_lists
            .revocations(current.revocation_list.as_deref())
            .await;
        let list = match result {
            Ok(Some(list)) => list,
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%error, "the revocation list cannot be asked for");
                return;
            }
        };
        let directory = self.credentials.directory();
        if let Err(error) = holder::write_newer_revocation_list(directory, &list) {
            tracing::error!(error = chain(&error), "the revocation list cannot be kept");
        }
    }
}

/// When a certificate is renewed, in seconds since 1970: after two thirds of the time from its issue to
/// its expiry.
fn renewal_time(current: &LoadedCredentials) -> i64 {
    // Our authority dates a certificate back by SKEW. A certificate of another authority may not be dated
    // back, and is then renewed a little late.
    let skew = i64::try_from(SKEW.as_secs()).unwrap_or(0);
    let (issued_at, expires_at) = (current.facts.not_before + skew, current.facts.not_after);
    issued_at + (expires_at - issued_at).max(0) * 2 / 3
}

/// Gets a certificate for a new key, and replaces the previous key and certificate in the folder.
async fn renew(
    credentials: &Credentials,
    current: &LoadedCredentials,
    authority: &dyn CertificateLink,
) -> Result<(), RenewError> {
    let folder = credentials.directory().to_owned();
    let folder = tokio::task::spawn_blocking(move || WritableFolder::of(&folder));
    let folder = folder.await.map_err(|_| RenewError::Interrupted)??;
    let key_request = KeyRequest::new()?;
    let renewal = Renewal {
        present_certificate: current.certificate.to_vec(),
        signing_request: key_request.request.clone(),
    };
    let issued =
        current.checked_renewal(placewright_rpc::to_issued(authority.renew(renewal).await?))?;
    let written = tokio::task::spawn_blocking(move || folder.write(&key_request, &issued));
    written.await.map_err(|_| RenewError::Interrupted)??;
    Ok(())
}

/// Keeps credentials valid as long as the process runs.
pub(crate) async fn manage(mut all: Vec<ManagedCredentials>) {
    loop {
        for credentials in &mut all {
            credentials.keep_valid().await;
        }
        sleep(CHECK_INTERVAL).await;
    }
}
