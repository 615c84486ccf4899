//! The certificates of an installation in one process: all are made at the first start, in its folder.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use placewright_identity::{AgentNames, HostPattern, Identity, Role};
use placewright_pki::{Authority, Credentials};
use placewright_tasks::Task;

use crate::identities::{self, ControlIdentity, Kept};
use crate::options::Options;

/// The name of the installation in its certificates.
const INSTALLATION: &str = "up";

/// The authority of the installation, and what has to be looked after.
pub(super) struct Certificates {
    /// None if an operator gave control a certificate from elsewhere.
    authority: Option<Authority>,
    folder: PathBuf,
    kept: Vec<Arc<Credentials>>,
}

impl Certificates {
    /// Makes the authority at the first start.
    ///
    /// # Errors
    ///
    /// Its folder cannot be read or written.
    pub(super) fn make_authority(options: &Options) -> anyhow::Result<()> {
        match options.control.authority_path.as_deref() {
            Some(directory) if !Authority::is_in(directory) => {
                let made = Authority::create(directory, INSTALLATION);
                made.context("the authority cannot be made").map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Opens the authority.
    ///
    /// # Errors
    ///
    /// Its folder cannot be read.
    pub(super) fn open(options: &Options, folder: &Path) -> anyhow::Result<Self> {
        let directory = options.control.authority_path.as_deref();
        let authority = directory.map(Authority::open).transpose();
        Ok(Self {
            authority: authority.context("the authority cannot be used")?,
            folder: folder.join("identity"),
            kept: Vec::new(),
        })
    }

    /// The certificate of a cell, made when it is missing. Beside it is one for agents of other
    /// processes on this machine, for any host of the cell.
    ///
    /// # Errors
    ///
    /// It cannot be made or loaded.
    pub(super) fn of_cell(&mut self, number: u32) -> anyhow::Result<Option<Arc<Credentials>>> {
        let Some(authority) = &self.authority else {
            return Ok(None);
        };
        let cell = format!("cell{number}");
        let agent = Role::Agent(AgentNames {
            cell: cell.clone(),
            hosts: BTreeSet::from([HostPattern::All]),
            services: BTreeSet::new(),
        });
        let folder = self.folder.join(format!("agent{number}"));
        let agent = Identity::new(authority.installation(), agent)?;
        identities::ensure(authority, &folder, &agent)?;
        let folder = self.folder.join(&cell);
        let own = Identity::new(authority.installation(), Role::Cell(cell))?;
        identities::ensure(authority, &folder, &own)?;
        let credentials = Credentials::load(&folder, Some(&authority.list_path()))?;
        self.kept.push(Arc::clone(&credentials));
        Ok(Some(credentials))
    }

    /// Looks after all of them from now on.
    pub(super) fn keep(self, control: &ControlIdentity) {
        let of_cells = self.kept.into_iter();
        let of_cells = of_cells.map(|one| Kept::new(one, control.offered(), None));
        let all: Vec<Kept> = of_cells.chain(control.kept()).collect();
        if !all.is_empty() {
            placewright_tasks::spawn(Task::Certificates, identities::keep(all));
        }
    }
}
