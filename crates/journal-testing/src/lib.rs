//! For tests of journals: the contract that every implementation keeps, and real servers of etcd and PostgreSQL.

mod contract;
mod etcd_cluster;
mod ports;
mod postgresql_cluster;

pub use contract::{CHECKS, NamedCheck, check_contract};
pub use etcd_cluster::{EtcdCluster, EtcdClusterOptions, ServerTlsFiles};
pub use ports::free_address;
pub use postgresql_cluster::{PostgresqlCluster, PostgresqlClusterOptions};
