//! Numbers beyond the valid range, which an earlier release admitted into stores. They are not
//! incremented any further, and nothing that has them is lost.

use placewright_conductor::cell_conductor::{
    Change, Event, GuestRef, Host, Instance, Options, Refusal, State, VmState, decide,
};
use placewright_conductor::ids::NUMBER_END;
use placewright_conductor::message::Envelope;
use placewright_conductor::{HostId, InstanceId, Message, Reply};
use placewright_placement::Timestamp;
use uuid::Uuid;

const AT: Timestamp = Timestamp(1_000_000);

/// Decides an event and applies its changes.
fn happen(state: &mut State, event: &Event) -> Result<Reply, Refusal> {
    let mut changes = Vec::new();
    let reply = decide(state, event, AT, &Options::default(), &mut changes)?;
    for change in &changes {
        state.apply(change);
    }
    Ok(reply)
}

fn started(host: HostId, session: u64) -> Event {
    Event::AgentStarted {
        host,
        session,
        guests: Vec::new(),
    }
}

#[test]
fn a_host_with_the_greatest_session_begins_a_new_one() {
    let host = HostId(Uuid::from_u128(1));
    let mut state = State::default();
    for absurd in [u64::MAX, NUMBER_END] {
        let row = Host {
            session: absurd,
            is_up: true,
        };
        state.apply(&Change::Host(host, Some(Box::new(row))));
        happen(&mut state, &started(host, 5)).unwrap();
        assert_eq!(state.hosts()[&host].session, 5);
    }
    for session in [NUMBER_END, u64::MAX, 5] {
        let refused = happen(&mut state, &started(host, session));
        assert_eq!(refused, Err(Refusal::OldSession(host)));
    }
}

#[test]
fn an_instance_with_the_greatest_numbers_can_be_shelved_and_deleted() {
    let (host, instance) = (HostId(Uuid::from_u128(1)), InstanceId(Uuid::from_u128(2)));
    let mut state = State::default();
    let row = Instance {
        vm_state: VmState::Active,
        guest: Some(GuestRef { host, number: 1 }),
        zone: None,
        claim_number: u64::MAX,
        attempt: u32::MAX,
        move_number: u32::MAX,
        action_count: u32::MAX,
        fault: None,
        created_at: AT,
        updated_at: AT,
        mappings: Vec::new(),
    };
    state.apply(&Change::Instance(instance, Some(Box::new(row))));
    happen(&mut state, &started(host, 5)).unwrap();
    happen(
        &mut state,
        &Event::Shelve {
            instance,
            request: None,
        },
    )
    .unwrap();
    let message = Message::Delete {
        instance,
        claim_number: 1,
    };
    let sent_at = AT;
    happen(&mut state, &Event::Message(Envelope { sent_at, message })).unwrap();
    happen(&mut state, &Event::Tick).unwrap();
    assert!(state.jobs().contains_key(&instance));
}
