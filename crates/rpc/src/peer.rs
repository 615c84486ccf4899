//! A caller that showed a certificate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use placewright_pki::{CertificateFacts, Credentials, now};
use rustls::pki_types::CertificateDer;

/// The longest wait for a certificate's end: the clock may be set meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The certificate of a connection, as it was verified in the handshake.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) facts: CertificateFacts,
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) remote: SocketAddr,
    /// The number of the credentials with which the certificate was found to be good last.
    good_with: AtomicU64,
}

impl Peer {
    pub(crate) fn new(
        certificate: &CertificateDer<'_>,
        remote: SocketAddr,
        number: u64,
    ) -> Result<Self, placewright_pki::PkiError> {
        Ok(Self {
            facts: CertificateFacts::read(certificate)?,
            certificate: certificate.clone().into_owned(),
            remote,
            good_with: AtomicU64::new(number),
        })
    }

    /// Whether the certificate is still good: neither out of date nor revoked since the handshake.
    pub(crate) fn check(&self, here: &Credentials) -> Result<(), String> {
        if now() > self.facts.not_after {
            return Err(format!(
                "the certificate of {} is out of date: renew it, and connect again",
                self.facts.identity
            ));
        }
        let current = here.current();
        if self.good_with.load(Ordering::Relaxed) != current.number {
            current
                .check_client(&self.certificate)
                .map_err(|error| format!("the certificate of {}: {error}", self.facts.identity))?;
            self.good_with.store(current.number, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits until the certificate is not good any more, and says why.
    pub(crate) async fn until_refused(self: Arc<Self>, here: Arc<Credentials>) -> String {
        let mut changes = here.changes();
        loop {
            if let Err(why) = self.check(&here) {
                return why;
            }
            let left = self.facts.not_after.saturating_sub(now()).saturating_add(1);
            let left = Duration::from_secs(u64::try_from(left).unwrap_or(1));
            tokio::select! {
                () = tokio::time::sleep(left.min(LOOK_EVERY)) => {}
                changed = changes.changed() => {
                    if changed.is_err() {
                        // The credentials are gone, so this process is about to end.
                        std::future::pending::<()>().await;
                    }
                }
            }
        }
    }
}
