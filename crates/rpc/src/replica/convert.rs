//! Conversions of the messages between replicas: from the types of the link to those of the protocol, and back.

use std::sync::Arc;
use std::time::SystemTime;

use placewright_link::{
    CommandVersions, EntryBatch, FollowStart, FromLeader, HandedCommand, HandedFailure,
    HandedOutcome, Leader, LeaderNews, PostedUpdate, ReplicaAddress, ReplicaIdentity, ToLeader,
};

use placewright_records::{Form as _, Layout, Reader, Writer};
use placewright_types::host_state::{NumberedUpdate, Receipt};
use uuid::Uuid;

use crate::proto::replica as proto;
use proto::failure::Reason;
use proto::reply::Outcome;

impl From<Leader> for proto::Leader {
    fn from(leader: Leader) -> Self {
        Self {
            epoch: leader.epoch,
            origin: leader.origin,
            address: leader.address,
        }
    }
}

/// A message without a leader means that none is known, for which the link has the default value.
fn leader(leader: Option<proto::Leader>) -> Leader {
    let leader = leader.unwrap_or_default();
    Leader {
        epoch: leader.epoch,
        origin: leader.origin,
        address: leader.address,
    }
}

impl From<ReplicaIdentity> for proto::Identity {
    fn from(identity: ReplicaIdentity) -> Self {
        Self {
            origin: identity.origin,
            address: identity.address,
            release: identity.release,
            oldest: identity.versions.oldest,
            newest: identity.versions.newest,
            record_version: identity.record_version,
            sequence: identity.sequence,
            leader: Some(identity.leader.into()),
        }
    }
}

impl From<proto::Identity> for ReplicaIdentity {
    fn from(identity: proto::Identity) -> Self {
        Self {
            origin: identity.origin,
            address: identity.address,
            release: identity.release,
            versions: CommandVersions {
                oldest: identity.oldest,
                newest: identity.newest,
            },
            record_version: identity.record_version,
            sequence: identity.sequence,
            leader: leader(identity.leader),
        }
    }
}

impl From<FollowStart> for proto::Start {
    fn from(start: FollowStart) -> Self {
        Self {
            origin: start.origin,
            address: start.address,
            release: start.release,
            oldest: start.versions.oldest,
            newest: start.versions.newest,
            leader: Some(start.leader.into()),
            takes_entries: start.takes_entries,
        }
    }
}

impl From<proto::Start> for FollowStart {
    fn from(start: proto::Start) -> Self {
        Self {
            origin: start.origin,
            address: start.address,
            release: start.release,
            versions: CommandVersions {
                oldest: start.oldest,
                newest: start.newest,
            },
            leader: leader(start.leader),
            takes_entries: start.takes_entries,
        }
    }
}

impl From<HandedCommand> for proto::Command {
    fn from(command: HandedCommand) -> Self {
        Self {
            number: command.number,
            version: command.version,
            command: command.bytes,
        }
    }
}

impl From<proto::Command> for HandedCommand {
    fn from(command: proto::Command) -> Self {
        Self {
            number: command.number,
            version: command.version,
            bytes: command.command,
        }
    }
}

impl From<ToLeader> for proto::FromFollower {
    fn from(message: ToLeader) -> Self {
        Self {
            start: None,
            commands: message.commands.into_iter().map(Into::into).collect(),
            sequence: message.sequence,
        }
    }
}

impl From<proto::FromFollower> for ToLeader {
    fn from(message: proto::FromFollower) -> Self {
        Self {
            commands: message.commands.into_iter().map(Into::into).collect(),
            sequence: message.sequence,
        }
    }
}

impl From<FromLeader> for proto::FromLeader {
    fn from(message: FromLeader) -> Self {
        match message {
            FromLeader::Welcome { version } => Self {
                welcome: Some(proto::Welcome { version }),
                ..Self::default()
            },
            FromLeader::NotLeading { origin, leader } => Self {
                not_leading: Some(proto::NotLeading {
                    origin,
                    leader: Some(leader.into()),
                }),
                ..Self::default()
            },
            FromLeader::StoreUnavailable => Self {
                store_away: Some(proto::StoreAway {}),
                ..Self::default()
            },
            FromLeader::News(news) => Self {
                replies: news.replies.into_iter().map(reply_to_proto).collect(),
                durable: news.durable,
                batches: news.batches.into_iter().map(Into::into).collect(),
                followers: news.followers.into_iter().map(Into::into).collect(),
                ..Self::default()
            },
        }
    }
}

impl From<proto::FromLeader> for FromLeader {
    fn from(message: proto::FromLeader) -> Self {
        if let Some(not_leading) = message.not_leading {
            return Self::NotLeading {
                origin: not_leading.origin,
                leader: leader(not_leading.leader),
            };
        }
        if message.store_away.is_some() {
            return Self::StoreUnavailable;
        }
        if let Some(proto::Welcome { version }) = message.welcome {
            return Self::Welcome { version };
        }
        Self::News(LeaderNews {
            replies: message.replies.into_iter().map(reply_from_proto).collect(),
            durable: message.durable,
            batches: message.batches.into_iter().map(Into::into).collect(),
            followers: message.followers.into_iter().map(Into::into).collect(),
        })
    }
}

impl From<ReplicaAddress> for proto::Address {
    fn from(replica: ReplicaAddress) -> Self {
        Self {
            origin: replica.origin,
            address: replica.address,
        }
    }
}

impl From<proto::Address> for ReplicaAddress {
    fn from(replica: proto::Address) -> Self {
        Self {
            origin: replica.origin,
            address: replica.address,
        }
    }
}

impl From<&PostedUpdate> for proto::HostUpdate {
    fn from(posted: &PostedUpdate) -> Self {
        let mut out = Writer::new(Vec::new(), Layout::Growing);
        posted.update.write(&mut out);
        Self {
            host: posted.host.into_bytes().to_vec(),
            update: out.into_bytes(),
        }
    }
}

/// An update of a host; `None` if this release cannot read it, or a field is not within its limits. The other updates
/// of its call are applied all the same, because they are of other hosts.
pub(super) fn posted_update(posted: proto::HostUpdate) -> Option<PostedUpdate> {
    let mut from = Reader::new(&posted.update, Layout::Growing);
    let update = NumberedUpdate::read(&mut from).ok()?;
    from.finish().ok()?;
    update.check_limits(SystemTime::now()).ok()?;
    Some(PostedUpdate {
        host: Uuid::from_slice(&posted.host).ok()?,
        update: Arc::new(update),
    })
}

/// The receipt of an update; `None` if the replica could not read the update, or this release does not know its answer.
pub(super) fn receipt(receipt: i32) -> Option<Receipt> {
    match proto::HostReceipt::try_from(receipt).ok()? {
        proto::HostReceipt::Unreadable => None,
        proto::HostReceipt::Applied => Some(Receipt::Applied),
        proto::HostReceipt::Stale => Some(Receipt::Stale),
        proto::HostReceipt::Gap => Some(Receipt::Gap),
    }
}

pub(super) fn receipt_to_proto(receipt: Option<Receipt>) -> proto::HostReceipt {
    match receipt {
        None => proto::HostReceipt::Unreadable,
        Some(Receipt::Applied) => proto::HostReceipt::Applied,
        Some(Receipt::Stale) => proto::HostReceipt::Stale,
        Some(Receipt::Gap) => proto::HostReceipt::Gap,
    }
}

impl From<EntryBatch> for proto::Batch {
    fn from(batch: EntryBatch) -> Self {
        Self {
            first: batch.first,
            last: batch.last,
            previous: batch.previous,
            checksum: batch.checksum,
            payload: batch.payload,
        }
    }
}

impl From<proto::Batch> for EntryBatch {
    fn from(batch: proto::Batch) -> Self {
        Self {
            first: batch.first,
            last: batch.last,
            previous: batch.previous,
            checksum: batch.checksum,
            payload: batch.payload,
        }
    }
}

fn reply_to_proto((number, outcome): (u64, HandedOutcome)) -> proto::Reply {
    let outcome = match outcome {
        HandedOutcome::NoEntry(sequence) => Outcome::NoEntryAt(sequence),
        // The value of this variant has no meaning.
        HandedOutcome::NotLeading => Outcome::NotLeading(true),
        HandedOutcome::Failed(failure) => Outcome::Failure(failure.into()),
    };
    proto::Reply {
        number,
        outcome: Some(outcome),
    }
}

fn reply_from_proto(reply: proto::Reply) -> (u64, HandedOutcome) {
    let outcome = match reply.outcome {
        Some(Outcome::NoEntryAt(sequence)) => HandedOutcome::NoEntry(sequence),
        Some(Outcome::NotLeading(_)) => HandedOutcome::NotLeading,
        Some(Outcome::Failure(failure)) => HandedOutcome::Failed(failure.into()),
        // A leader of a later release may send an outcome that this release cannot read. Whether the command had an
        // effect is then unknown.
        None => HandedOutcome::Failed(HandedFailure::UnknownOutcome(
            "the leader gave a reply that this release does not know".into(),
        )),
    };
    (reply.number, outcome)
}

impl From<HandedFailure> for proto::Failure {
    fn from(failure: HandedFailure) -> Self {
        let of = |reason: Reason, message: String| Self {
            reason: reason.into(),
            message,
            ..Self::default()
        };
        match failure {
            HandedFailure::Unavailable(message) => of(Reason::Unavailable, message),
            HandedFailure::Overloaded => of(Reason::Overloaded, String::new()),
            HandedFailure::TooLarge { bytes, bytes_max } => Self {
                bytes,
                bytes_max,
                ..of(Reason::TooLarge, String::new())
            },
            HandedFailure::UnknownOutcome(message) => of(Reason::UnknownOutcome, message),
            HandedFailure::Unreadable(message) => of(Reason::Unreadable, message),
            HandedFailure::Panicked => of(Reason::Panicked, String::new()),
            HandedFailure::Other(message) => of(Reason::Other, message),
        }
    }
}

impl From<proto::Failure> for HandedFailure {
    fn from(failure: proto::Failure) -> Self {
        match failure.reason() {
            Reason::Unavailable => Self::Unavailable(failure.message),
            Reason::Overloaded => Self::Overloaded,
            Reason::TooLarge => Self::TooLarge {
                bytes: failure.bytes,
                bytes_max: failure.bytes_max,
            },
            Reason::UnknownOutcome => Self::UnknownOutcome(failure.message),
            Reason::Unreadable => Self::Unreadable(failure.message),
            Reason::Panicked => Self::Panicked,
            Reason::Other => Self::Other(failure.message),
        }
    }
}
