//! The connection to the cell, as the agent's task (`runner.rs`) uses it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use placewright_link::{AgentConnection, AgentLink, LinkError, ToAgent, ToCell};
use tokio::sync::mpsc;
use tokio::time::sleep;

/// An attempt to connect to the cell.
pub(super) type Connecting =
    Pin<Box<dyn Future<Output = Result<AgentConnection, LinkError>> + Send>>;

/// Connects to the cell after a delay.
pub(super) fn connect(link: &Arc<dyn AgentLink>, delay: Duration) -> Connecting {
    let link = Arc::clone(link);
    Box::pin(async move {
        sleep(delay).await;
        link.connect().await
    })
}

/// Receives the cell's next message; none if the connection has ended. Without a connection it waits for ever.
pub(super) async fn receive(from_cell: &mut Option<mpsc::Receiver<ToAgent>>) -> Option<ToAgent> {
    match from_cell {
        Some(from_cell) => from_cell.recv().await,
        None => std::future::pending().await,
    }
}

/// Waits until the connection has capacity or has ended. Without a connection it does not wait.
pub(super) async fn wait_for_capacity(to_cell: Option<&mpsc::Sender<ToCell>>) {
    if let Some(to_cell) = to_cell {
        // If the connection has ended, receiving from the cell reports that.
        let _ = to_cell.reserve().await;
    }
}
