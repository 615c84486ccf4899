//! Which identity may make which call.

use std::fmt;

use thiserror::Error;
use uuid::Uuid;

use crate::identity::{Identity, Role};

/// A call of one of the protocols, as the called role sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Call<'a> {
    /// A call of a cell's service for control. `cell` is the name of the called cell, here and below.
    Conduct {
        /// The called cell.
        cell: &'a str,
    },
    /// An agent joins a cell.
    Join {
        /// The called cell.
        cell: &'a str,
    },
    /// On a stream to its cell an agent says something of a host.
    SpeakFor {
        /// The called cell.
        cell: &'a str,
        /// The name of the host.
        name: &'a str,
        /// The UUID of the host.
        uuid: Uuid,
    },
    /// An agent names the service that looks after one of its hosts.
    NameService {
        /// The called cell.
        cell: &'a str,
        /// The name of the service.
        service: &'a str,
    },
    /// A cell asks placement for claims.
    Ask,
    /// The certificate of the caller is renewed.
    Renew,
    /// A cell has the certificate of one of its agents renewed.
    RenewFor {
        /// What the present certificate of the agent says.
        holder: &'a Identity,
    },
}

/// Why a call is refused. Its text is for the caller, and for the log of the called role.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the certificate of {caller} does not allow it to {call}: {why}")]
pub struct Refusal {
    caller: String,
    call: String,
    why: String,
}

impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conduct { cell } => write!(f, "conduct the cell {cell:?}"),
            Self::Join { cell } => write!(f, "join the cell {cell:?} as an agent"),
            Self::SpeakFor { name, uuid, .. } => write!(f, "speak for the host {name:?} ({uuid})"),
            Self::NameService { service, .. } => write!(f, "name {service:?} as a host's service"),
            Self::Ask => f.write_str("ask placement for claims"),
            Self::Renew => f.write_str("renew itself"),
            Self::RenewFor { holder } => write!(f, "renew the certificate of {holder}"),
        }
    }
}

impl Identity {
    /// Whether the holder of this identity may make a call of a role of `installation`.
    ///
    /// # Errors
    ///
    /// Why it may not.
    pub fn may(&self, installation: &str, call: &Call<'_>) -> Result<(), Refusal> {
        let Some(why) = self.obstacle(installation, call) else {
            return Ok(());
        };
        Err(Refusal {
            caller: self.to_string(),
            call: call.to_string(),
            why,
        })
    }

    /// Whether this is the role that a client means to reach.
    ///
    /// # Errors
    ///
    /// It is another one.
    pub fn check_is(&self, wanted: &Self) -> Result<(), Refusal> {
        if self == wanted {
            return Ok(());
        }
        Err(Refusal {
            caller: self.to_string(),
            call: format!("answer as {wanted}"),
            why: "it is of another role, cell or installation".to_owned(),
        })
    }

    /// What keeps the holder from making a call.
    fn obstacle(&self, installation: &str, call: &Call<'_>) -> Option<String> {
        if self.installation() != installation {
            return Some(format!("this is the installation {installation:?}"));
        }
        let only = |who: &str| Some(format!("only {who} may"));
        match (call, self.role()) {
            (Call::Conduct { .. }, Role::Control)
            | (Call::Ask, Role::Cell(_))
            | (Call::Renew, _) => None,
            (Call::Conduct { .. }, _) => only("control"),
            (Call::Ask, _) => only("a cell"),
            (
                Call::Join { cell } | Call::SpeakFor { cell, .. } | Call::NameService { cell, .. },
                Role::Agent(names),
            ) => {
                if names.cell != **cell {
                    return Some(format!("its cell is {:?}", names.cell));
                }
                let is_own = match call {
                    Call::SpeakFor { name, uuid, .. } => {
                        names.hosts.iter().any(|host| host.matches(name, *uuid))
                    }
                    // A host is a service of its own name.
                    Call::NameService { service, .. } => {
                        names.services.contains(*service)
                            || names.hosts.iter().any(|host| host.has_name(service))
                    }
                    _ => true,
                };
                (!is_own).then(|| "it is for other hosts".to_owned())
            }
            (Call::Join { .. } | Call::SpeakFor { .. } | Call::NameService { .. }, _) => {
                only("an agent of the cell")
            }
            (Call::RenewFor { holder }, Role::Cell(cell)) => {
                let is_own = matches!(holder.role(), Role::Agent(names) if names.cell == *cell)
                    && holder.installation() == installation;
                (!is_own).then(|| "a cell may do that for its own agents only".to_owned())
            }
            (Call::RenewFor { .. }, _) => only("a cell"),
        }
    }
}
