//! How many images are uploaded or downloaded at the same time, by project, and how many bytes of the uploads have
//! arrived.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use placewright_http::{ApiError, ApiResult};

use crate::error::RETRY_AFTER;

/// The transfers in one direction. Clones share their counts.
#[derive(Clone, Debug)]
pub(crate) struct Transfers {
    /// The most transfers of all projects at the same time.
    max: usize,
    projects: Arc<Mutex<BTreeMap<String, ProjectTransfers>>>,
}

/// The transfers of one project.
#[derive(Clone, Copy, Debug, Default)]
struct ProjectTransfers {
    count: usize,
    /// How many bytes of the uploads under way have arrived; 0 for downloads.
    bytes: u64,
}

/// A transfer, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Transfer {
    transfers: Transfers,
    project: String,
    /// How many bytes of an upload have arrived; 0 for a download.
    bytes: u64,
}

impl Transfers {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            projects: Arc::default(),
        }
    }

    /// Begins a transfer.
    ///
    /// # Errors
    ///
    /// 503 when the project, or all projects together, have as many transfers as they may have.
    pub(crate) fn begin(&self, project: &str) -> ApiResult<Transfer> {
        let mut projects = self.projects.lock();
        let all: usize = projects.values().map(|transfers| transfers.count).sum();
        let own = projects.get(project).map_or(0, |transfers| transfers.count);
        if all >= self.max || own >= self.max.div_ceil(4) {
            let detail = "As many images are on their way as image.transfers_max allows, of which \
                          one project has a quarter: try again later.";
            return Err(ApiError::unavailable(detail).with_retry_after(RETRY_AFTER));
        }
        projects.entry(project.to_owned()).or_default().count += 1;
        Ok(Transfer {
            transfers: self.clone(),
            project: project.to_owned(),
            bytes: 0,
        })
    }
}

impl Transfer {
    /// Counts bytes that arrived. Returns how many have arrived in all present transfers of the project.
    pub(crate) fn add(&mut self, bytes: u64) -> u64 {
        self.bytes += bytes;
        let mut projects = self.transfers.projects.lock();
        let Some(own) = projects.get_mut(&self.project) else {
            return self.bytes;
        };
        own.bytes = own.bytes.saturating_add(bytes);
        own.bytes
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let mut projects = self.transfers.projects.lock();
        if let Some(own) = projects.get_mut(&self.project) {
            own.count = own.count.saturating_sub(1);
            own.bytes = own.bytes.saturating_sub(self.bytes);
            if own.count == 0 {
                projects.remove(&self.project);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_a_quarter_and_all_have_no_more_than_the_whole() {
        let transfers = Transfers::new(8);
        let begin = |project: &str| transfers.begin(project);
        let mut first = begin("a").unwrap();
        let second = begin("a").unwrap();
        assert_eq!(begin("a").unwrap_err().status(), 503);
        assert_eq!(first.add(7), 7);
        drop(second);
        let mut second = begin("a").unwrap();
        assert_eq!(second.add(3), 10);
        drop(first);
        assert_eq!(second.add(0), 3);
        let _first = begin("a").unwrap();
        let others: Vec<_> = ["b", "b", "c", "c", "d", "d"]
            .map(|other| begin(other).unwrap())
            .into();
        assert_eq!(begin("e").unwrap_err().status(), 503);
        drop(others);
        assert!(begin("e").is_ok());
    }
}
