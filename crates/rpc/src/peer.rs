//! The caller at the other end of a connection with a certificate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use placewright_pki::{CertificateFacts, Credentials, now};
use rustls::pki_types::CertificateDer;

/// The longest time between two checks of a certificate. The end of its validity cannot be awaited in
/// one step, because the time of day may be set meanwhile.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// A caller and its certificate, which was verified in the handshake.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) facts: CertificateFacts,
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) remote: SocketAddr,
    /// The number of the server's credentials with which the certificate was verified last. No other data depends on
    /// it: a thread that reads an older number only verifies once more.
    verified_with: AtomicU64,
}

impl Peer {
    pub(crate) fn new(
        certificate: &CertificateDer<'_>,
        remote: SocketAddr,
        credentials_number: u64,
    ) -> Result<Self, placewright_pki::PkiError> {
        Ok(Self {
            facts: CertificateFacts::read(certificate)?,
            certificate: certificate.clone().into_owned(),
            remote,
            verified_with: AtomicU64::new(credentials_number),
        })
    }

    /// Checks that the certificate is still valid: neither expired nor revoked since the handshake.
    pub(crate) fn check(&self, own_credentials: &Credentials) -> Result<(), String> {
        if now() > self.facts.not_after {
            return Err(format!(
                "the certificate of {} is out of date: renew it, and connect again",
                self.facts.identity
            ));
        }
        let current = own_credentials.current();
        if self.verified_with.load(Ordering::Relaxed) != current.number {
            current
                .check_client(&self.certificate)
                .map_err(|error| format!("the certificate of {}: {error}", self.facts.identity))?;
            self.verified_with.store(current.number, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits until the certificate is not valid any more, and returns the reason.
    pub(crate) async fn until_refused(
        self: Arc<Self>,
        own_credentials: Arc<Credentials>,
    ) -> String {
        let mut changes = own_credentials.changes();
        loop {
            if let Err(reason) = self.check(&own_credentials) {
                return reason;
            }
            // The certificate is still valid in the second `not_after`.
            let remaining = self.facts.not_after.saturating_sub(now()).saturating_add(1);
            let remaining = Duration::from_secs(u64::try_from(remaining).unwrap_or(1));
            tokio::select! {
                () = tokio::time::sleep(remaining.min(CHECK_INTERVAL)) => {}
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
