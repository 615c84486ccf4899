//! The certificates of an installation in one process. They are issued at the first start that needs them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use placewright_identity::{AgentNames, HostPattern, Identity, Role};
use placewright_pki::{Authority, Credentials};
use placewright_tasks::Task;

use crate::identities::{self, ControlIdentity, ManagedCredentials};
use crate::options::Options;

/// The name of the installation in its certificates.
const INSTALLATION: &str = "up";

/// The authority of the installation, and the credentials that it issued.
pub(super) struct Certificates {
    /// `None` if control has a certificate of another authority.
    authority: Option<Authority>,
    /// The folder below which each cell, and the agents of each cell, have a folder with their certificate.
    folder: PathBuf,
    /// The credentials of the cells that were loaded so far.
    credentials: Vec<Arc<Credentials>>,
}

impl Certificates {
    /// Creates the authority at the first start, unless control has a certificate of another one.
    ///
    /// # Errors
    ///
    /// The folder of the authority cannot be read or written.
    pub(super) fn ensure_authority(options: &Options) -> anyhow::Result<()> {
        match options.control.authority_path.as_deref() {
            Some(directory) if !Authority::exists_in(directory) => {
                let made = Authority::create(directory, INSTALLATION);
                made.context("the authority cannot be made").map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Opens the authority, if there is one.
    ///
    /// # Errors
    ///
    /// The folder of the authority cannot be read.
    pub(super) fn open(options: &Options, folder: &Path) -> anyhow::Result<Self> {
        let directory = options.control.authority_path.as_deref();
        let authority = directory.map(Authority::open).transpose();
        Ok(Self {
            authority: authority.context("the authority cannot be used")?,
            folder: folder.join("identity"),
            credentials: Vec::new(),
        })
    }

    /// Loads the certificate of a cell, which is issued if it is missing. Also issues a certificate, valid for
    /// every host of the cell, for agents in other processes on this machine.
    ///
    /// # Errors
    ///
    /// A certificate cannot be issued or loaded.
    pub(super) fn ensure_for_cell(
        &mut self,
        number: u32,
    ) -> anyhow::Result<Option<Arc<Credentials>>> {
        let Some(authority) = &self.authority else {
            return Ok(None);
        };
        let cell = format!("cell{number}");
        let agent_role = Role::Agent(AgentNames {
            cell: cell.clone(),
            hosts: BTreeSet::from([HostPattern::All]),
            services: BTreeSet::new(),
        });
        let folder = self.folder.join(format!("agent{number}"));
        let agent_identity = Identity::new(authority.installation(), agent_role)?;
        identities::ensure(authority, &folder, &agent_identity)?;
        let folder = self.folder.join(&cell);
        let cell_identity = Identity::new(authority.installation(), Role::Cell(cell))?;
        identities::ensure(authority, &folder, &cell_identity)?;
        let credentials = Credentials::load(&folder, Some(&authority.revocation_list_path()))?;
        self.credentials.push(Arc::clone(&credentials));
        Ok(Some(credentials))
    }

    /// Starts the task that keeps all credentials valid.
    pub(super) fn manage(self, control: &ControlIdentity) {
        let of_cells = self.credentials.into_iter().map(|credentials| {
            ManagedCredentials::new(credentials, control.certificate_link(), None)
        });
        let all: Vec<ManagedCredentials> = of_cells.chain(control.managed()).collect();
        if !all.is_empty() {
            placewright_tasks::spawn(Task::Certificates, identities::manage(all));
        }
    }
}
