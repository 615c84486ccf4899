//! One session with a primary.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::try_join;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio_postgres::error::Severity;
use tokio_postgres::types::ToSql;
use tokio_postgres::{
    AsyncMessage, CancelToken, Client, Connection, Row, SimpleQueryMessage, Statement,
};

use crate::failure::{Cause, Failure};
use crate::schema::{self, CONFIRM};

/// The values of a statement.
pub(crate) type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A session. Its settings are those that a journal needs; see `servers.rs`.
pub(crate) struct Session {
    client: Client,
    /// The server's address, and its index among the addresses.
    pub(crate) address: String,
    pub(crate) index: usize,
    /// Whether the server need not have a synchronous standby.
    pub(crate) allow_async: bool,
    statements: Mutex<HashMap<&'static str, Statement>>,
    /// The number of warnings so far. A warning after a commit means that the server did not wait for its standbys.
    warnings: Arc<AtomicU64>,
    driver: AbortHandle,
}

impl Session {
    pub(crate) fn new(
        client: Client,
        warnings: Arc<AtomicU64>,
        driver: AbortHandle,
        (index, address): (usize, &str),
        allow_async: bool,
    ) -> Self {
        Self {
            client,
            address: address.to_owned(),
            index,
            allow_async,
            statements: Mutex::default(),
            warnings,
            driver,
        }
    }

    /// Whether the connection is lost, so that nothing can be sent.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Closes the connection without telling the server, which may not answer any more.
    pub(crate) fn abandon(&self) {
        self.driver.abort();
    }

    pub(crate) fn cancel_token(&self) -> CancelToken {
        self.client.cancel_token()
    }

    pub(crate) fn failure(&self, error: &tokio_postgres::Error) -> Failure {
        Failure::from_error(&self.address, error)
    }

    /// Runs a statement, and returns its rows. Outside of a transaction, the writes of the statement are then
    /// committed.
    pub(crate) async fn query(
        &self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let statement = self.prepared(sql).await?;
        let rows = self.client.query(&statement, values).await;
        rows.map_err(|error| self.failure(&error))
    }

    /// Runs a statement, and returns the number of rows that it changed.
    pub(crate) async fn execute(
        &self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<u64, Failure> {
        let statement = self.prepared(sql).await?;
        let count = self.client.execute(&statement, values).await;
        count.map_err(|error| self.failure(&error))
    }

    /// Runs a statement that has exactly one row.
    pub(crate) async fn query_one(
        &self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Row, Failure> {
        let row = self.query(sql, values).await?.pop();
        row.ok_or_else(|| {
            let reason = format!("{}: a row of the store is missing", self.address);
            Failure::new(Cause::Damaged, reason)
        })
    }

    /// Runs statements without values.
    pub(crate) async fn run(&self, sql: &str) -> Result<(), Failure> {
        let done = self.client.batch_execute(sql).await;
        done.map_err(|error| self.failure(&error))
    }

    /// Runs statements without values, and returns their rows as text.
    pub(crate) async fn ask(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Failure> {
        let answers = self.client.simple_query(sql).await;
        answers.map_err(|error| self.failure(&error))
    }

    /// Runs a statement that writes. When it returns, its writes are on the standbys.
    pub(crate) async fn write(
        &self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let warnings = self.warnings();
        let rows = self.query(sql, values).await?;
        self.confirm_after(warnings).await?;
        Ok(rows)
    }

    /// The number of warnings so far, for [`Self::confirm_after`].
    pub(crate) fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::Acquire)
    }

    /// If there was a warning since `warnings` were counted, waits until every commit so far is on the standbys.
    pub(crate) async fn confirm_after(&self, warnings: u64) -> Result<(), Failure> {
        if self.warnings() == warnings {
            Ok(())
        } else {
            self.confirm().await
        }
    }

    /// Runs a statement that has exactly one row, and waits until everything that it saw is on the standbys.
    pub(crate) async fn query_confirmed(
        &self,
        sql: &'static str,
        values: Values<'_>,
    ) -> Result<Row, Failure> {
        // Once both statements are prepared, they are sent together, in this order, without waiting for the first
        // answer.
        self.prepared(sql).await?;
        self.prepared(CONFIRM).await?;
        let (row, ()) = try_join(self.query_one(sql, values), self.confirm()).await?;
        Ok(row)
    }

    /// Waits until everything that was visible in this session is on the standbys.
    pub(crate) async fn confirm(&self) -> Result<(), Failure> {
        let warnings = self.warnings();
        let row = self.query_one(CONFIRM, &[]).await?;
        self.check_standbys(&row, 1)?;
        if self.warnings() == warnings {
            return Ok(());
        }
        let reason = format!("{} stopped waiting for its standbys", self.address);
        Err(Failure::new(Cause::Unknown, reason))
    }

    /// Refuses a server without synchronous standbys. The column has the server's `synchronous_standby_names`.
    pub(crate) fn check_standbys(&self, row: &Row, column: usize) -> Result<(), Failure> {
        let names: String = self.get(row, column)?;
        if self.allow_async || !names.trim().is_empty() {
            return Ok(());
        }
        Err(no_standbys(&self.address))
    }

    /// A column of a row. If the column is missing or has another type, the table belongs to another program.
    pub(crate) fn get<'a, T: tokio_postgres::types::FromSql<'a>>(
        &self,
        row: &'a Row,
        column: usize,
    ) -> Result<T, Failure> {
        row.try_get(column).map_err(|error| {
            let reason = format!("{}: {}", self.address, placewright_errors::chain(&error));
            Failure::new(Cause::Damaged, reason)
        })
    }

    /// A statement that is ready to run in this session. The server prepares each statement once.
    async fn prepared(&self, sql: &'static str) -> Result<Statement, Failure> {
        let known = self.statements.lock().get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let prepared = self.client.prepare(sql).await;
        // Whatever the failure is, the statement did nothing.
        let statement = prepared.map_err(|error| match self.failure(&error) {
            failure if failure.cause == Cause::Unknown => {
                Failure::new(Cause::NotDone, failure.reason)
            }
            failure => failure,
        })?;
        self.statements.lock().insert(sql, statement.clone());
        Ok(statement)
    }

    /// Prepares the statements of an append, so that the first one takes one round trip, too.
    pub(crate) async fn prepare_append(&self) -> Result<(), Failure> {
        for sql in [schema::APPEND, schema::READ_HEAD, CONFIRM] {
            self.prepared(sql).await?;
        }
        Ok(())
    }
}

/// The failure of a server that has no synchronous standby, and would acknowledge writes that only its own disk has.
pub(crate) fn no_standbys(address: &str) -> Failure {
    let reason = format!(
        "{address} has no synchronous standby, so what it acknowledges is lost with its disk: set \
         synchronous_standby_names, as 'ANY 1 (s1, s2)', or say allow_async=yes in the store's address"
    );
    Failure::new(Cause::Refused, reason)
}

/// Carries the messages of a connection until it ends. A warning is counted before the messages after it are delivered.
pub(crate) async fn drive<S, T>(mut connection: Connection<S, T>, warnings: Arc<AtomicU64>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notice(notice) = message
            && !matches!(
                notice.parsed_severity(),
                Some(Severity::Notice | Severity::Info | Severity::Log | Severity::Debug)
            )
        {
            warnings.fetch_add(1, Ordering::AcqRel);
        }
    }
}
