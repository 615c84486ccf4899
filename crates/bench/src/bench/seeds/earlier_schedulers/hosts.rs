//! The hosts, which are the authority on what is on them: each checks a claim, and writes its row to the table of all
//! hosts before it answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, params};
use serde_json::{Value, json};

use super::inbox::{Inbox, Message, Row};
use crate::bench::seeds::fleet::{INSTANCES_PER_HOST, instances_at_start};

/// The answer of a host to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimAnswer {
    Accepted,
    Refused,
}

/// All hosts, and the table with their rows.
pub(super) struct Hosts {
    path: PathBuf,
    /// The connection through which hosts write: SQLite has one writer at a time anyway.
    table: Mutex<Connection>,
    hosts: Vec<Mutex<Row>>,
    /// Where each scheduler gets the messages of hosts.
    inboxes: Vec<Arc<Inbox>>,
}

impl Hosts {
    /// Creates the table in a directory.
    ///
    /// # Errors
    ///
    /// The table cannot be written.
    pub(super) fn create(
        directory: &Path,
        count: u32,
        inboxes: Vec<Arc<Inbox>>,
    ) -> anyhow::Result<Self> {
        let path = directory.join("hosts.sqlite");
        let mut table = Connection::open(&path)?;
        // As a database server does: readers and the writer do not wait for each other, and each write is on the disk
        // before it is answered.
        table.pragma_update(None, "journal_mode", "WAL")?;
        table.pragma_update(None, "synchronous", "FULL")?;
        table.execute_batch(
            "CREATE TABLE hosts \
             (host INTEGER PRIMARY KEY, version INTEGER, taken INTEGER, facts TEXT)",
        )?;
        let rows = (0..count).map(|host| Row {
            host,
            version: 1,
            taken: instances_at_start(count, host),
        });
        let rows: Vec<Row> = rows.collect();
        let (transaction, facts) = (table.transaction()?, facts());
        for row in &rows {
            transaction
                .prepare_cached(
                    "INSERT INTO hosts (host, version, taken, facts) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![row.host, row.version, row.taken, facts])?;
        }
        transaction.commit()?;
        Ok(Self {
            path,
            table: Mutex::new(table),
            hosts: rows.into_iter().map(Mutex::new).collect(),
            inboxes,
        })
    }

    /// A connection for a scheduler that reads the table.
    ///
    /// # Errors
    ///
    /// The table cannot be opened.
    pub(super) fn reader(&self) -> anyhow::Result<Connection> {
        Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .context("the table of hosts")
    }

    /// Claims the room for one instance on a host, for the scheduler with this index.
    ///
    /// # Errors
    ///
    /// The row cannot be written.
    pub(super) fn claim(&self, host: u32, scheduler: usize) -> anyhow::Result<ClaimAnswer> {
        // The lock is held until all is written and sent: a host handles one claim after the other.
        let mut row = self.hosts[host as usize].lock();
        let answer = if row.taken < INSTANCES_PER_HOST {
            row.taken += 1;
            row.version += 1;
            write(&self.table.lock(), *row)?;
            ClaimAnswer::Accepted
        } else {
            ClaimAnswer::Refused
        };
        for (index, inbox) in self.inboxes.iter().enumerate() {
            let is_own = index == scheduler;
            if is_own || answer == ClaimAnswer::Accepted {
                inbox.push(Message {
                    row: *row,
                    answers_own_claim: is_own,
                });
            }
        }
        Ok(answer)
    }

    /// The rows of all hosts, as the hosts themselves know them.
    pub(super) fn rows(&self) -> Vec<Row> {
        self.hosts.iter().map(|host| *host.lock()).collect()
    }

    /// Resets all hosts to their initial states, as new versions of their rows. No scheduler gets a message about
    /// that.
    ///
    /// # Errors
    ///
    /// The rows cannot be written.
    pub(super) fn reset(&self) -> anyhow::Result<()> {
        let count = u32::try_from(self.hosts.len())?;
        let mut table = self.table.lock();
        let transaction = table.transaction()?;
        for host in &self.hosts {
            let mut row = host.lock();
            let taken = instances_at_start(count, row.host);
            if row.taken != taken {
                row.taken = taken;
                row.version += 1;
                write(&transaction, *row)?;
            }
        }
        Ok(transaction.commit()?)
    }
}

/// Updates the numbers in an existing row.
fn write(table: &Connection, row: Row) -> anyhow::Result<()> {
    table
        .prepare_cached("UPDATE hosts SET version = ?2, taken = ?3 WHERE host = ?1")?
        .execute(params![row.host, row.version, row.taken])?;
    Ok(())
}

/// Reads the rows of all hosts.
///
/// # Errors
///
/// The table cannot be read.
pub(super) fn read_all(table: &Connection) -> anyhow::Result<Vec<Row>> {
    let mut statement = table.prepare_cached("SELECT host, version, taken, facts FROM hosts")?;
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        // Nova makes objects of these columns at each read, too.
        let facts: Value = serde_json::from_str(row.get_ref(3)?.as_str()?)?;
        std::hint::black_box(facts);
        all.push(Row {
            host: row.get(0)?,
            version: row.get(1)?,
            taken: row.get(2)?,
        });
    }
    Ok(all)
}

/// The other data in a host's row. They are like the columns of Nova for the processor, the topology, the supported
/// instances and the devices, but shorter.
fn facts() -> String {
    let cells = (0..2).map(|cell| {
        json!({
            "id": cell, "cpuset": (cell * 16..cell * 16 + 16).collect::<Vec<u32>>(),
            "memory": 131_072, "cpu_usage": 0, "memory_usage": 0,
            "mempages": [{"size_kb": 4, "total": 33_554_432, "used": 0}],
        })
    });
    let supported = ["i686", "x86_64"].map(|architecture| json!([architecture, "qemu", "hvm"]));
    let pools = (0..2).map(|number| {
        json!({"vendor_id": "8086", "product_id": "10fb", "numa_node": number, "count": 8})
    });
    json!({
        "cpu_info": {
            "arch": "x86_64", "model": "Cascadelake-Server", "vendor": "Intel",
            "features": [
                "aes", "apic", "arat", "avx", "avx2", "bmi1", "bmi2", "clflush", "cmov", "cx16", "cx8", "erms",
                "f16c", "fma", "fpu", "fsgsbase", "fxsr", "invpcid", "lahf_lm", "mmx", "movbe", "msr", "pae", "pat",
            ],
            "topology": {"cells": 2, "sockets": 1, "cores": 8, "threads": 2},
        },
        "numa_topology": {"cells": cells.collect::<Vec<Value>>()},
        "supported_instances": supported,
        "pci_device_pools": pools.collect::<Vec<Value>>(),
        "stats": {"num_instances": 0, "num_task_None": 0, "io_workload": 0, "num_vm_active": 0},
    })
    .to_string()
}
