//! Replicas of control in one process, which reach each other in memory instead of over gRPC. Everything else is as
//! between processes: the streams, the heartbeats, the handing over of commands, and the journal that they share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use placewright_control::ControlMachine;
use placewright_engine::{Engine, Observer, Options, RecoverError};
use placewright_link::ReplicaLink;

use super::ReplicaGroup;
use crate::store::Store;

/// The replicas of control in this process, for measurements. Clones refer to the same replicas.
#[derive(Clone, Default)]
pub struct ReplicasInProcess {
    links: Arc<Mutex<BTreeMap<String, Arc<dyn ReplicaLink>>>>,
}

impl fmt::Debug for ReplicasInProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let links = self.links.lock();
        formatter.debug_list().entries(links.keys()).finish()
    }
}

impl ReplicasInProcess {
    /// Opens one more replica on a store that all of them share. `address` is only a name here, which no other replica
    /// has. Blocks; has to be called in a Tokio runtime.
    ///
    /// # Errors
    ///
    /// The store cannot be opened or read.
    pub fn open(
        &self,
        store: Store,
        address: &str,
        observer: impl Observer,
    ) -> Result<Engine<ControlMachine>, RecoverError> {
        let mut options = Options::default();
        options.batch_bytes_max = options.batch_bytes_max.min(store.batch_bytes_max());
        let links = Arc::clone(&self.links);
        let connect = move |address: &str| {
            let link = links.lock().get(address).cloned();
            link.ok_or_else(|| format!("no replica is called {address}"))
        };
        let parts = (options, observer);
        let group =
            ReplicaGroup::open_with_links(store.open()?, parts, address, Arc::new(connect))?;
        self.links.lock().insert(address.to_owned(), group.link());
        Ok(group.engine().clone())
    }
}
