//! Looks after certificates: renews them in time, and reads them again when their files change.

use std::sync::Arc;
use std::time::Duration;

use placewright_errors::chain;
use placewright_link::{CertificateLink, LinkError, Renewal};
use placewright_pki::{Credentials, KeyRequest, Loaded, PkiError, SKEW, holder, now};
use placewright_rpc::CertificatesClient;
use thiserror::Error;
use tokio::time::{Instant, sleep};

/// How often files are looked at, and the time.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the revocation list is asked for.
const LIST_EVERY: Duration = Duration::from_secs(10);
/// The longest wait before a renewal that failed is tried again.
const RETRY_MAX: i64 = 60;

/// A certificate that is looked after.
pub(crate) struct Kept {
    credentials: Arc<Credentials>,
    /// Who renews it, if anybody does.
    authority: Option<Arc<dyn CertificateLink>>,
    /// Who has the revocation list, if it is not here.
    lists: Option<CertificatesClient>,
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
    #[error("the folder cannot be written")]
    Interrupted,
}

impl Kept {
    pub(crate) fn new(
        credentials: Arc<Credentials>,
        authority: Option<Arc<dyn CertificateLink>>,
        lists: Option<CertificatesClient>,
    ) -> Self {
        Self {
            renew_at: due(&credentials.current()),
            credentials,
            authority,
            lists,
            list_due: Instant::now(),
        }
    }

    async fn look(&mut self) {
        self.reload();
        let current = self.credentials.current();
        if now() >= self.renew_at && current.is_own_form {
            self.renew(&current).await;
        }
        if self.list_due <= Instant::now() {
            self.list_due = Instant::now() + LIST_EVERY;
            self.ask_for_list(&current).await;
        }
    }

    /// Reads the files again if they are others than before.
    fn reload(&mut self) {
        match self.credentials.reload_if_changed() {
            Ok(false) => {}
            Ok(true) => {
                let current = self.credentials.current();
                self.renew_at = due(&current);
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

    async fn renew(&mut self, current: &Loaded) {
        let renewed = match &self.authority {
            Some(authority) => renew(&self.credentials, current, &**authority).await,
            None => Err(RenewError::Pki(PkiError::Refused(
                "nobody here has the authority: use `placewright pki renew`".to_owned(),
            ))),
        };
        match renewed {
            Ok(()) => self.reload(),
            Err(error) => {
                let left = current.facts.not_after - now();
                self.renew_at = now() + (left / 10).clamp(1, RETRY_MAX);
                tracing::warn!(
                    identity = %current.identity(),
                    seconds_left = left,
                    error = chain(&error),
                    "the certificate is not renewed yet"
                );
            }
        }
    }

    async fn ask_for_list(&self, current: &Loaded) {
        let Some(lists) = &self.lists else { return };
        let asked = lists.revocations(current.list.as_deref()).await;
        let list = match asked {
            Ok(Some(list)) => list,
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%error, "the revocation list cannot be asked for");
                return;
            }
        };
        if let Err(error) = holder::write_list(self.credentials.directory(), &list) {
            tracing::error!(error = chain(&error), "the revocation list cannot be kept");
        }
    }
}

/// When a certificate is renewed: at two thirds of its life, which began when it was issued.
fn due(current: &Loaded) -> i64 {
    let skew = i64::try_from(SKEW.as_secs()).unwrap_or(0);
    let (begin, end) = (current.facts.not_before + skew, current.facts.not_after);
    // A certificate of another authority may not be set back, and then is renewed a little late.
    begin + (end - begin).max(0) * 2 / 3
}

/// Has a new key certified, and puts both in place of those before.
async fn renew(
    credentials: &Credentials,
    current: &Loaded,
    authority: &dyn CertificateLink,
) -> Result<(), RenewError> {
    let request = KeyRequest::new()?;
    let renewal = Renewal {
        present: current.certificate.to_vec(),
        request: request.request.clone(),
    };
    let issued = current.renewed(placewright_rpc::issued(authority.renew(renewal).await?))?;
    let folder = credentials.directory().to_owned();
    let written = tokio::task::spawn_blocking(move || holder::write(&folder, &request, &issued));
    written.await.map_err(|_| RenewError::Interrupted)??;
    Ok(())
}

/// Looks after certificates as long as the process lives.
pub(crate) async fn keep(mut all: Vec<Kept>) {
    loop {
        for one in &mut all {
            one.look().await;
        }
        sleep(LOOK_EVERY).await;
    }
}
