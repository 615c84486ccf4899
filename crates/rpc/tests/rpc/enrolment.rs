//! Enrolment with the word of an invitation, over a network.

use std::sync::Arc;
use std::time::Duration;

use placewright_identity::{Identity, Role};
use placewright_link::{CertificateLink, Certified, Enrolment, LinkError, LinkFuture, Renewal};
use placewright_pki::{Authority, CertificateDer, Credentials, Grant, KeyRequest, holder};
use placewright_rpc::{ClientOptions, ServeOptions, Services, enrol, serve};
use tokio::net::TcpListener;

/// An authority that only enrols.
struct Enroller(Arc<Authority>);

impl CertificateLink for Enroller {
    fn renew(&self, _renewal: Renewal) -> LinkFuture<'_, Certified> {
        Box::pin(std::future::ready(Err(refused(&"nothing is renewed"))))
    }

    fn enrol(&self, enrolment: Enrolment) -> LinkFuture<'_, Certified> {
        let Enrolment {
            id,
            secret,
            signing_request,
        } = enrolment;
        let issued = self.0.enrol(&id, &secret, &signing_request);
        let to_bytes =
            |list: Vec<CertificateDer<'_>>| list.iter().map(|found| found.to_vec()).collect();
        let certified = issued.map(|issued| Certified {
            chain: to_bytes(issued.chain),
            authorities: to_bytes(issued.authorities),
            revocation_list: issued.revocation_list,
        });
        Box::pin(std::future::ready(
            certified.map_err(|error| refused(&error)),
        ))
    }
}

fn refused(why: &impl ToString) -> LinkError {
    LinkError::Refused {
        peer: "the authority".to_owned(),
        why: why.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_certificate_is_issued_for_a_folder_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::create(&folder.path().join("pki"), "test").unwrap();
    let authority = Arc::new(authority);
    let control = Identity::new("test", Role::Control).unwrap();
    let request = KeyRequest::new().unwrap();
    let issued = authority.issue(&Grant::new(control), &request.request, "issue");
    let own_folder = folder.path().join("control");
    holder::write(&own_folder, &request, &issued.unwrap()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let services = Services {
        certificates: Some(Arc::new(Enroller(Arc::clone(&authority)))),
        ..Services::default()
    };
    let options = ServeOptions {
        // The revocation list is the one in the folder.
        credentials: Some(Credentials::load(&own_folder, None).unwrap()),
        ..ServeOptions::default()
    };
    tokio::spawn(serve(listener, services, options, std::future::pending()));

    let cell = Identity::new("test", Role::Cell("c1".into())).unwrap();
    let word = authority.invite(&Grant::new(cell), Duration::from_secs(3600));
    let word = word.unwrap();
    let enrol_into = |path| {
        let (word, options) = (word.clone(), ClientOptions::new(&address));
        async move { enrol(&word, options, path).await }
    };
    let issued_count = || authority.entries().unwrap().len();
    // A file is where the folder should be, and a folder where the certificate should be.
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let occupied = folder.path().join("occupied");
    std::fs::create_dir_all(occupied.join("identity.pem")).unwrap();
    for path in [&file, &occupied] {
        let error = enrol_into(path).await.unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        assert_eq!(issued_count(), 1, "only control has a certificate");
    }
    // The word can still be used, once.
    let cell_folder = folder.path().join("cell");
    enrol_into(&cell_folder).await.unwrap();
    assert_eq!(issued_count(), 2);
    let files = std::fs::read_dir(&cell_folder).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    names.sort_unstable();
    assert_eq!(names, ["ca.pem", "crl.pem", "identity.pem"]);
    enrol_into(&cell_folder).await.unwrap_err();
    Credentials::load(&cell_folder, None).unwrap();
    assert_eq!(issued_count(), 2);
}
