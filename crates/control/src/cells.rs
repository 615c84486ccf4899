//! Follows one cell: copies its instances and hosts into the views, passes the soft state of its
//! hosts to the scheduler, and records in the state whether the cell is up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use placewright_conductor::cell_conductor::JobKind;
use placewright_conductor::super_conductor::{Command, Mapping, RebuildEvent, Refusal};
use placewright_conductor::{CellId, HostId, InstanceId, Spec};
use placewright_link::{CellEvent, InstanceView};
use placewright_records::server::has_digest;
use placewright_scheduler::host_state::HostUpdate;
use placewright_scheduler::host_table::HostTable;
use tokio::sync::mpsc;

use crate::foreign;
use crate::handle::{ControlHandle, now};
use crate::runtime_context::RuntimeContext;
use crate::views::{CellView, ListedSoFar};

/// The first wait before a cell is followed again; it is doubled each time up to `RETRY_MAX`.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// A cell that sends nothing for this long counts as unheard; it sends a heartbeat every second.
const UNHEARD_AFTER: Duration = Duration::from_millis(2500);
/// A cell whose stream ended counts as unheard if it cannot be followed again within this time.
const HEARD_AGAIN_WITHIN: Duration = Duration::from_millis(200);
/// The most events that are handled together.
const NEWS_AT_ONCE: usize = 1024;
/// The most hosts that are mapped with one command.
const HOSTS_AT_ONCE: usize = 1000;

/// The follower of one cell.
pub(crate) struct CellFollower {
    pub(crate) cell: CellId,
    pub(crate) parts: Arc<RuntimeContext>,
    /// The hosts that are mapped to the cell, with their names.
    mapped: BTreeMap<HostId, String>,
    /// Hosts whose mapping was refused, so that each is logged once.
    refused: BTreeMap<HostId, String>,
    /// Whether the state says that the cell is down; none if that is not known here.
    is_down: Option<bool>,
    heard: Instant,
}

/// Why following a cell ended.
enum FollowEnd {
    /// The cell ended the stream, or was silent for too long.
    Gone,
    /// An update of a host was missing in the stream.
    Gap,
}

impl CellFollower {
    pub(crate) fn new(cell: CellId, parts: Arc<RuntimeContext>) -> Self {
        Self {
            cell,
            parts,
            mapped: BTreeMap::new(),
            refused: BTreeMap::new(),
            is_down: None,
            heard: Instant::now(),
        }
    }

    fn conductor(&self) -> &ControlHandle {
        &self.parts.conductor
    }

    /// Begins to follow the cell. A cell that ended the stream and accepts a new one at once does not
    /// become silent: it has a new certificate, or it sends its whole read model again.
    async fn begin_again(&self) -> Result<mpsc::Receiver<CellEvent>, String> {
        let mut beginning = std::pin::pin!(self.begin());
        let begun = match tokio::time::timeout(HEARD_AGAIN_WITHIN, &mut beginning).await {
            Ok(begun) => begun,
            Err(_) => {
                self.set_heard(false);
                beginning.await
            }
        };
        if begun.is_err() {
            self.set_heard(false);
        }
        begun
    }

    /// Follows the cell, as long as the task lives.
    pub(crate) async fn run(mut self) {
        let mut retry = RETRY_MIN;
        loop {
            let before = self.heard;
            match self.begin_again().await {
                Ok(news) => {
                    let ended = self.take(news).await;
                    if self.heard > before {
                        retry = RETRY_MIN;
                    }
                    if matches!(ended, FollowEnd::Gap) {
                        tracing::info!(cell = %self.cell, "something of the cell's hosts is missing: following anew");
                    }
                }
                Err(why) => tracing::debug!(cell = %self.cell, why, "the cell cannot be followed"),
            }
            if self.heard.elapsed() >= self.conductor().options().cell_down_after {
                self.set_down(true).await;
            }
            tokio::time::sleep(retry).await;
            retry = (retry * 2).min(RETRY_MAX);
        }
    }

    async fn begin(&self) -> Result<mpsc::Receiver<CellEvent>, String> {
        let conductor = self.conductor();
        let link = conductor
            .link(self.cell)
            .map_err(|error| error.to_string())?;
        let found = conductor.in_time(self.cell, link.cell()).await;
        let found = found.map_err(|error| error.to_string())?;
        if found != self.cell {
            tracing::error!(cell = %self.cell, %found, "another cell answers at the cell's address");
            return Err("another cell answers".to_owned());
        }
        let news = conductor.in_time(self.cell, link.follow()).await;
        news.map_err(|error| error.to_string())
    }

    async fn take(&mut self, mut news: mpsc::Receiver<CellEvent>) -> FollowEnd {
        let silence = self.conductor().options().cell_down_after;
        let mut mentioned = ListedSoFar::default();
        let mut batch = Vec::with_capacity(NEWS_AT_ONCE);
        let mut last = Instant::now();
        loop {
            let wait = silence.min(UNHEARD_AFTER);
            let some = tokio::time::timeout(wait, news.recv_many(&mut batch, NEWS_AT_ONCE));
            match some.await {
                Ok(0) => return FollowEnd::Gone,
                Err(_) => {
                    self.set_heard(false);
                    if last.elapsed() >= silence {
                        return FollowEnd::Gone;
                    }
                    continue;
                }
                Ok(_) => {
                    last = Instant::now();
                    self.heard = last;
                    self.set_heard(true);
                }
            }
            foreign::leave_out(self.conductor(), self.cell, &mut batch);
            let is_complete = batch.iter().any(|one| matches!(one, CellEvent::Complete));
            self.view(&batch, &mut mentioned);
            // A host is mapped before the scheduler can select it.
            self.map_hosts(&batch).await;
            let is_whole = self.report_to_scheduler(&batch);
            self.end_rebuilds(&batch).await;
            if is_complete {
                self.set_down(false).await;
                self.parts.returned(self.cell);
            }
            batch.clear();
            if !is_whole {
                return FollowEnd::Gap;
            }
        }
    }

    /// Sets whether the cell sends events at present; the scheduler avoids a silent cell.
    fn set_heard(&self, is_heard: bool) {
        let views = &self.conductor().shared.views;
        let is_so = |view: &CellView| view.is_heard == is_heard;
        if views.read().cells.get(&self.cell).is_some_and(is_so) {
            return;
        }
        let mut views = views.write();
        views.cells.entry(self.cell).or_default().is_heard = is_heard;
    }

    fn view(&self, batch: &[CellEvent], mentioned: &mut ListedSoFar) {
        let mut views = self.conductor().shared.views.write();
        let view = views.cells.entry(self.cell).or_default();
        view.heard_at = now();
        for news in batch {
            view.take(news, mentioned);
        }
    }

    /// Passes soft state to the scheduler; false if an update of a host is missing.
    fn report_to_scheduler(&self, batch: &[CellEvent]) -> bool {
        let at = now();
        let mut is_whole = true;
        let of_scheduler = |news: &CellEvent| {
            !matches!(news, CellEvent::Heartbeat | CellEvent::Complete)
                && !matches!(news, CellEvent::Instance { view: Some(view), .. } if view.guest.is_none())
        };
        if !batch.iter().any(of_scheduler) {
            return true;
        }
        let mut availability_reports = self.parts.availability_reports.lock();
        self.parts.ranker.with_hosts(|hosts| {
            for news in batch {
                match news {
                    CellEvent::Host { host, view: None } => {
                        availability_reports.gone(hosts, *host, at);
                    }
                    CellEvent::Host {
                        host,
                        view: Some(view),
                    } => {
                        availability_reports.silent(hosts, *host, !view.is_up, at);
                    }
                    CellEvent::State { host, update } => {
                        is_whole &=
                            availability_reports.state(hosts, (self.cell, *host), at, update);
                    }
                    CellEvent::Alive { hosts: alive } => {
                        for host in alive {
                            hosts.apply(host.0, at, &HostUpdate::Alive);
                        }
                    }
                    CellEvent::Instance { instance, view } => {
                        expect_elsewhere_no_more(hosts, *instance, view.as_deref());
                    }
                    CellEvent::Complete | CellEvent::Heartbeat => {}
                }
            }
        });
        is_whole
    }

    /// Whether a cell's digest is that of a specification. A cell of an earlier release keeps secrets
    /// in the body, as they are handed out to it.
    fn is_same(&self, instance: InstanceId, spec: &Spec, digest: u64) -> bool {
        if has_digest(spec, digest) {
            return true;
        }
        let sealer = self.conductor().sealer();
        let open = spec
            .has_secrets()
            .then(|| sealer.opened_spec(instance, spec));
        open.flatten().is_some_and(|open| has_digest(&open, digest))
    }

    /// Records the new specifications of instances whose rebuild is complete.
    async fn end_rebuilds(&self, batch: &[CellEvent]) {
        let views = batch.iter().filter_map(|news| match news {
            CellEvent::Instance {
                instance,
                view: Some(view),
            } => Some((*instance, view)),
            _ => None,
        });
        let done: Vec<(InstanceId, u64)> = self.conductor().engine().read_now(|machine| {
            let rebuilds = machine.0.conductor.rebuilds();
            let mappings = machine.0.conductor.mappings();
            let is_own = |mapping: &Mapping| mapping.cell == Some(self.cell);
            let own = views.filter(|(instance, _)| mappings.get(instance).is_some_and(is_own));
            let done = own.filter_map(|(instance, view)| {
                let is_over = view
                    .job
                    .as_ref()
                    .is_none_or(|job| job.kind != JobKind::Rebuild);
                let asked = rebuilds.get(&instance).filter(|_| is_over);
                let asked = asked.map(|asked| &asked.spec);
                let asked = asked.filter(|spec| self.is_same(instance, spec, view.spec));
                asked.map(|spec| (instance, spec.digest()))
            });
            done.collect()
        });
        for (instance, digest) in done {
            let event = RebuildEvent::Done { digest };
            let end = || Command::Rebuild {
                instance,
                event: event.clone(),
            };
            // The cell reports it only once, so this repeats until the store accepts it.
            while let Err(error) = self.conductor().submit(end()).await {
                if matches!(error, placewright_engine::SubmitError::ShuttingDown) {
                    return;
                }
                tokio::time::sleep(RETRY_MAX).await;
            }
        }
    }

    /// Maps new hosts to the cell, and unmaps removed ones.
    async fn map_hosts(&mut self, batch: &[CellEvent]) {
        let mut new: Vec<(HostId, String)> = Vec::new();
        for news in batch {
            match news {
                CellEvent::Host {
                    host,
                    view: Some(view),
                } => {
                    if let Some(name) = &view.name
                        && self.mapped.get(host) != Some(name)
                        && self.refused.get(host) != Some(name)
                    {
                        new.push((*host, name.clone()));
                    }
                }
                CellEvent::Host { host, view: None } => {
                    self.mapped.remove(host);
                    let command = Command::UnmapHost { host: *host };
                    if let Ok(Err(refusal)) = self.conductor().submit(command).await {
                        tracing::warn!(%host, %refusal, "a removed host is kept");
                    }
                }
                _ => {}
            }
        }
        for some in new.chunks(HOSTS_AT_ONCE) {
            self.map_some(some).await;
        }
    }

    async fn map_some(&mut self, hosts: &[(HostId, String)]) {
        match self.submit_hosts(hosts).await {
            Some(Ok(())) => self.mapped.extend(hosts.iter().cloned()),
            // One of the hosts cannot be mapped; each is tried alone.
            Some(Err(_)) if hosts.len() > 1 => {
                for one in hosts {
                    Box::pin(self.map_some(std::slice::from_ref(one))).await;
                }
            }
            Some(Err(refusal)) => {
                for (host, name) in hosts {
                    tracing::error!(cell = %self.cell, %host, name, %refusal, "a host cannot be mapped");
                    self.refused.insert(*host, name.clone());
                }
            }
            None => {}
        }
    }

    /// Repeats a command until the store accepts it; none if control is shutting down.
    async fn submit_hosts(&self, hosts: &[(HostId, String)]) -> Option<Result<(), Refusal>> {
        loop {
            let command = Command::MapHosts {
                cell: self.cell,
                hosts: hosts.to_vec(),
            };
            match self.conductor().submit(command).await {
                Ok(result) => return Some(result.map(drop)),
                Err(placewright_engine::SubmitError::ShuttingDown) => return None,
                Err(_) => tokio::time::sleep(RETRY_MAX).await,
            }
        }
    }

    async fn set_down(&mut self, is_down: bool) {
        {
            let mut views = self.conductor().shared.views.write();
            let view = views.cells.entry(self.cell).or_default();
            view.is_up = !is_down;
            view.is_complete &= !is_down;
        }
        if self.is_down == Some(is_down) {
            return;
        }
        let command = Command::SetCellDown {
            cell: self.cell,
            is_down,
        };
        match self.conductor().submit(command).await {
            Ok(Ok(_)) => {
                if is_down {
                    tracing::warn!(cell = %self.cell, "the cell is down");
                } else {
                    tracing::info!(cell = %self.cell, "the cell is up");
                }
                self.is_down = Some(is_down);
            }
            Ok(Err(refusal)) => {
                tracing::error!(cell = %self.cell, %refusal, "the cell is not known");
            }
            Err(error) => {
                tracing::warn!(cell = %self.cell, %error, "whether the cell is up is not written");
            }
        }
    }
}

/// Removes the scheduler's expectation of an instance on hosts to which it is no longer going.
fn expect_elsewhere_no_more(
    hosts: &mut HostTable,
    instance: InstanceId,
    view: Option<&InstanceView>,
) {
    if hosts.hosts_of(instance.0).is_empty() {
        return;
    }
    let guest = view.and_then(|view| view.guest).map(|guest| guest.host.0);
    let target = view
        .and_then(|view| view.job.as_ref()?.target)
        .map(|host| host.0);
    for slot in hosts.hosts_of(instance.0).to_vec() {
        let host = hosts.get(slot).map(|host| host.uuid);
        if host != guest && host != target {
            hosts.remove_pending_instance(slot, instance.0);
        }
    }
}
