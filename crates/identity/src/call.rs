//! Calls between roles, and the decision which identity may make which call.

use std::fmt;

use thiserror::Error;
use uuid::Uuid;

use crate::identity::{Identity, Role};

/// A call between two roles, with the data that the decision depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Call<'a> {
    /// Control calls a cell.
    ControlCell {
        /// The name of the called cell. Control may call every cell.
        cell: &'a str,
    },
    /// An agent connects to a cell.
    JoinCell {
        /// The name of the called cell, which has to be the one in the agent's certificate.
        cell: &'a str,
    },
    /// An agent sends its cell a message about a host.
    ReportHost {
        /// The name of the called cell, which has to be the one in the agent's certificate.
        cell: &'a str,
        /// The name of the host.
        name: &'a str,
        /// The UUID of the host.
        uuid: Uuid,
    },
    /// An agent reports the service host of one of its hosts.
    ReportServiceHost {
        /// The name of the called cell, which has to be the one in the agent's certificate.
        cell: &'a str,
        /// The name of the service host, which is `agent.service_host` of the agent.
        service_host: &'a str,
    },
    /// A cell sends claim requests to placement.
    RequestClaims,
    /// A replica of control, or of a cell, joins the other replicas.
    JoinReplicas {
        /// The name of the cell whose replica is called; empty if a replica of control is called.
        cell: &'a str,
    },
    /// The caller requests the renewal of its own certificate.
    RenewCertificate,
    /// A cell requests the renewal of the certificate of one of its agents.
    RenewAgentCertificate {
        /// The identity in the agent's present certificate.
        holder: &'a Identity,
    },
}

/// The refusal of a call. Its text is for the caller, and for the log of the called role.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the certificate of {holder} does not allow it to {call}: {reason}")]
pub struct Refusal {
    holder: String,
    call: String,
    reason: String,
}

impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ControlCell { cell } => write!(f, "conduct the cell {cell:?}"),
            Self::JoinCell { cell } => write!(f, "join the cell {cell:?} as an agent"),
            Self::ReportHost { name, uuid, .. } => {
                write!(f, "speak for the host {name:?} ({uuid})")
            }
            Self::ReportServiceHost { service_host, .. } => {
                write!(f, "report {service_host:?} as the service host of a host")
            }
            Self::RequestClaims => f.write_str("ask placement for claims"),
            Self::JoinReplicas { cell: "" } => f.write_str("join the replicas of control"),
            Self::JoinReplicas { cell } => write!(f, "join the replicas of the cell {cell:?}"),
            Self::RenewCertificate => f.write_str("renew itself"),
            Self::RenewAgentCertificate { holder } => {
                write!(f, "renew the certificate of {holder}")
            }
        }
    }
}

impl Identity {
    /// Checks that the holder of this identity may make a call to a role of `installation`.
    ///
    /// # Errors
    ///
    /// The holder may not make the call.
    pub fn check_call(&self, installation: &str, call: &Call<'_>) -> Result<(), Refusal> {
        let Some(reason) = self.refusal_reason(installation, call) else {
            return Ok(());
        };
        Err(Refusal {
            holder: self.to_string(),
            call: call.to_string(),
            reason,
        })
    }

    /// Checks that a server has the identity that its client expects.
    ///
    /// # Errors
    ///
    /// The server has another identity.
    pub fn check_expected(&self, expected: &Self) -> Result<(), Refusal> {
        if self == expected {
            return Ok(());
        }
        Err(Refusal {
            holder: self.to_string(),
            call: format!("answer as {expected}"),
            reason: "it is of another role, cell or installation".to_owned(),
        })
    }

    /// Why the holder may not make a call; `None` if it may.
    fn refusal_reason(&self, installation: &str, call: &Call<'_>) -> Option<String> {
        if self.installation() != installation {
            return Some(format!("this is the installation {installation:?}"));
        }
        let only_for = |who: &str| Some(format!("only {who} may"));
        match (call, self.role()) {
            (Call::ControlCell { .. }, Role::Control)
            | (Call::RequestClaims, Role::Cell(_))
            | (Call::RenewCertificate, _) => None,
            (Call::ControlCell { .. }, _) => only_for("control"),
            (Call::RequestClaims, _) => only_for("a cell"),
            // No cell has an empty name, so the empty text stands for control.
            (Call::JoinReplicas { cell: "" }, Role::Control) => None,
            (Call::JoinReplicas { cell: "" }, _) => only_for("control"),
            (Call::JoinReplicas { cell }, Role::Cell(own)) if own == cell => None,
            (Call::JoinReplicas { .. }, _) => only_for("the same cell"),
            (
                Call::JoinCell { cell }
                | Call::ReportHost { cell, .. }
                | Call::ReportServiceHost { cell, .. },
                Role::Agent(names),
            ) => {
                if names.cell != **cell {
                    return Some(format!("its cell is {:?}", names.cell));
                }
                let is_allowed = match call {
                    Call::ReportHost { name, uuid, .. } => {
                        names.hosts.iter().any(|host| host.matches(name, *uuid))
                    }
                    // A host may be its own service host, under its own name; then the certificate need not list the
                    // service host.
                    Call::ReportServiceHost { service_host, .. } => {
                        names.services.contains(*service_host)
                            || (names.hosts.iter()).any(|host| host.may_have_name(service_host))
                    }
                    // For `JoinCell` the check of the cell, above, is enough.
                    _ => true,
                };
                (!is_allowed).then(|| "it is for other hosts".to_owned())
            }
            (
                Call::JoinCell { .. } | Call::ReportHost { .. } | Call::ReportServiceHost { .. },
                _,
            ) => only_for("an agent of the cell"),
            (Call::RenewAgentCertificate { holder }, Role::Cell(cell)) => {
                let is_allowed = matches!(holder.role(), Role::Agent(names) if names.cell == *cell)
                    && holder.installation() == installation;
                (!is_allowed).then(|| "a cell may do that for its own agents only".to_owned())
            }
            (Call::RenewAgentCertificate { .. }, _) => only_for("a cell"),
        }
    }
}
