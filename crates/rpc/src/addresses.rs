//! A server at several addresses: the replicas of one role. Either each of them answers (control), or only the one that
//! leads (a cell).
//!
//! A client keeps to the replica that answered last. When that one does not answer, or does not lead any more, the
//! client asks all of them at the same time, each again after a pause, until one of them leads. The pauses grow and
//! are of random length, so that many clients that lose their server together do not come back together.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use parking_lot::Mutex;
use placewright_link::LinkError;
use tokio::time::{sleep, timeout};

use crate::channel::PeerChannel;

/// The first pause before a replica is asked again. It doubles each time, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause: while a client looks for the leader, it asks a new one within this time after the takeover.
const PAUSE_MAX: Duration = Duration::from_millis(800);

/// One of the replicas.
pub(crate) trait Replica: Send + Sync + 'static {
    fn peer(&self) -> &PeerChannel;
}

impl Replica for PeerChannel {
    fn peer(&self) -> &PeerChannel {
        self
    }
}

/// The replicas of one server; at least one.
#[derive(Debug)]
pub(crate) struct Addresses<R> {
    replicas: Arc<[Arc<R>]>,
    /// The index of the replica that is called first. No other data depends on it, so its accesses need no order.
    current_index: Arc<AtomicUsize>,
    /// How long the search for the replica that leads may take, together with the call for which it is made.
    find_timeout: Duration,
}

impl<R> Clone for Addresses<R> {
    fn clone(&self) -> Self {
        Self {
            replicas: Arc::clone(&self.replicas),
            current_index: Arc::clone(&self.current_index),
            find_timeout: self.find_timeout,
        }
    }
}

impl<R: Replica> Addresses<R> {
    pub(crate) fn new(channels: Vec<PeerChannel>, replica: impl Fn(PeerChannel) -> R) -> Self {
        let find_timeout = channels.first().map(|channel| channel.options.call_timeout);
        Self {
            replicas: channels.into_iter().map(replica).map(Arc::new).collect(),
            current_index: Arc::default(),
            find_timeout: find_timeout.unwrap_or_default(),
        }
    }

    /// The only replica, if there is one address only.
    pub(crate) fn only(&self) -> Option<Arc<R>> {
        match &*self.replicas {
            [only] => Some(Arc::clone(only)),
            _ => None,
        }
    }

    fn current(&self) -> Arc<R> {
        Arc::clone(&self.replicas[self.current_index.load(Ordering::Relaxed)])
    }

    /// Makes a call that any replica answers. If a replica cannot be reached, the call is made to the next one; the
    /// call may still have had its effect at the first one.
    pub(crate) async fn call_any<T, F>(&self, call: impl Fn(Arc<R>) -> F) -> Result<T, LinkError>
    where
        F: Future<Output = Result<T, LinkError>>,
    {
        let count = self.replicas.len();
        let mut tried = 1;
        loop {
            let index = self.current_index.load(Ordering::Relaxed);
            let error = match call(Arc::clone(&self.replicas[index])).await {
                Err(error) if may_be_elsewhere(&error) => error,
                result => return result,
            };
            self.leave(index);
            // A call that timed out has used all the time that its caller has.
            let has_no_time_left = matches!(error, LinkError::TimedOut { .. });
            if has_no_time_left || tried >= count {
                return Err(error);
            }
            tried += 1;
        }
    }

    /// Makes a call that only the replica that leads answers. If another replica leads than before, it is found with
    /// `probe`, a call that succeeds only there. The call itself may also have had its effect at the former leader, if
    /// that one could not be reached any more.
    pub(crate) async fn call_leader<T, F, P>(
        &self,
        probe: impl Fn(Arc<R>) -> P,
        call: impl Fn(Arc<R>) -> F,
    ) -> Result<T, LinkError>
    where
        F: Future<Output = Result<T, LinkError>>,
        P: Future<Output = Result<(), LinkError>>,
    {
        if let Some(only) = self.only() {
            return call(only).await;
        }
        let first_index = self.current_index.load(Ordering::Relaxed);
        let last_error = Mutex::new(None);
        let attempts = async {
            loop {
                match call(self.current()).await {
                    Err(error) if may_be_elsewhere(&error) => *last_error.lock() = Some(error),
                    result => return result,
                }
                self.find(&probe).await?;
            }
        };
        match timeout(self.find_timeout, attempts).await {
            Ok(result) => result,
            Err(_) => {
                // If this replica does not answer at all, the next call begins at another one.
                self.leave(first_index);
                Err((last_error.into_inner()).unwrap_or_else(|| self.timed_out()))
            }
        }
    }

    /// As [`Self::call_leader`], for a call that must not be repeated when its answer is lost: if the first one took
    /// effect, the second one would be refused. So the replica that leads is found before the call is made.
    pub(crate) async fn call_leader_once<T, F, P>(
        &self,
        probe: impl Fn(Arc<R>) -> P,
        call: impl Fn(Arc<R>) -> F,
    ) -> Result<T, LinkError>
    where
        F: Future<Output = Result<T, LinkError>>,
        P: Future<Output = Result<(), LinkError>>,
    {
        if let Some(only) = self.only() {
            return call(only).await;
        }
        let first_index = self.current_index.load(Ordering::Relaxed);
        let attempts = async {
            loop {
                if probe(self.current()).await.is_err() {
                    self.find(&probe).await?;
                }
                match call(self.current()).await {
                    Err(LinkError::NotLeading { .. }) => {}
                    result => return result,
                }
            }
        };
        let ended = timeout(self.find_timeout, attempts).await;
        ended.unwrap_or_else(|_| {
            self.leave(first_index);
            Err(self.timed_out())
        })
    }

    /// Asks all replicas at the same time, until one of them accepts. Later calls are made to that one first.
    pub(crate) async fn find<T, F>(&self, ask: impl Fn(Arc<R>) -> F) -> Result<T, LinkError>
    where
        F: Future<Output = Result<T, LinkError>>,
    {
        let last_error = Mutex::new(None);
        let ask = &ask;
        let asked = self.replicas.iter().enumerate().map(|(index, replica)| {
            let last_error = &last_error;
            async move {
                let mut pause = PAUSE_MIN;
                loop {
                    match ask(Arc::clone(replica)).await {
                        Ok(accepted) => return Some((index, accepted)),
                        Err(error) => {
                            let is_final = matches!(error, LinkError::Refused { .. });
                            *last_error.lock() = Some(error);
                            if is_final {
                                return None;
                            }
                        }
                    }
                    sleep(with_jitter(pause)).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        });
        let mut asked: FuturesUnordered<_> = asked.collect();
        let accepted = async {
            while let Some(ended) = asked.next().await {
                if ended.is_some() {
                    return ended;
                }
            }
            None
        };
        match timeout(self.find_timeout, accepted).await {
            Ok(Some((index, accepted))) => {
                self.keep_to(index);
                Ok(accepted)
            }
            Ok(None) | Err(_) => {
                let error = last_error.lock().take();
                Err(error.unwrap_or_else(|| self.timed_out()))
            }
        }
    }

    /// Calls this replica from now on, and closes the connections to the other replicas.
    fn keep_to(&self, index: usize) {
        self.current_index.store(index, Ordering::Relaxed);
        for (other, replica) in self.replicas.iter().enumerate() {
            if other != index {
                replica.peer().disconnect();
            }
        }
    }

    /// Lets the next call begin at the replica after the one with this index. Another call may have moved on already.
    fn leave(&self, index: usize) {
        let next = (index + 1) % self.replicas.len();
        let _ =
            self.current_index
                .compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn timed_out(&self) -> LinkError {
        LinkError::TimedOut {
            peer: self.current().peer().name.clone(),
        }
    }
}

/// Whether another replica may answer a call that failed.
fn may_be_elsewhere(error: &LinkError) -> bool {
    match error {
        LinkError::Unreachable { .. }
        | LinkError::TimedOut { .. }
        | LinkError::NotLeading { .. } => true,
        LinkError::Unavailable { .. } | LinkError::Refused { .. } => false,
    }
}

/// A random time from a half of the given one to all of it.
pub(crate) fn with_jitter(pause: Duration) -> Duration {
    // A new hasher has random keys, so even the hash of nothing is a random number.
    let random = RandomState::new().build_hasher().finish() % 1024;
    let part = u32::try_from(random).unwrap_or_default();
    pause / 2 + pause / 2 * part / 1024
}
