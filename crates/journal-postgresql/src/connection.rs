//! A handle's session with the primary, which is opened when it is needed, and again after it has failed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::failure::{Cause, Failure};
use crate::servers::Servers;
use crate::session::Session;

/// The pause after a request has failed for the first time. It doubles with each further failure.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// The longest pause after a request has failed.
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// How long a [`Kind::Repeatable`] request is sent again, in multiples of the time of one request.
const ATTEMPT_TIMES: u32 = 3;

/// How often a request may be sent, and whether it is cancelled after its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A request that may be carried out more than once. It is sent until it is answered, for the time of
    /// [`ATTEMPT_TIMES`] requests.
    Repeatable,
    /// A request that is sent again only while it is certain that earlier attempts did nothing, so that it is carried
    /// out once at most. The callers repeat it themselves.
    Once,
    /// An append: sent as [`Kind::Once`], and never cancelled. If a server that waits for its standbys were told to
    /// stop, it would show the batch although no standby has it.
    Append,
}

/// The session of one handle, and the servers from which it gets another one.
pub(crate) struct Connection {
    servers: Arc<Servers>,
    session: Option<Arc<Session>>,
}

impl Connection {
    pub(crate) fn new(servers: &Arc<Servers>) -> Self {
        Self {
            servers: Arc::clone(servers),
            session: None,
        }
    }

    /// Makes a request that may be carried out more than once, until it is answered.
    pub(crate) fn repeat<T, F>(&mut self, work: impl Fn(Arc<Session>) -> F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        self.call(Kind::Repeatable, 0, work)
    }

    /// Makes a request that is carried out once at most: it is sent again only while it is certain that earlier
    /// attempts did nothing. For callers that repeat it themselves.
    pub(crate) fn once<T, F>(&mut self, work: impl Fn(Arc<Session>) -> F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        self.call(Kind::Once, 0, work)
    }

    /// Makes an append of `bytes` bytes.
    pub(crate) fn append<T, F>(
        &mut self,
        bytes: usize,
        work: impl Fn(Arc<Session>) -> F,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        self.call(Kind::Append, bytes, work)
    }

    /// Makes a request for whose result nobody waits, if there is a session. The server carries out the next request of
    /// the session after this one.
    pub(crate) fn start<F>(&self, work: impl FnOnce(Arc<Session>) -> F)
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let Some(session) = &self.session else {
            return;
        };
        let working = work(Arc::clone(session));
        let timeout = self.servers.options().request_timeout;
        self.servers.start(async move {
            let _ = tokio::time::timeout(timeout, working).await;
        });
    }

    /// Makes a request, and again after a failure, as far as its kind and its time allow. An append has `bytes` bytes.
    fn call<T, F>(
        &mut self,
        kind: Kind,
        bytes: usize,
        work: impl Fn(Arc<Session>) -> F,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let started = Instant::now();
        let timeout = self.servers.shared().request_timeout(bytes);
        let time_max = match kind {
            Kind::Repeatable => timeout * ATTEMPT_TIMES,
            Kind::Once | Kind::Append => timeout,
        };
        let mut pause = PAUSE_MIN;
        loop {
            let failure = match self.attempt(kind, timeout, &work) {
                Ok(result) => return Ok(result),
                Err(failure) => failure,
            };
            let may_repeat = match failure.cause {
                Cause::NotDone => true,
                Cause::Unknown => kind == Kind::Repeatable,
                _ => false,
            };
            if !may_repeat || started.elapsed() + pause >= time_max {
                return Err(failure);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Makes a request once, with a new session if there is none.
    fn attempt<T, F>(
        &mut self,
        kind: Kind,
        timeout: Duration,
        work: &impl Fn(Arc<Session>) -> F,
    ) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let session = self.session()?;
        let working = work(Arc::clone(&session));
        let shared = Arc::clone(self.servers.shared());
        let timed_out_session = Arc::clone(&session);
        let result = self.servers.wait(async move {
            if let Ok(result) = tokio::time::timeout(timeout, working).await {
                return result;
            }
            if kind != Kind::Append {
                // The server may be waiting for its standbys, and would do so for ever.
                shared.cancel(&timed_out_session).await;
            }
            timed_out_session.abandon();
            Err(Failure::timed_out(&timed_out_session.address))
        });
        if let Err(failure) = &result
            && failure.ends_session()
        {
            self.session = None;
            self.servers.shared().leave(session.index);
        }
        result
    }

    /// The present session; a new one if there is none, or if its connection is lost.
    fn session(&mut self) -> Result<Arc<Session>, Failure> {
        if let Some(session) = &self.session
            && !session.is_closed()
        {
            return Ok(Arc::clone(session));
        }
        let shared = Arc::clone(self.servers.shared());
        let session = Arc::new(self.servers.wait(async move { shared.connect().await })?);
        self.session = Some(Arc::clone(&session));
        Ok(session)
    }
}
