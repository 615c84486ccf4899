//! The threads that handle requests of API clients.
//!
//! They are separate from the threads for messages between roles, so that no number of requests delays heartbeats and
//! orders. Costly requests have threads of their own, so that they do not delay other requests.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread::available_parallelism;

use anyhow::Context as _;
use placewright_http::{CostlyExecutor, CostlyOptions, Server, Stopped, Successor};
use placewright_tasks::{Task, supervise};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use super::sockets::ListeningSocket;
use crate::options::Options;

/// The number of costly requests that run concurrently for each processor: while one waits for the
/// disk, another one computes.
const COSTLY_PER_PROCESSOR: usize = 2;

/// The nice value of the threads for costly requests. With it they get about a third of the processor time that another
/// thread on the same processor gets, so they seldom interrupt a thread for sockets in the middle of a request.
const COSTLY_NICE: i32 = 5;

/// Two Tokio runtimes: one for sockets and requests that are not costly, one for costly requests.
pub(crate) struct ApiThreads {
    /// The threads for sockets and for requests that are not costly. `None` only while this is dropped.
    sockets: Option<Runtime>,
    /// The threads for costly requests. `None` only while this is dropped.
    costly: Option<Runtime>,
    costly_executor: CostlyExecutor,
}

impl ApiThreads {
    /// Starts as many threads of each kind as there are processors.
    ///
    /// # Errors
    ///
    /// The system cannot start a thread.
    pub(crate) fn start(options: &Options) -> io::Result<Self> {
        let processors = available_parallelism().map_or(1, usize::from);
        let builder = |name: &str| {
            let mut builder = Builder::new_multi_thread();
            builder
                .worker_threads(processors)
                .thread_name(name)
                .enable_all();
            builder
        };
        let sockets = builder("pw-api").build()?;
        let costly = builder("pw-costly")
            .on_thread_start(lower_priority)
            .build()?;
        let placement = &options.placement;
        let running_max = match placement.costly_running_max.count() {
            0 => processors * COSTLY_PER_PROCESSOR,
            number => number,
        };
        let costly_options = CostlyOptions {
            running_max,
            waiting_per_caller_max: placement.costly_waiting_per_caller_max.count(),
            waiting_max: placement.costly_waiting_max.count(),
        };
        Ok(Self {
            costly_executor: CostlyExecutor::new(costly_options, Some(costly.handle().clone())),
            sockets: Some(sockets),
            costly: Some(costly),
        })
    }

    /// The executor of costly requests.
    pub(crate) fn costly_executor(&self) -> CostlyExecutor {
        self.costly_executor.clone()
    }

    /// Serves on these threads until `stop` completes; see [`Server::serve_until`].
    ///
    /// # Errors
    ///
    /// The sockets cannot be moved, or the server panicked.
    pub(crate) async fn serve(
        &self,
        server: Server,
        socket: ListeningSocket,
        stop: impl Future<Output = Option<Arc<dyn Successor>>> + Send + 'static,
    ) -> anyhow::Result<Stopped> {
        let runtime = self.sockets.as_ref().context("the threads have ended")?;
        let listener = socket.listener.into_std()?;
        let inherited = socket.inherited.into_iter().map(TcpStream::into_std);
        let inherited = inherited.collect::<io::Result<Vec<_>>>()?;
        let serve = async move {
            let listener = TcpListener::from_std(listener)?;
            let inherited = inherited.into_iter().map(TcpStream::from_std);
            let inherited = inherited.collect::<io::Result<_>>()?;
            anyhow::Ok(server.serve_until(listener, inherited, stop).await)
        };
        let served = runtime.spawn(supervise(Task::Serving, serve));
        served.await.context("a server panicked")?
    }
}

/// Gives the calling thread the priority of costly requests.
fn lower_priority() {
    // On Linux, `None` for the process means the calling thread. Lowering a priority needs no privilege; if it fails
    // all the same, only response times get worse.
    let _ = rustix::process::setpriority_process(None, COSTLY_NICE);
}

impl Drop for ApiThreads {
    fn drop(&mut self) {
        // Requests that still run were disconnected at the end of the drain time-out.
        for runtime in [self.sockets.take(), self.costly.take()] {
            runtime.into_iter().for_each(Runtime::shutdown_background);
        }
    }
}
