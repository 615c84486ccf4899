//! The program `placewright`, started as a user starts it. All of it is one test program, because each further one
//! would take seconds to build.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod agent;
mod audit_log;
mod audit_log_of_roles;
mod backup;
mod cell;
mod client;
mod common;
mod connections;
mod control;
mod etcd;
mod mappings;
mod metrics;
mod pki;
mod postgresql;
mod reload;
mod replicas;
mod replicas_scheduler;
mod secrets;
mod shell;
mod tls;
mod top;
mod topology;
mod traces;
mod upgrade;
mod warnings;
mod why;
