//! Opening a store: checks of the servers, and the creation of the tables.

use std::sync::Arc;

use placewright_errors::chain;
use placewright_journal::JournalError;

use crate::connection::Connection;
use crate::connector;
use crate::failure::{Cause, Failure};
use crate::options::PostgresqlOptions;
use crate::rows::StoreState;
use crate::schema::{CREATE, FIND_SCHEMA, FORMAT, READ_HEAD};
use crate::servers::Servers;
use crate::store::{Store, error_of};

/// Opens a store, and creates it if its schema has no tables.
pub(crate) fn open(
    options: &PostgresqlOptions,
) -> Result<(Arc<Store>, Connection, StoreState), JournalError> {
    let url = options.to_string();
    let unsuitable = |error: std::io::Error| JournalError::Unsuitable {
        url: url.clone(),
        reason: chain(&error),
    };
    if let Some(tls) = &options.tls {
        // The files are read here only to report an error clearly. Each connection reads the files again.
        connector::client_config(tls).map_err(unsuitable)?;
    }
    let servers = Arc::new(Servers::new(options).map_err(unsuitable)?);
    let mut connection = Connection::new(&servers);
    let schema = options.schema.clone();
    let found = connection.repeat(|session| {
        let schema = schema.clone();
        async move {
            let row = session.query_one(FIND_SCHEMA, &[&schema]).await?;
            let table_count: i64 = session.get(&row, 1)?;
            let has_schema: bool = session.get(&row, 0)?;
            let has_head: bool = session.get(&row, 2)?;
            Ok((has_schema, table_count, has_head))
        }
    });
    let (has_schema, table_count, has_head) =
        found.map_err(|failure| error_of(&url, "open", failure))?;
    if table_count > 0 && !has_head {
        return Err(JournalError::NotAJournal {
            path: url.into(),
            reason: format!(
                "the schema has {table_count} tables of something else: name another one with schema"
            ),
        });
    }
    if !has_head {
        let created = create(&mut connection, options, has_schema);
        created.map_err(|failure| match failure.cause {
            Cause::NoTable => JournalError::ReadOnly {
                path: url.clone().into(),
                reason: format!("the user may not use the schema ({})", failure.reason),
            },
            _ => error_of(&url, "create the tables", failure),
        })?;
    }
    let state = read_state(&mut connection, &url)?;
    let store = Store::new(servers.clone(), url, servers.notices());
    if state.format > FORMAT {
        return Err(store.newer_format(state.format));
    }
    Ok((Arc::new(store), connection, state))
}

/// Creates the tables, and the schema if it is not there. Several processes may do this at the same time.
fn create(
    connection: &mut Connection,
    options: &PostgresqlOptions,
    has_schema: bool,
) -> Result<(), Failure> {
    // `CREATE SCHEMA` needs the right to create schemas even if the schema exists, so it is left out then.
    let schema = match has_schema {
        true => String::new(),
        false => format!("CREATE SCHEMA IF NOT EXISTS \"{}\";", options.schema),
    };
    // The lock is taken first, because one of two processes that create a schema at the same time would fail.
    let (lock, tables) = CREATE.split_once(';').unwrap_or(("", CREATE));
    let statements = format!("{lock}; {schema} {tables}");
    connection.repeat(|session| {
        let statements = statements.clone();
        async move {
            session.run(&statements).await?;
            session.confirm().await
        }
    })
}

/// Reads the head. If the table `head` does not have the form of a head, it belongs to another program.
fn read_state(connection: &mut Connection, url: &str) -> Result<StoreState, JournalError> {
    let read = connection.repeat(|session| async move {
        // No batch begins at entry 0 or before it, so none is read with the head.
        let row = session.query_one(READ_HEAD, &[&0_i64]).await?;
        let state = session.store_state(&row)?;
        session.prepare_append().await?;
        Ok(state)
    });
    read.map_err(|failure| match failure.cause {
        Cause::Refused | Cause::NoTable | Cause::Damaged => JournalError::NotAJournal {
            path: url.into(),
            reason: format!("its table head is another: {}", failure.reason),
        },
        _ => error_of(url, "open", failure),
    })
}
