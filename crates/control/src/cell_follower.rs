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

use crate::first_builds;
use crate::foreign;
use crate::handle::{ControlHandle, now};
use crate::leading::Leading;
use crate::runtime_context::RuntimeContext;
use crate::views::{CellView, InitialListing};

/// The first wait before a cell is followed again; it is doubled each time up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(50);
/// The longest wait before a cell is followed again, and the wait before a command that the store did not accept is
/// submitted again.
const RETRY_MAX: Duration = Duration::from_secs(2);
/// A cell that sends nothing for this long counts as silent; it sends a heartbeat every second.
const SILENT_AFTER: Duration = Duration::from_millis(2500);
/// A cell whose stream ended counts as silent if it cannot be followed again within this time.
const RECONNECT_GRACE: Duration = Duration::from_millis(200);
/// The most events that are handled together.
const EVENTS_AT_ONCE: usize = 1024;
/// The most hosts that are mapped with one command.
const HOSTS_AT_ONCE: usize = 1000;

/// The follower of one cell.
pub(crate) struct CellFollower {
    pub(crate) cell: CellId,
    pub(crate) context: Arc<RuntimeContext>,
    /// The hosts that are mapped to the cell, with their names.
    mapped: BTreeMap<HostId, String>,
    /// Hosts whose mapping was refused, with their names then, so that each is logged once.
    refused: BTreeMap<HostId, String>,
    /// Whether this follower last marked the cell as down in the state, or as up; `None` if it did neither
    /// yet.
    marked_down: Option<bool>,
    last_event_at: Instant,
    leading: Leading,
    /// The value of [`Leading::epoch`] when this follower was created, or when [`Self::catch_up`] last ran. While this
    /// process leads in that epoch, every command that the cell's events call for was submitted, except for those that
    /// unmap hosts which the cell removed while another replica led. `None` if another replica led then: a replica that
    /// does not lead submits no commands.
    caught_up: Option<u64>,
}

/// Why following a cell ended.
enum FollowEnd {
    /// The cell ended the stream, or was silent for too long.
    Gone,
    /// An update of a host was missing in the stream.
    Gap,
}

impl CellFollower {
    pub(crate) fn new(cell: CellId, context: Arc<RuntimeContext>) -> Self {
        let leading = context.leading.clone();
        Self {
            cell,
            context,
            caught_up: leading.epoch(),
            leading,
            mapped: BTreeMap::new(),
            refused: BTreeMap::new(),
            marked_down: None,
            last_event_at: Instant::now(),
        }
    }

    fn control(&self) -> &ControlHandle {
        &self.context.control
    }

    /// Subscribes to the cell again. A cell that ended the stream and accepts a new one at once
    /// does not count as silent: it has a new certificate, or it sends its whole read model again.
    async fn reconnect(&self) -> Result<mpsc::Receiver<CellEvent>, String> {
        let mut subscribing = std::pin::pin!(self.subscribe());
        let subscribed = match tokio::time::timeout(RECONNECT_GRACE, &mut subscribing).await {
            Ok(subscribed) => subscribed,
            Err(_) => {
                self.set_silent(true);
                subscribing.await
            }
        };
        if subscribed.is_err() {
            self.set_silent(true);
        }
        subscribed
    }

    /// Follows the cell, as long as the task lives.
    pub(crate) async fn run(mut self) {
        let mut retry_wait = RETRY_MIN;
        loop {
            let last_event_before = self.last_event_at;
            match self.reconnect().await {
                Ok(events) => {
                    let ended = self.process_events(events).await;
                    if self.last_event_at > last_event_before {
                        retry_wait = RETRY_MIN;
                    }
                    if matches!(ended, FollowEnd::Gap) {
                        tracing::info!(cell = %self.cell, "something of the cell's hosts is missing: following anew");
                    }
                }
                Err(why) => tracing::debug!(cell = %self.cell, why, "the cell cannot be followed"),
            }
            if self.last_event_at.elapsed() >= self.control().options().cell_down_after {
                self.set_down(true).await;
            }
            tokio::time::sleep(retry_wait).await;
            retry_wait = (retry_wait * 2).min(RETRY_MAX);
        }
    }

    async fn subscribe(&self) -> Result<mpsc::Receiver<CellEvent>, String> {
        let control = self.control();
        let link = control.link(self.cell).map_err(|error| error.to_string())?;
        let answering = control.with_timeout(self.cell, link.cell_id()).await;
        let answering = answering.map_err(|error| error.to_string())?;
        if answering != self.cell {
            tracing::error!(cell = %self.cell, found = %answering, "another cell answers at the cell's address");
            return Err("another cell answers".to_owned());
        }
        let events = control.with_timeout(self.cell, link.follow()).await;
        events.map_err(|error| error.to_string())
    }

    /// Handles the events of a stream until it ends.
    async fn process_events(&mut self, mut events: mpsc::Receiver<CellEvent>) -> FollowEnd {
        let down_after = self.control().options().cell_down_after;
        let mut listed = InitialListing::default();
        let mut is_listed = false;
        let mut batch = Vec::with_capacity(EVENTS_AT_ONCE);
        // When this stream last sent something. `last_event_at` also covers earlier streams.
        let mut heard_at = Instant::now();
        loop {
            let wait = down_after.min(SILENT_AFTER);
            let mut leading = self.leading.clone();
            let received = events.recv_many(&mut batch, EVENTS_AT_ONCE);
            let received = tokio::select! {
                received = tokio::time::timeout(wait, received) => received,
                () = leading.until_other(self.caught_up) => {
                    self.catch_up().await;
                    continue;
                }
            };
            match received {
                Ok(0) => return FollowEnd::Gone,
                Err(_) => {
                    self.set_silent(true);
                    if heard_at.elapsed() >= down_after {
                        return FollowEnd::Gone;
                    }
                    continue;
                }
                Ok(_) => {
                    heard_at = Instant::now();
                    self.last_event_at = heard_at;
                    self.set_silent(false);
                }
            }
            foreign::drop_foreign_events(self.control(), self.cell, &mut batch);
            let ends_listing = batch
                .iter()
                .any(|event| matches!(event, CellEvent::Complete));
            self.update_views(&batch, &mut listed);
            // A host is mapped before the scheduler can select it.
            self.map_hosts(&batch).await;
            let is_gapless = self.report_to_scheduler(&batch);
            self.end_rebuilds(&batch).await;
            if self.leading.is_own() {
                first_builds::end(self.control(), &self.leading, self.cell, &batch).await;
            }
            is_listed |= ends_listing;
            if ends_listing {
                self.set_down(false).await;
                self.context.resend_messages(self.cell);
            } else if is_listed && self.leading.is_own() && self.marked_down != Some(false) {
                // The store has not taken the command yet. A heartbeat comes every second.
                self.set_down(false).await;
            }
            batch.clear();
            if !is_gapless {
                return FollowEnd::Gap;
            }
        }
    }

    /// Submits the commands that the present instances and hosts of the cell call for, if this process has begun to
    /// lead: the replica that led before may have died before it submitted them.
    async fn catch_up(&mut self) {
        self.caught_up = self.leading.epoch();
        if self.caught_up.is_none() {
            return;
        }
        self.mapped.clear();
        self.refused.clear();
        self.marked_down = None;
        let rebuilds: Vec<InstanceId> = self.control().engine().read_now(|machine| {
            let rebuilds = machine.state.conductor.rebuilds().keys();
            rebuilds.copied().collect()
        });
        let (events, is_up) = {
            let views = self.control().shared.views.read();
            let view = views.cells.get(&self.cell);
            let events = view.map(|view| view.as_events(&rebuilds));
            (
                events.unwrap_or_default(),
                view.is_some_and(|view| view.is_up),
            )
        };
        self.map_hosts(&events).await;
        self.end_rebuilds(&events).await;
        first_builds::end_all(self.control(), &self.leading, self.cell).await;
        if is_up {
            self.set_down(false).await;
        }
    }

    /// Records whether the cell is silent; the scheduler avoids hosts of silent cells.
    fn set_silent(&self, is_silent: bool) {
        let views = &self.control().shared.views;
        let is_recorded = |view: &CellView| view.is_silent == is_silent;
        if views.read().cells.get(&self.cell).is_some_and(is_recorded) {
            return;
        }
        let mut views = views.write();
        views.cells.entry(self.cell).or_default().is_silent = is_silent;
    }

    fn update_views(&self, batch: &[CellEvent], listed: &mut InitialListing) {
        let mut views = self.control().shared.views.write();
        let view = views.cells.entry(self.cell).or_default();
        view.heard_at = now();
        for event in batch {
            view.apply(event, listed);
        }
    }

    /// Passes soft state to the scheduler. Returns whether no update of a host is missing.
    fn report_to_scheduler(&self, batch: &[CellEvent]) -> bool {
        let at = now();
        let mut is_gapless = true;
        // While an instance is on its way to a host, the scheduler counts it there as pending, and events about it do
        // not change that. So the scheduler need not be locked for a batch without events of hosts if all instances in
        // the batch are on their way. As soon as an instance has no target any more, it has to be counted on no host.
        let is_on_its_way = |view: &InstanceView| {
            view.guest.is_none() && view.job.as_ref().is_some_and(|job| job.target.is_some())
        };
        let concerns_scheduler = |event: &CellEvent| match event {
            CellEvent::Heartbeat | CellEvent::Complete => false,
            CellEvent::Instance { view, .. } => !view.as_deref().is_some_and(is_on_its_way),
            _ => true,
        };
        if !batch.iter().any(concerns_scheduler) {
            return true;
        }
        let mut availability_reports = self.context.availability_reports.lock();
        self.context.scheduler.change_hosts(|hosts| {
            for event in batch {
                match event {
                    CellEvent::Host { host, view: None } => {
                        availability_reports.remove(hosts, *host, at);
                    }
                    CellEvent::Host {
                        host,
                        view: Some(view),
                    } => {
                        availability_reports.set_silent(hosts, *host, !view.is_up, at);
                    }
                    CellEvent::State { host, update } => {
                        is_gapless &= availability_reports.apply_update(
                            hosts,
                            (self.cell, *host),
                            at,
                            update,
                        );
                    }
                    CellEvent::Alive { hosts: alive } => {
                        for host in alive {
                            hosts.apply(host.0, at, &HostUpdate::Alive);
                        }
                    }
                    CellEvent::Instance { instance, view } => {
                        remove_pending_elsewhere(hosts, self.cell, *instance, view.as_deref());
                    }
                    CellEvent::Complete | CellEvent::Heartbeat => {}
                }
            }
        });
        is_gapless
    }

    /// Whether the digest that the cell reports belongs to this specification. Control keeps the specification with
    /// sealed secrets. Cells of earlier releases keep it with open secrets, and so report another digest. Both digests
    /// are accepted.
    fn has_reported_digest(&self, instance: InstanceId, spec: &Spec, digest: u64) -> bool {
        if has_digest(spec, digest) {
            return true;
        }
        let sealer = self.control().sealer();
        let open = spec
            .has_secrets()
            .then(|| sealer.clone_opened(instance, spec));
        open.flatten().is_some_and(|open| has_digest(&open, digest))
    }

    /// Records the new specifications of instances whose rebuild is complete, which ends their rebuilds.
    async fn end_rebuilds(&self, batch: &[CellEvent]) {
        let views = batch.iter().filter_map(|event| match event {
            CellEvent::Instance {
                instance,
                view: Some(view),
            } => Some((*instance, view)),
            _ => None,
        });
        let done: Vec<(InstanceId, u64)> = self.control().engine().read_now(|machine| {
            let rebuilds = machine.state.conductor.rebuilds();
            let mappings = machine.state.conductor.mappings();
            let is_own = |mapping: &Mapping| mapping.cell == Some(self.cell);
            let own = views.filter(|(instance, _)| mappings.get(instance).is_some_and(is_own));
            let done = own.filter_map(|(instance, view)| {
                let is_over = view
                    .job
                    .as_ref()
                    .is_none_or(|job| job.kind != JobKind::Rebuild);
                let rebuild = rebuilds.get(&instance).filter(|_| is_over)?;
                let spec = &rebuild.spec;
                let is_rebuilt = self.has_reported_digest(instance, spec, view.spec_digest);
                is_rebuilt.then(|| (instance, spec.digest()))
            });
            done.collect()
        });
        // The replica that leads submits this command itself, now or when it learns that it leads.
        let done = done.into_iter().filter(|_| self.leading.is_own());
        for (instance, digest) in done {
            let event = RebuildEvent::Done { digest };
            let command = || Command::Rebuild {
                instance,
                event: event.clone(),
            };
            // The cell reports the end of a rebuild only once, so the command is repeated until the store
            // accepts it.
            while let Err(error) = self.control().submit(command()).await {
                if matches!(error, placewright_engine::SubmitError::ShuttingDown)
                    || !self.leading.is_own()
                {
                    return;
                }
                tokio::time::sleep(RETRY_MAX).await;
            }
        }
    }

    /// Maps new hosts to the cell, and unmaps removed ones.
    async fn map_hosts(&mut self, batch: &[CellEvent]) {
        if !self.leading.is_own() {
            return;
        }
        // Of a host that occurs more than once in the batch, the last name counts.
        let mut new_hosts: BTreeMap<HostId, String> = BTreeMap::new();
        for event in batch {
            match event {
                CellEvent::Host {
                    host,
                    view: Some(view),
                } => {
                    if let Some(name) = &view.name
                        && self.mapped.get(host) != Some(name)
                        && self.refused.get(host) != Some(name)
                    {
                        new_hosts.insert(*host, name.clone());
                    }
                }
                CellEvent::Host { host, view: None } => {
                    self.mapped.remove(host);
                    new_hosts.remove(host);
                    let command = Command::UnmapHost { host: *host };
                    match self.control().submit(command).await {
                        // Whoever had the cell remove the host may have unmapped it already.
                        Ok(Ok(_) | Err(Refusal::NotFound { .. })) | Err(_) => {}
                        Ok(Err(refusal)) => {
                            tracing::warn!(%host, %refusal, "a removed host is kept");
                        }
                    }
                }
                _ => {}
            }
        }
        let new_hosts: Vec<(HostId, String)> = new_hosts.into_iter().collect();
        for hosts in new_hosts.chunks(HOSTS_AT_ONCE) {
            self.map_batch(hosts).await;
        }
    }

    /// Maps these hosts to the cell, except for those that the state refuses.
    async fn map_batch(&mut self, hosts: &[(HostId, String)]) {
        match self.submit_mappings(hosts).await {
            Some(Ok(())) => self.mapped.extend(hosts.iter().cloned()),
            // One of the hosts cannot be mapped; each is tried alone.
            Some(Err(_)) if hosts.len() > 1 => {
                for host in hosts {
                    Box::pin(self.map_batch(std::slice::from_ref(host))).await;
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

    /// Submits the command that maps hosts to the cell until the store accepts it; `None` if control is
    /// shutting down, or another replica leads.
    async fn submit_mappings(&self, hosts: &[(HostId, String)]) -> Option<Result<(), Refusal>> {
        loop {
            let command = Command::MapHosts {
                cell: self.cell,
                hosts: hosts.to_vec(),
            };
            match self.control().submit(command).await {
                Ok(result) => return Some(result.map(drop)),
                Err(placewright_engine::SubmitError::ShuttingDown) => return None,
                Err(_) if !self.leading.is_own() => return None,
                Err(_) => tokio::time::sleep(RETRY_MAX).await,
            }
        }
    }

    /// Records in the views whether the cell is down, and also in the state if this process leads.
    async fn set_down(&mut self, is_down: bool) {
        {
            let mut views = self.control().shared.views.write();
            let view = views.cells.entry(self.cell).or_default();
            view.is_up = !is_down;
            view.is_complete &= !is_down;
        }
        if self.marked_down == Some(is_down) || !self.leading.is_own() {
            return;
        }
        let command = Command::SetCellDown {
            cell: self.cell,
            is_down,
        };
        match self.control().submit(command).await {
            Ok(Ok(_)) => {
                match is_down {
                    true => tracing::warn!(cell = %self.cell, "the cell is down"),
                    false => tracing::info!(cell = %self.cell, "the cell is up"),
                }
                self.marked_down = Some(is_down);
            }
            Ok(Err(refusal)) => {
                tracing::error!(cell = %self.cell, %refusal, "the cell is not known");
                self.marked_down = Some(is_down);
            }
            Err(error) => {
                tracing::warn!(cell = %self.cell, %error, "whether the cell is up is not written");
            }
        }
    }
}

/// Removes a pending instance from the hosts of its cell to which it is no longer going.
fn remove_pending_elsewhere(
    hosts: &mut HostTable,
    cell: CellId,
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
        let of_cell = hosts.get(slot).filter(|host| host.names.cell == cell.0);
        let host = of_cell.map(|host| host.uuid);
        if host.is_some() && host != guest && host != target {
            hosts.remove_pending_instance(slot, instance.0);
        }
    }
}
