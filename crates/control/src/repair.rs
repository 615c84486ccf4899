//! Repairs of inconsistencies. Each repair is decided where it takes effect: control and cells
//! check their own states again, and refuse what no longer applies.

use std::collections::BTreeSet;

use placewright_conductor::super_conductor::{Command, Outcome, Refusal};
use placewright_conductor::{
    Candidate, ControlState, Fault, HostId, InstanceId, Message, Reply, message,
};
use placewright_engine::SubmitError;
use placewright_link::CellOperation;
use placewright_placement as placement;
use placewright_scheduler::select::Scheduler;

use crate::body::BodyCache;
use crate::finding::{Finding, FindingKind, Repair};
use crate::handle::now;
use crate::options::RepairOptions;
use crate::placement::submit_placement;
use crate::placer::claim;
use crate::plan::fault_of_prepare_refusal;
use crate::runtime_context::RuntimeContext;

/// The most candidates on an instance's host that are tried for a missing claim.
const CANDIDATES_PER_HOST: usize = 8;

/// Repairs findings, records the result in each, and returns how many were repaired.
pub(crate) async fn repair_all(
    context: &RuntimeContext,
    findings: &mut [Finding],
    options: RepairOptions,
) -> usize {
    let unknown_guests = findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::UnknownGuest);
    let hosts_with_unknown_guests: BTreeSet<HostId> =
        unknown_guests.filter_map(|finding| finding.host).collect();
    let mut repaired = 0;
    for finding in findings {
        let Some(repair_kind) = finding.repair_kind.clone() else {
            continue;
        };
        if repair_kind == Repair::DestroyGuest && !options.destroy_unknown_guests {
            continue;
        }
        // A new session makes the host destroy every guest that its cell does not know.
        let would_destroy_guests = match &repair_kind {
            Repair::Reconcile(hosts) => hosts
                .iter()
                .any(|host| hosts_with_unknown_guests.contains(host)),
            Repair::ReconcileGuest => finding
                .host
                .is_some_and(|host| hosts_with_unknown_guests.contains(&host)),
            _ => false,
        };
        let outcome = if would_destroy_guests && !options.destroy_unknown_guests {
            let why = "the new session would also destroy a guest that the host's cell does not know; \
                       --destroy-unknown-guests allows that";
            Err(why.to_owned())
        } else {
            carry_out(context, finding, &repair_kind).await
        };
        let (kind, id) = (finding.kind.name(), finding.id);
        match outcome {
            Ok(()) => {
                repaired += 1;
                tracing::info!(kind, %id, "repaired");
                finding.outcome = Some("done".to_owned());
            }
            Err(why) => {
                tracing::warn!(kind, %id, why, "not repaired");
                finding.outcome = Some(why);
            }
        }
    }
    repaired
}

async fn carry_out(
    context: &RuntimeContext,
    finding: &Finding,
    repair_kind: &Repair,
) -> Result<(), String> {
    let control = &context.control;
    let instance = InstanceId(finding.id);
    let submit = async |command| check_accepted(control.submit(command).await);
    match repair_kind {
        Repair::Release => {
            // The id of such a finding is that of the consumer, which may be a migration, too.
            let consumer = instance.consumer();
            let release = placement::Command::Release { consumer };
            match submit_placement(control.engine(), release).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(refusal)) => Err(refusal.to_string()),
                Err(error) => Err(error.to_string()),
            }
        }
        // The deletion also releases what is held. The two repairs differ only in what operators are told.
        Repair::Forget | Repair::ForgetWithClaim => submit(Command::Delete { instance }).await,
        Repair::DeleteInCell => {
            send_to_cell(
                context,
                finding,
                Message::Delete {
                    instance,
                    // Control knows no claim for the instance in this cell.
                    claim_number: 0,
                },
            )
            .await
        }
        Repair::CancelReservation(migration) => {
            let migration = *migration;
            let cancel = Message::Cancel {
                instance,
                migration,
            };
            send_to_cell(context, finding, cancel).await
        }
        Repair::Reclaim => reclaim(context, finding).await,
        Repair::Bury => {
            let fault = fault("Control neither selected a host for the request nor refused it.");
            let instances = vec![instance];
            submit(Command::Bury { instances, fault }).await
        }
        Repair::FailMove(migration) => {
            let fault = fault("Control neither selected a host for the move nor refused it.");
            let migration = *migration;
            submit(Command::FailMove { migration, fault }).await
        }
        Repair::Resend => {
            let cell = finding.cell.ok_or("its cell is not known")?;
            context.resend_messages(cell);
            Ok(())
        }
        Repair::Reconcile(hosts) => {
            for host in hosts {
                perform_in_cell(context, finding, CellOperation::Reconcile { host: *host }).await?;
            }
            Ok(())
        }
        // In a new session the agent reports all guests, and is ordered to destroy those that its cell does not know.
        Repair::ReconcileGuest | Repair::DestroyGuest => {
            let host = finding.host.ok_or("its host is not known")?;
            perform_in_cell(context, finding, CellOperation::Reconcile { host }).await
        }
    }
}

fn fault(message: &str) -> Fault {
    Fault {
        code: 500,
        message: message.to_owned(),
        details: String::new(),
        at: now(),
    }
}

fn check_accepted(answer: Result<Result<Outcome, Refusal>, SubmitError>) -> Result<(), String> {
    match answer {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(refusal)) => Err(refusal.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

async fn send_to_cell(
    context: &RuntimeContext,
    finding: &Finding,
    message: Message,
) -> Result<(), String> {
    let cell = finding.cell.ok_or("its cell is not known")?;
    let control = &context.control;
    let link = control.link(cell).map_err(|error| error.to_string())?;
    let sent_at = now();
    let envelope = message::Envelope { sent_at, message };
    let replies = control
        .with_timeout(cell, link.deliver(vec![envelope]))
        .await;
    let replies = replies.map_err(|error| error.to_string())?;
    replies.into_iter().try_for_each(check_reply)
}

async fn perform_in_cell(
    context: &RuntimeContext,
    finding: &Finding,
    operation: CellOperation,
) -> Result<(), String> {
    let cell = finding.cell.ok_or("its cell is not known")?;
    let reply = context.control.perform_in_cell(cell, operation).await;
    check_reply(reply.map_err(|error| error.to_string())?)
}

fn check_reply(reply: Reply) -> Result<(), String> {
    match reply {
        Reply::Accepted => Ok(()),
        Reply::Refused(why) => Err(why),
    }
}

/// Claims the resources of an instance on the host where it is.
async fn reclaim(context: &RuntimeContext, finding: &Finding) -> Result<(), String> {
    let instance = InstanceId(finding.id);
    let host = finding.host.ok_or("its host is not known")?;
    let scheduler = context.scheduler.clone();
    // The search blocks on the scheduler's lock.
    let searched = tokio::task::spawn_blocking(move || {
        scheduler
            .with_state(|scheduler, control| find_candidates(scheduler, control, instance, host))
    });
    let candidates = searched.await.map_err(|error| error.to_string())??;
    let command = Command::Reclaim {
        instance,
        host,
        candidates,
    };
    check_accepted(context.control.submit(command).await)
}

/// The candidates for an instance on the host where it is.
fn find_candidates(
    scheduler: &mut Scheduler,
    control: &ControlState,
    instance: InstanceId,
    host: HostId,
) -> Result<Vec<Candidate>, String> {
    let spec = control.conductor.specs().get(&instance);
    let spec = spec.ok_or("there is no record of what it needs")?;
    let body = BodyCache::default().read(&spec.body);
    let body = body.map_err(|error| format!("what it needs cannot be read: {error}"))?;
    let mut request = (*body.request).clone();
    // The instance stays on its present host, whichever host was requested at its creation.
    request.force_hosts.clear();
    request.force_nodes.clear();
    request.requested_destination = None;
    let prepared = scheduler.prepare_cached(&control.placement, &request);
    let prepared = prepared.map_err(|refusal| fault_of_prepare_refusal(&refusal).message)?;
    let (slot, _) = scheduler
        .hosts()
        .by_uuid(host.0)
        .ok_or("the scheduler does not know its host")?;
    let found = scheduler.candidates_with_mappings(
        &control.placement,
        &prepared,
        slot,
        CANDIDATES_PER_HOST,
    );
    let found = found.map_err(|error| error.to_string())?;
    if found.is_empty() {
        let reason =
            "its host has no room for what it needs, lacks a trait that it needs, or is disabled";
        return Err(reason.to_owned());
    }
    let zone = scheduler.hosts().aggregates().zone(slot);
    let converted = found
        .iter()
        .map(|(candidate, mappings)| claim::candidate(zone, candidate, mappings));
    Ok(converted.collect())
}
