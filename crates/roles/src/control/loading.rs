//! Loads the state from the store, in a process that is alone or one of several replicas.

use std::os::fd::AsFd as _;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow};
use placewright_control::{ControlMachine, submit_placement};
use placewright_engine::{Engine, Observer, RecoverError};
use placewright_placement::{Command, Timestamp};
use placewright_rpc::ServeOptions;
use tokio::net::TcpListener;

use super::option_conversion;
use super::replica::ControlReplica;
use super::restart::InheritedSockets;
use super::sockets::Socket;
use crate::identities::ControlIdentity;
use crate::options::Options;
use crate::store::Store;

/// The engine with the state from the store, and the sockets and the replica that were opened before it.
pub(super) struct Loaded {
    pub(super) inherited: InheritedSockets,
    pub(super) engine: Engine<ControlMachine>,
    /// The listening socket of the gRPC server for cells, if there is one. In a replica, the gRPC server already uses
    /// a copy of the socket.
    pub(super) grpc_listener: Option<TcpListener>,
    pub(super) replica: Option<ControlReplica>,
}

/// Makes the predecessor process end, if there is one, and loads the state from the store. In a replica, this also
/// starts the gRPC server for the other replicas.
pub(super) async fn end_predecessor_and_load(
    mut inherited: InheritedSockets,
    options: &Options,
    observer: impl Observer,
    (socket, serve_options, identity): (Option<Socket>, ServeOptions, &ControlIdentity),
) -> anyhow::Result<Loaded> {
    let drain_timeout = option_conversion::http(options).hand_over_timeout;
    let ended = tokio::task::spawn_blocking(move || {
        let ended = inherited.end_predecessor(drain_timeout);
        ended.map(|()| inherited)
    });
    let inherited = ended.await??;
    let grpc_listener = socket.map(Socket::listen).transpose()?;
    let address = options.control.replica_address.as_deref();
    // `Err` is no failure: it returns the observer, which a process without other replicas needs below.
    let replica = match (address, &grpc_listener) {
        (Some(address), Some(listener)) => {
            // This is a copy of the listening socket; the original is kept for a successor of this process.
            let listener = std::net::TcpListener::from(listener.as_fd().try_clone_to_owned()?);
            let parts = (TcpListener::from_std(listener)?, observer);
            let grpc = (identity, serve_options);
            Ok(ControlReplica::start(options, address, grpc, parts).await?)
        }
        _ => Err(observer),
    };
    let (engine, replica) = match replica {
        Ok(replica) => (replica.engine().clone(), Some(replica)),
        Err(observer) => (open_store(options, observer).await?, None),
    };
    ensure_standard_names(&engine).await?;
    Ok(Loaded {
        inherited,
        engine,
        grpc_listener,
        replica,
    })
}

/// Opens the store and loads the state, on a thread that may block.
async fn open_store(
    options: &Options,
    observer: impl Observer,
) -> anyhow::Result<Engine<ControlMachine>> {
    let store = Store::of_control(&options.store, option_conversion::journal(options))?;
    let mut engine_options = option_conversion::engine(options);
    engine_options.batch_bytes_max = engine_options.batch_bytes_max.min(store.batch_bytes_max());
    let opened = tokio::task::spawn_blocking(move || -> Result<_, RecoverError> {
        Engine::open(store.open()?, engine_options, observer)
    });
    Ok(opened.await??)
}

/// Creates the standard resource classes and traits that a store does not have yet, because it is
/// new or of an older release.
async fn ensure_standard_names(engine: &Engine<ControlMachine>) -> anyhow::Result<()> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let at = Timestamp::from_seconds(i64::try_from(seconds)?);
    let decided = submit_placement(engine, Command::SyncStandardNames { at }).await;
    decided
        .context("the standard resource classes and traits cannot be written")?
        .map_err(|refusal| anyhow!("the standard names were refused: {refusal:?}"))?;
    Ok(())
}
