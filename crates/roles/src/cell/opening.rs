//! Opens the store of a cell, alone or as one of several replicas.

use std::sync::Arc;

use placewright_cell::{Cell, CellMachine};
use placewright_engine::Observer;
use placewright_link::PlacementLink;
use placewright_pki::Credentials;
use placewright_rpc::{ClientIdentity, ClientOptions, ServerRole, Token};

use crate::control::option_conversion;
use crate::options::Options;
use crate::replica::ReplicaGroup;
use crate::store::Store;

/// An open cell; if it is one of several replicas, with the link to the other replicas.
pub(super) struct OpenCell {
    pub(super) cell: Arc<Cell>,
    pub(super) group: Option<ReplicaGroup<CellMachine>>,
}

impl OpenCell {
    /// Opens a cell on its store. `client_options` gives, for the address of another replica, the options with which to
    /// connect to it.
    ///
    /// # Errors
    ///
    /// The store cannot be used.
    pub(super) async fn open(
        options: &Options,
        mut cell_options: placewright_cell::Options,
        (observer, placement): (impl Observer, Arc<dyn PlacementLink>),
        client_options: impl Fn(&str) -> ClientOptions + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let store = Store::of_cell(&options.cell, option_conversion::journal(options))?;
        let engine = &mut cell_options.engine;
        engine.batch_bytes_max = engine.batch_bytes_max.min(store.batch_bytes_max());
        let Some(address) = options.cell.replica_address.clone() else {
            let journal = tokio::task::spawn_blocking(move || store.open()).await??;
            let cell = Cell::open_on(journal, cell_options, observer, placement).await?;
            return Ok(Self { cell, group: None });
        };
        let parts = (cell_options.engine.clone(), observer);
        let opened = tokio::task::spawn_blocking(move || -> anyhow::Result<_> {
            let journal = store.open()?;
            Ok(ReplicaGroup::open(
                journal,
                parts,
                &address,
                client_options,
            )?)
        });
        let group = opened.await??;
        let cell = Cell::on_engine(group.engine().clone(), cell_options, placement).await?;
        Ok(Self {
            cell,
            group: Some(group),
        })
    }

    /// Ends the cell. If it leads and another replica is there, that one takes over first.
    pub(super) async fn shutdown(&self) {
        if let Some(group) = &self.group {
            group.hand_over().await;
        }
        self.cell.shutdown().await;
    }
}

/// The options with which this cell connects to its other replicas, which have a certificate of the same cell.
pub(super) fn replica_client_options(
    token: Option<Token>,
    credentials: Option<Arc<Credentials>>,
) -> impl Fn(&str) -> ClientOptions + Send + Sync + 'static {
    move |address| ClientOptions {
        token: token.clone(),
        identity: credentials.as_ref().map(|credentials| {
            let current = credentials.current();
            let name = current.identity().cell().unwrap_or_default();
            ClientIdentity {
                credentials: Arc::clone(credentials),
                server: ServerRole::Cell(name.to_owned()),
            }
        }),
        ..ClientOptions::new(address)
    }
}
