//! The authority in this process, as the links offer it.

use std::sync::Arc;

use placewright_errors::chain;
use placewright_link::{CertificateLink, Certified, Enrolment, LinkError, LinkFuture, Renewal};
use placewright_pki::{Authority, CertificateDer, Issued, PkiError};

/// The name of the authority in errors.
const PEER: &str = "the authority";

/// An authority whose folder is here.
pub(crate) struct LocalAuthority(Arc<Authority>);

impl LocalAuthority {
    pub(crate) fn new(authority: Authority) -> Self {
        Self(Arc::new(authority))
    }

    /// Has the authority do something on a thread that may wait for the disk.
    fn ask(
        &self,
        what: impl FnOnce(&Authority) -> Result<Issued, PkiError> + Send + 'static,
    ) -> LinkFuture<'_, Certified> {
        let authority = Arc::clone(&self.0);
        Box::pin(async move {
            let issued = tokio::task::spawn_blocking(move || what(&authority)).await;
            match issued {
                Ok(Ok(issued)) => Ok(certified(issued)),
                Ok(Err(error)) => Err(link_error(&error)),
                Err(error) => Err(LinkError::Unavailable {
                    peer: PEER.to_owned(),
                    why: error.to_string(),
                }),
            }
        })
    }
}

impl CertificateLink for LocalAuthority {
    fn renew(&self, renewal: Renewal) -> LinkFuture<'_, Certified> {
        self.ask(move |authority| {
            let present = CertificateDer::from(renewal.present);
            authority.renew(&present, &renewal.request)
        })
    }

    fn enrol(&self, enrolment: Enrolment) -> LinkFuture<'_, Certified> {
        self.ask(move |authority| {
            authority.enrol(&enrolment.id, &enrolment.secret, &enrolment.request)
        })
    }
}

fn certified(issued: Issued) -> Certified {
    let all = |list: Vec<CertificateDer<'static>>| list.iter().map(|one| one.to_vec()).collect();
    Certified {
        chain: all(issued.chain),
        authorities: all(issued.authorities),
        list: issued.list,
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
        | PkiError::Making(_)
        | PkiError::Tls(_) => LinkError::Refused { peer, why },
    }
}
