//! The service on the page's listener.

use std::fmt;
use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use placewright_http::{Client, Gateway, HttpMetrics, HttpOptions, HttpService, Responding};

use crate::fleet::FleetHandle;
use crate::page_api::{PageApi, SignIn};
use crate::{forward, headers, refusal};

/// The services of this process that the page reaches, by the sections of their options.
pub type Forwarded = Vec<(&'static str, Arc<dyn HttpService>)>;

/// The page with its own API, and the other services to which it forwards requests.
pub struct UiService {
    page: Arc<PageApi>,
    forwarded: Forwarded,
}

impl fmt::Debug for UiService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("UiService").finish_non_exhaustive()
    }
}

impl UiService {
    /// Creates the service. `sign_in` says how callers prove who they are.
    #[must_use]
    pub fn new(
        gateway: Arc<Gateway>,
        fleet: FleetHandle,
        sign_in: SignIn,
        forwarded: Forwarded,
    ) -> Self {
        let services = forwarded.iter().map(|(section, _)| *section).collect();
        Self {
            page: Arc::new(PageApi::new(gateway, fleet, sign_in, services)),
            forwarded,
        }
    }

    /// The service to which a request is forwarded, with the path in that service; `None` for a request of the page
    /// itself.
    fn forwarded<'p>(&self, path: &'p str) -> Option<(&Arc<dyn HttpService>, &'p str)> {
        let (section, path) = forward::target(path)?;
        let mut services = self.forwarded.iter();
        let (_, service) = services.find(|(name, _)| *name == section)?;
        Some((service, path))
    }
}

impl HttpService for UiService {
    fn options(&self) -> &HttpOptions {
        HttpService::options(&*self.page)
    }

    fn metrics(&self) -> &HttpMetrics {
        HttpService::metrics(&*self.page)
    }

    fn begin_stop(&self) {
        self.page.begin_stop();
    }

    fn handle(self: Arc<Self>, mut request: Request<Incoming>, client: Client) -> Responding {
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            let is_call = path.starts_with(forward::API_PREFIX);
            let mut response = match self.forwarded(&path) {
                _ if is_call && forward::is_from_elsewhere(request.headers()) => {
                    refusal::refuse(&refusal::from_elsewhere())
                }
                Some((service, path)) => {
                    forward::set_path(&mut request, path);
                    Arc::clone(service).handle(request, client).await
                }
                None => HttpService::handle(Arc::clone(&self.page), request, client).await,
            };
            headers::protect(response.headers_mut());
            response
        })
    }
}
