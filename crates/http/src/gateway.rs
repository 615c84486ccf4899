//! The checks and limits that every request of every REST service passes: identity, policies, memory, admission
//! control.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::body::Body as HttpBody;
use hyper::header::HeaderMap;
use hyper::http::request::Parts;
use parking_lot::RwLock;
use placewright_admission::{Kind, LaterWork};
use placewright_audit_log::AuditLog;
use placewright_auth::{AuthError, Authenticator, ForbiddenReason, Identity, Policy, Rule, Target};
use prometheus_client::registry::Registry;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::admission::{Admission, AdmissionControl};
use crate::audit::AuditEntry;
use crate::body::{self, RequestBody};
use crate::costly::{CostlyError, CostlyExecutor, WorkLength};
use crate::error::{ApiError, ApiResult};
use crate::health_source::HealthSource;
use crate::large::ResponseMemoryLimit;
use crate::memory_budget::{MemoryBudget, MemoryPermit};
use crate::metrics::HttpMetrics;
use crate::options::HttpOptions;

/// The bytes between the name and the value of a header, and at its end: `: ` and CRLF.
const HEADER_SEPARATOR_BYTES: usize = 4;

/// Returns why the services are not ready at present, as a line with its line end; `None` if they are.
type Readiness = Box<dyn Fn() -> Option<&'static str> + Send + Sync>;

/// Waits for the store to confirm that the state has every acknowledged change. An error is a sentence with the
/// reason why that is not certain.
pub type ConfirmFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Begins a confirmation of the state; `None` if there is nothing to wait for.
type Confirm = Box<dyn Fn() -> Option<ConfirmFuture> + Send + Sync>;

/// How long a request waits for the store to confirm that the state is the newest.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(5);

/// The limits, policies and metrics that the REST services of one process share. Each request passes the gateway before
/// its service sees the request.
pub struct Gateway {
    options: HttpOptions,
    metrics: HttpMetrics,
    registry: Arc<Registry>,
    /// Whether the services are about to stop: streams end, and the services are not ready any more.
    stopping: watch::Sender<bool>,
    readiness: Readiness,
    confirm: Confirm,
    /// Decides when each request runs.
    admission: AdmissionControl,
    /// The threads and queues for costly requests.
    costly: CostlyExecutor,
    /// The limit of memory for large responses.
    large_responses: ResponseMemoryLimit,
    /// The memory that bodies may occupy until their requests are answered.
    bodies: MemoryBudget,
    authenticator: Authenticator,
    policy: RwLock<Policy>,
    audit_log: Option<AuditLog>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Gateway")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Gateway {
    /// Creates a gateway. The metrics must be registered in `registry`, which `/metrics` shows.
    pub fn new(
        options: HttpOptions,
        authenticator: Authenticator,
        policy: Policy,
        metrics: HttpMetrics,
        registry: Arc<Registry>,
    ) -> Self {
        Self {
            large_responses: ResponseMemoryLimit::new(&options),
            bodies: MemoryBudget::new(options.bodies_bytes_max),
            options,
            metrics,
            registry,
            stopping: watch::Sender::new(false),
            readiness: Box::new(|| None),
            confirm: Box::new(|| None),
            admission: AdmissionControl::default(),
            costly: CostlyExecutor::default(),
            authenticator,
            policy: RwLock::new(policy),
            audit_log: None,
        }
    }

    /// Runs costly requests on other threads.
    #[must_use]
    pub fn with_costly_work(mut self, costly: CostlyExecutor) -> Self {
        self.costly = costly;
        self
    }

    /// Sets the admission control, which several gateways may share.
    #[must_use]
    pub fn with_admission(mut self, admission: AdmissionControl) -> Self {
        self.admission = admission;
        self
    }

    /// Records each request that may change something, and each refusal for credentials or rights, in an audit log.
    #[must_use]
    pub fn with_audit_log(mut self, log: Option<AuditLog>) -> Self {
        self.audit_log = log;
        self
    }

    /// The audit log, if there is one.
    pub fn audit_log(&self) -> Option<&AuditLog> {
        self.audit_log.as_ref()
    }

    /// The entry of a request in the audit log, if there is such a log.
    pub(crate) fn audit_entry(&self, parts: &Parts, service: &'static str) -> Option<AuditEntry> {
        let issuer = self.authenticator.strategy().name();
        let log = self.audit_log.as_ref()?;
        Some(AuditEntry::new(log, parts, service, issuer))
    }

    /// Makes the services report that they are not ready while `readiness` returns a reason.
    #[must_use]
    pub fn with_readiness(
        mut self,
        readiness: impl Fn() -> Option<&'static str> + Send + Sync + 'static,
    ) -> Self {
        self.readiness = Box::new(readiness);
        self
    }

    /// Makes requests that read wait until `confirm` is done, so that they see every change that was acknowledged
    /// before, by whichever process.
    #[must_use]
    pub fn with_confirmation(
        mut self,
        confirm: impl Fn() -> Option<ConfirmFuture> + Send + Sync + 'static,
    ) -> Self {
        self.confirm = Box::new(confirm);
        self
    }

    /// Waits until the state has every change that was acknowledged before. Requests hold no seat meanwhile, because
    /// many wait for the same answer of the store.
    ///
    /// # Errors
    ///
    /// 503 when the store has not confirmed the state in time.
    pub async fn confirm_state(&self) -> ApiResult<()> {
        let Some(confirming) = (self.confirm)() else {
            return Ok(());
        };
        let confirmed = tokio::time::timeout(CONFIRM_TIMEOUT, confirming).await;
        let confirmed = confirmed.unwrap_or_else(|_| {
            let seconds = CONFIRM_TIMEOUT.as_secs();
            Err(format!("the store did not answer within {seconds} seconds"))
        });
        confirmed.map_err(|why| {
            let detail = format!("Whether the state is the newest is not known: {why}.");
            ApiError::unavailable(detail)
        })
    }

    /// Replaces the policies. Requests that were authorised before continue.
    pub fn set_policy(&self, policy: Policy) {
        *self.policy.write() = policy;
    }

    /// The authenticator, which identifies the senders of requests.
    pub fn authenticator(&self) -> &Authenticator {
        &self.authenticator
    }

    /// The limits and time-outs of requests and connections, as configured.
    pub fn options(&self) -> &HttpOptions {
        &self.options
    }

    /// The metrics in which requests and connections are counted.
    pub fn metrics(&self) -> &HttpMetrics {
        &self.metrics
    }

    /// Turns true when the services are about to stop.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// Ends streams, and reports that the services are not ready any more.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Whether a request is handled as a CORS preflight request: any `OPTIONS` request, if CORS is configured.
    pub(crate) fn is_preflight(&self, parts: &Parts) -> bool {
        self.options.cors.is_some() && parts.method == Method::OPTIONS
    }

    /// Checks the size of a head, which the connection's buffer bounds only roughly.
    ///
    /// # Errors
    ///
    /// 431.
    pub(crate) fn check_head(&self, parts: &Parts) -> ApiResult<()> {
        let bytes_max = self.options.head_bytes_max;
        let line = parts.uri.path().len() + parts.uri.query().map_or(0, str::len);
        let headers = parts
            .headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + HEADER_SEPARATOR_BYTES);
        if line + headers.sum::<usize>() > bytes_max {
            return Err(
                ApiError::new(431, format!("The limit is {bytes_max} bytes.")).without_vary(),
            );
        }
        Ok(())
    }

    /// Finds out who sent a request, from the headers that the configured strategy reads.
    ///
    /// # Errors
    ///
    /// 401, 429 or 431, or 503 when the identity service does not answer.
    pub(crate) async fn identify(
        &self,
        headers: &HeaderMap,
        remote: Option<IpAddr>,
    ) -> ApiResult<Arc<Identity>> {
        let identity = self.authenticator.authenticate(headers, remote).await;
        identity.map_err(|error| match error {
            AuthError::Unauthorized { challenge } => ApiError::new(401, "")
                .with_challenge(challenge)
                .without_vary(),
            AuthError::TooLarge { reason } => ApiError::new(431, reason).without_vary(),
            AuthError::TooMany {
                reason,
                retry_after,
            } => ApiError::new(429, reason)
                .with_retry_after(retry_after)
                .without_vary(),
            AuthError::Unavailable {
                reason,
                retry_after,
            } => ApiError::unavailable(reason)
                .with_retry_after(retry_after)
                .without_vary(),
        })
    }

    /// Checks a policy rule for a caller.
    ///
    /// # Errors
    ///
    /// 403.
    pub fn authorize(&self, rule: Rule, identity: &Identity, target: &Target<'_>) -> ApiResult<()> {
        let allowed = self.policy.read().authorize(rule, identity, target);
        allowed.map_err(|forbidden| {
            let detail = match forbidden.reason {
                ForbiddenReason::Rule => forbidden.to_string(),
                // The reference gives no more detail about a wrong scope.
                ForbiddenReason::Scope(_) => rule.to_string(),
            };
            ApiError::forbidden(detail).without_vary()
        })
    }

    /// Reads the body of a request within the time-out for bodies and the limit of its route.
    ///
    /// # Errors
    ///
    /// 400, 408 or 413; 503 when other bodies occupy the memory.
    pub(crate) async fn read_body<B>(
        &self,
        body: &mut B,
        identity: Option<&Identity>,
        bytes_max: usize,
    ) -> ApiResult<RequestBody>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: fmt::Display,
    {
        let limits = body::Limits {
            bytes_max: bytes_max.min(self.options.body_bytes_max),
            timeout: self.options.body_timeout,
            budget: &self.bodies,
        };
        body::read(body, limits, || self.costly.caller_or_anonymous(identity)).await
    }

    /// Lets a request be carried out, at once as long as its priority level has a free seat. `kind` is the
    /// kind of the request, and `later_work` returns the work behind the API that it causes.
    pub(crate) fn admit(
        &self,
        identity: &Identity,
        kind: Kind,
        later_work: impl FnOnce() -> LaterWork,
    ) -> Admission<'_> {
        self.admission.admit(identity, kind, later_work)
    }

    /// Runs a handler on the threads for costly requests, in its caller's turn. `length` is how long it is expected to
    /// run.
    ///
    /// # Errors
    ///
    /// 503 when too many wait; 500 if it panicked.
    pub(crate) async fn run_costly<T: Send + 'static>(
        &self,
        identity: &Identity,
        length: WorkLength,
        work: impl Future<Output = ApiResult<T>> + Send + 'static,
    ) -> ApiResult<T> {
        let caller = self.costly.caller(identity);
        let done = self.costly.run(caller, length, work).await;
        done.map_err(CostlyError::to_api)?
    }

    /// Reserves memory for a response until it is sent, within the caller's share; nothing is reserved for a
    /// small one.
    ///
    /// # Errors
    ///
    /// 503 when the responses of the caller, or of all callers together, occupy too much memory.
    pub fn reserve_response_memory(
        &self,
        identity: &Identity,
        bytes: usize,
    ) -> ApiResult<Option<MemoryPermit>> {
        let caller = self.costly.caller(identity);
        self.large_responses.reserve(&self.options, caller, bytes)
    }

    /// Checks that a response of about `bytes` bytes may be sent, and reserves the `memory_bytes` that it
    /// occupies until it is sent; nothing is reserved for a small one. `advice` says how to get a smaller response.
    ///
    /// # Errors
    ///
    /// 400 with advice for a response that is too large; 503 when other responses occupy too much memory.
    pub fn check_and_reserve_response(
        &self,
        bytes: usize,
        memory_bytes: usize,
        advice: &str,
    ) -> ApiResult<Option<OwnedSemaphorePermit>> {
        self.large_responses
            .check_and_reserve(&self.options, bytes, memory_bytes, advice)
    }
}

impl HealthSource for Gateway {
    fn why_not_ready(&self) -> Option<&'static str> {
        if *self.stopping.borrow() {
            return Some("stopping\n");
        }
        (self.readiness)()
    }

    fn registry(&self) -> &Registry {
        &self.registry
    }
}
