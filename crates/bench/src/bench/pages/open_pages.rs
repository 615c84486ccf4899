//! Pages that have the fleet open, as browsers do, and pages that take nothing from their connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Pages that follow the stream of the fleet, on a thread of their own.
pub(super) struct OpenPages {
    stop: watch::Sender<bool>,
    /// How many bytes were sent to all pages so far.
    sent_bytes: Arc<AtomicU64>,
    thread: JoinHandle<anyhow::Result<()>>,
}

/// The longest wait until all pages have all hosts.
const COMPLETE_MAX: Duration = Duration::from_secs(60);
/// The size of one read.
const READ_BYTES: usize = 64 * 1024;
/// How many bytes the system may buffer for a page that takes nothing.
const STALLED_BUFFER_BYTES: u32 = 4096;
/// How long to wait for further bytes. A connection that the service has dropped ends as soon as its buffered bytes are
/// read. One that it still serves is silent for longer than this, because no host changes, and the service then sends
/// only a heartbeat every 5 s (`HEARTBEAT` of placewright-ui).
const DRAIN_MAX: Duration = Duration::from_secs(3);

impl OpenPages {
    /// Opens pages, and waits until each has all hosts.
    ///
    /// # Errors
    ///
    /// A page is refused, or does not get all hosts in time.
    pub(super) async fn open(address: SocketAddr, pages: u16) -> anyhow::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let sent_bytes = Arc::new(AtomicU64::new(0));
        let (complete, mut completed) = mpsc::channel(usize::from(pages));
        let sent = Arc::clone(&sent_bytes);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async move {
                let mut tasks = JoinSet::new();
                for _ in 0..pages {
                    let page = Page {
                        address,
                        sent_bytes: Arc::clone(&sent),
                        position: None,
                    };
                    tasks.spawn(page.follow(complete.clone(), stopped.clone()));
                }
                drop(complete);
                while let Some(ended) = tasks.join_next().await {
                    ended??;
                }
                Ok(())
            })
        });
        let all_complete = async {
            for _ in 0..pages {
                if completed.recv().await.is_none() {
                    return false;
                }
            }
            true
        };
        let are_complete = tokio::time::timeout(COMPLETE_MAX, all_complete)
            .await
            .context("pages did not get all hosts in time")?;
        let opened = Self {
            stop,
            sent_bytes,
            thread,
        };
        if !are_complete {
            // The error of the page that failed says why.
            opened.close()?;
            bail!("a page ended");
        }
        Ok(opened)
    }

    /// Closes the pages; returns how many bytes they were sent.
    ///
    /// # Errors
    ///
    /// A page failed meanwhile.
    pub(super) fn close(self) -> anyhow::Result<u64> {
        // An error means that all pages have failed. Then the thread returns why.
        let _ = self.stop.send(true);
        let ended = self.thread.join();
        ended.map_err(|_| anyhow!("the thread of the pages panicked"))??;
        Ok(self.sent_bytes.load(Ordering::Relaxed))
    }
}

/// One page.
struct Page {
    address: SocketAddr,
    sent_bytes: Arc<AtomicU64>,
    /// The id of the latest `end` event, with which the page goes on after a break.
    position: Option<String>,
}

impl Page {
    /// Follows the stream until told to stop. Sends a message on `complete` when the page has all hosts.
    async fn follow(
        mut self,
        complete: mpsc::Sender<()>,
        mut stopped: watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        tokio::select! {
            ended = self.read_streams(complete) => ended,
            // The sender is dropped only when the run has failed.
            _ = stopped.wait_for(|stopped| *stopped) => Ok(()),
        }
    }

    /// Opens one stream after the other: the service ends each after a minute.
    async fn read_streams(&mut self, complete: mpsc::Sender<()>) -> anyhow::Result<()> {
        let mut complete = Some(complete);
        loop {
            let mut stream = TcpStream::connect(self.address).await?;
            let request = stream_request(self.address, self.position.as_deref());
            stream.write_all(request.as_bytes()).await?;
            let (mut line, mut bytes) = (Vec::new(), vec![0; READ_BYTES]);
            let mut is_head = true;
            loop {
                let length = stream.read(&mut bytes).await?;
                if length == 0 {
                    break;
                }
                self.sent_bytes
                    .fetch_add(u64::try_from(length)?, Ordering::Relaxed);
                for piece in bytes[..length].split_inclusive(|byte| *byte == b'\n') {
                    // Rows are not kept: only the beginnings of lines matter here.
                    if line.len() < 64 {
                        line.extend_from_slice(&piece[..piece.len().min(64)]);
                    }
                    if !piece.ends_with(b"\n") {
                        continue;
                    }
                    if is_head {
                        ensure!(
                            line.starts_with(b"HTTP/1.1 200"),
                            "a page is refused: {}",
                            text(&line)
                        );
                        is_head = false;
                    } else if line.starts_with(b"id: ") {
                        self.position = Some(text(&line[4..]));
                        if let Some(complete) = complete.take() {
                            complete.send(()).await?;
                        }
                    }
                    line.clear();
                }
            }
            if is_head {
                bail!("a page had no answer");
            }
        }
    }
}

/// Pages that have asked for the stream and take nothing from their connections.
pub(super) struct StalledPages {
    streams: Vec<TcpStream>,
}

impl StalledPages {
    /// Opens connections with small buffers and asks for the stream on each.
    ///
    /// # Errors
    ///
    /// A connection cannot be opened.
    pub(super) async fn open(address: SocketAddr, pages: u16) -> anyhow::Result<Self> {
        let mut streams = Vec::new();
        for _ in 0..pages {
            let socket = match address {
                SocketAddr::V4(_) => TcpSocket::new_v4()?,
                SocketAddr::V6(_) => TcpSocket::new_v6()?,
            };
            socket.set_recv_buffer_size(STALLED_BUFFER_BYTES)?;
            let mut stream = socket.connect(address).await?;
            let request = stream_request(address, None);
            stream.write_all(request.as_bytes()).await?;
            streams.push(stream);
        }
        Ok(Self { streams })
    }

    /// Reads what is buffered on the connections; returns how many of them the service still serves.
    pub(super) async fn count_served(self) -> u64 {
        // All at a time, because the service ends each stream after a minute.
        let mut tasks = JoinSet::new();
        for stream in self.streams {
            tasks.spawn(is_served(stream));
        }
        let are_served = tasks.join_all().await;
        are_served.into_iter().map(u64::from).sum()
    }
}

/// Whether a connection is still served, after reading what is buffered for it.
async fn is_served(mut stream: TcpStream) -> bool {
    let mut bytes = vec![0; READ_BYTES];
    loop {
        match tokio::time::timeout(DRAIN_MAX, stream.read(&mut bytes)).await {
            // The end of the connection, or its reset.
            Ok(Ok(0) | Err(_)) => return false,
            Ok(Ok(_)) => {}
            Err(_) => return true,
        }
    }
}

/// The request of a page for its stream, from this position on.
fn stream_request(address: SocketAddr, position: Option<&str>) -> String {
    let after = position.map_or_else(String::new, |position| {
        format!("?after={}", position.trim())
    });
    format!(
        "GET /ui/api/fleet{after} HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n\
         X-Auth-Token: admin\r\nConnection: close\r\n\r\n"
    )
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}
