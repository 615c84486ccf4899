//! The certificate authority in this process, as a link.

use std::sync::Arc;

use parking_lot::Mutex;
use placewright_errors::chain;
use placewright_link::{CertificateLink, Certified, Enrolment, LinkError, LinkFuture, Renewal};
use placewright_pki::{
    Authority, CertificateDer, CertificateFacts, Issued, PkiError, RENEWED_MAX, Renewals, now,
};
use tokio::sync::Semaphore;

/// The name of the authority in errors.
const PEER: &str = "the authority";
/// The most enrolments that wait for their turn, the one that is handled included. There is a limit because anybody who
/// reaches control or a cell may request one.
const ENROLMENTS_MAX: usize = 64;

/// An authority whose folder is on this machine.
pub(crate) struct LocalAuthority {
    authority: Arc<Authority>,
    /// The renewed certificates of each holder that are still valid.
    renewals: Arc<Mutex<Renewals>>,
    /// One permit for each enrolment that waits or is handled.
    enrolments: Semaphore,
    /// The permit of the one enrolment that is handled.
    turn: Semaphore,
}

impl LocalAuthority {
    pub(crate) fn new(authority: Authority) -> Self {
        Self {
            authority: Arc::new(authority),
            renewals: Arc::default(),
            enrolments: Semaphore::new(ENROLMENTS_MAX),
            turn: Semaphore::new(1),
        }
    }

    /// Runs an operation of the authority on a thread that may block.
    async fn run(
        &self,
        operation: impl FnOnce(&Authority) -> Result<Issued, PkiError> + Send + 'static,
    ) -> Result<Certified, LinkError> {
        let authority = Arc::clone(&self.authority);
        let issued = tokio::task::spawn_blocking(move || operation(&authority)).await;
        match issued {
            Ok(Ok(issued)) => Ok(certified(issued)),
            Ok(Err(error)) => Err(link_error(&error)),
            Err(error) => Err(unavailable(&error)),
        }
    }
}

impl CertificateLink for LocalAuthority {
    fn renew(&self, renewal: Renewal) -> LinkFuture<'_, Certified> {
        let renewals = Arc::clone(&self.renewals);
        Box::pin(self.run(move |authority| {
            let present = CertificateDer::from(renewal.present_certificate);
            renew(authority, &renewals, &present, &renewal.signing_request)
        }))
    }

    fn enrol(&self, enrolment: Enrolment) -> LinkFuture<'_, Certified> {
        Box::pin(async move {
            let Ok(_permit) = self.enrolments.try_acquire() else {
                let message = format!("{ENROLMENTS_MAX} enrolments wait already: try again");
                return Err(unavailable(&message));
            };
            let _turn = self
                .turn
                .acquire()
                .await
                .map_err(|error| unavailable(&error))?;
            self.run(move |authority| {
                authority.enrol(&enrolment.id, &enrolment.secret, &enrolment.signing_request)
            })
            .await
        })
    }
}

/// Renews a certificate, unless its holder has too many renewed certificates that are still valid.
fn renew(
    authority: &Authority,
    renewals: &Mutex<Renewals>,
    present: &CertificateDer<'_>,
    signing_request: &[u8],
) -> Result<Issued, PkiError> {
    let holder = CertificateFacts::read(present)?.identity;
    if !renewals.lock().may_add(&holder, now()) {
        return Err(PkiError::Refused(format!(
            "{RENEWED_MAX} certificates of {holder} were renewed and are valid: wait until one ends"
        )));
    }
    let issued = authority.renew(present, signing_request)?;
    if let Some(certificate) = issued.chain.first() {
        let end = CertificateFacts::read(certificate)?.not_after;
        renewals.lock().add(&holder, end);
    }
    Ok(issued)
}

fn unavailable(why: &impl ToString) -> LinkError {
    LinkError::Unavailable {
        peer: PEER.to_owned(),
        why: why.to_string(),
    }
}

fn certified(issued: Issued) -> Certified {
    let to_bytes = |list: Vec<CertificateDer<'static>>| {
        list.iter()
            .map(|certificate| certificate.to_vec())
            .collect()
    };
    Certified {
        chain: to_bytes(issued.chain),
        authorities: to_bytes(issued.authorities),
        revocation_list: issued.revocation_list,
    }
}

fn link_error(error: &PkiError) -> LinkError {
    let (peer, why) = (PEER.to_owned(), chain(error));
    match error {
        PkiError::File { .. } | PkiError::Content { .. } | PkiError::Random(_) => {
            tracing::error!(why, "the authority fails");
            LinkError::Unavailable { peer, why }
        }
        PkiError::Certificate(_)
        | PkiError::Name(_)
        | PkiError::Refused(_)
        | PkiError::Signing(_)
        | PkiError::Tls(_) => LinkError::Refused { peer, why },
    }
}
