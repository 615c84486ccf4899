//! Releases with and without an added field read each other's rows, as in `growth.rs`, for every declared
//! row. The declarations are read from the source files, so that the test fails if a row is missing here.

use crate::bodies;
use crate::next;
use crate::values;

use next::declared::declared_types;
use next::tested_rows::TestedRows;
use next::{WithAddedField, fields};
use placewright_conductor::cell_conductor::{self as cell, Continuation, GuestRef, JobKind, Stage};
use placewright_conductor::message::Message;
use placewright_conductor::super_conductor::{self, BuildStage, MoveStage};
use placewright_conductor::{
    ClaimResponse, MoveKind, MoveSide, SharedRow, Spec, SpecBody, control,
};
use placewright_link::CellEvent;
use placewright_placement::change::NewAllocation;
use placewright_placement::group::{Distance, Level, Relation, RuleScope};
use placewright_placement::{self as placement, ClassId, ConsumerGeneration, Inventory};
use placewright_records::guests::{Entry, GuestRow, GuestStateName};
use placewright_records::{Form, Layout, Reader, Writer, control as control_records, server};
use placewright_types::host_state::{HostReport, HostUpdate, NumberedUpdate};
use placewright_types::request::{RequestGroupPolicy, RequestSpec};
use placewright_types::server::{Networks, ServerFields};
use values::{AT, HOST, INSTANCE, OTHER, accounts};

/// Types that are not tested as rows here: their form is not a row, or, as that of `SpecOfTemplate`, it is private to
/// the crate and has a test of its own below.
const NOT_ROWS: [&str; 11] = [
    "control::Change",
    "control_rows::RankingRecord",
    "instances::Rules",
    "instances::SharedRow",
    "instances::SharedText",
    "packed::OwnRow",
    "packed::SpecOfTemplate",
    "placement::ConsumerUuid",
    "quotas::Resource",
    "quotas::Usage",
    "requests::ImageProperties",
];

fn test_placement_changes(tested: &mut TestedRows) {
    let inventory = Inventory {
        total: 64,
        reserved: 2,
        min_unit: 1,
        max_unit: 32,
        step_size: 1,
        allocation_ratio: 4.0,
    };
    let allocation = NewAllocation {
        provider: HOST.0,
        class: ClassId(3),
        amount: 4,
    };
    let level = Level {
        name: "rack".into(),
        aggregates: vec!["a".into()],
        names: [("a".to_owned(), "north/r1".to_owned())].into(),
    };
    let distance = Distance {
        from: "a".into(),
        to: "b".into(),
        distance: 300,
    };
    let scopes = [RuleScope::Host, RuleScope::Level("rack".into())];
    let relations = [
        Relation::Same,
        Relation::FewerThan(2),
        Relation::Spread(300),
    ];
    let changed = placement::Change::InventorySet {
        provider: HOST.0,
        class: ClassId(0),
        inventory,
        at: AT,
    };
    tested.test("placement", [changed]);
    tested.test("placement", [inventory]);
    tested.test("placement", [allocation]);
    tested.test("placement", [level]);
    tested.test("placement", [distance]);
    tested.test("placement", [values::rule()]);
    tested.test("placement", scopes);
    tested.test("placement", relations);
}

/// Tests the rows in the changes of the given kinds.
macro_rules! rows_of {
    ($tested:ident, $module:literal, $changes:expr, $change:path: $($kind:ident),*) => {$({
        use $change as Kind;
        let rows = $changes.into_iter().filter_map(|change| match change {
            Kind::$kind(_, row) => row.map(|row| *row),
            _ => None,
        });
        $tested.test($module, rows.collect::<Vec<_>>());
    })*};
}

fn test_control_rows(tested: &mut TestedRows) {
    let all = || [values::instances_of_control(), values::tables_of_control()].concat();
    rows_of!(tested, "control_rows", all(), super_conductor::Change:
        Cell, Host, Build, Buried, Deletion, Migration, Rebuild, Flavor, Keypair, Group, Aggregate,
        Labels, Service);
    tested.test("control_rows", [values::requests::move_with_request()]);
    tested.test("control_rows", [bodies::topology()]);
    tested.test("control_rows", [values::reschedule::left_cell()]);
    tested.test("control_rows", values::reschedule::reschedules());
    tested.test("control_rows", [values::reschedule::mapping()]);
    tested.test("control_rows", all());
    let locks = all().into_iter().filter_map(|change| match change {
        super_conductor::Change::Labels(_, Some(labels)) => labels.lock,
        _ => None,
    });
    tested.test("control_rows", locks.collect::<Vec<_>>());
    tested.test(
        "control_rows",
        [
            BuildStage::Waiting,
            BuildStage::Placed {
                selection: values::candidate().into(),
                alternates: vec![values::candidate()].into(),
            },
        ],
    );
    tested.test(
        "control_rows",
        [
            MoveStage::Requested,
            MoveStage::Reserved,
            MoveStage::Placed {
                selection: values::candidate().into(),
                alternates: std::sync::Arc::default(),
                claim_number: 3,
            },
            MoveStage::InCell,
            MoveStage::Cancelling,
        ],
    );
}

fn test_accounts(tested: &mut TestedRows) {
    tested.test("accounts", [accounts::user()]);
    tested.test("accounts", [accounts::project()]);
    tested.test("accounts", [accounts::role()]);
    tested.test("accounts", [accounts::assignment()]);
    tested.test("accounts", [accounts::application_credential()]);
    tested.test("accounts", [accounts::revoked_token()]);
    tested.test("accounts", [accounts::token_key()]);
    tested.test("accounts", [accounts::first_accounts()]);
    tested.test("accounts", accounts::scopes());
    tested.test("accounts", accounts::account_commands());
}

fn test_cell_rows(tested: &mut TestedRows) {
    rows_of!(tested, "cell_rows", values::cell_changes(), cell::Change: Meta, Host);
    tested.test("cell_rows", values::cell_changes());
    let targets = values::cell_changes()
        .into_iter()
        .filter_map(|change| match change {
            cell::Change::Job(_, Some(job)) => job.target,
            _ => None,
        });
    tested.test("cell_rows", targets.collect::<Vec<_>>());
    let guest = GuestRef {
        host: HOST,
        number: 7,
    };
    tested.test("cell_rows", [guest]);
    let continuations = [
        Continuation::Release,
        Continuation::Settle(MoveSide::Target),
        Continuation::Return,
    ];
    tested.test("cell_rows", continuations);
    tested.test(
        "cell_rows",
        [
            Stage::Reserved,
            Stage::Step(cell::Step::Leave),
            Stage::Swap,
            Stage::Verify,
            Stage::AwaitDestroyed(Continuation::Return),
            Stage::AwaitClaim(Continuation::Release),
        ],
    );
    tested.test(
        "cell_rows",
        [
            JobKind::Build,
            JobKind::Move(MoveKind::Unshelve),
            JobKind::Shelve,
            JobKind::Rebuild,
            JobKind::Delete,
        ],
    );
}

fn test_instances(tested: &mut TestedRows) {
    let actions = values::requests::actions_with_request();
    tested.test("instances", [bodies::spec_with_added_fields()]);
    tested.test("instances", values::spec().rules.to_vec());
    tested.test("instances", values::amounts());
    tested.test("instances", [values::fault()]);
    tested.test(
        "instances",
        actions.iter().flat_map(|action| action.attempts.clone()),
    );
    tested.test("instances", actions.clone());
    tested.test::<ClaimResponse>("instances", values::claim_responses());
}

fn test_messages(tested: &mut TestedRows) {
    let messages = || {
        values::requests::envelopes()
            .into_iter()
            .map(|envelope| envelope.message)
    };
    tested.test("messages", values::requests::envelopes());
    tested.test("messages", messages());
    let creates = messages().filter_map(|message| match message {
        Message::Create(create) => Some(*create),
        _ => None,
    });
    tested.test("messages", creates.collect::<Vec<_>>());
    let orders = messages().filter_map(|message| match message {
        Message::Move(order) => Some(*order),
        _ => None,
    });
    tested.test("messages", orders.collect::<Vec<_>>());
    tested.test("messages", values::reschedule::claim_requests());
    tested.test(
        "messages",
        values::reschedule::claim_requests()
            .into_iter()
            .map(|request| request.change),
    );
    tested.test("messages", values::replies());
    tested.test("messages", values::requests::cell_operations());
    tested.test(
        "messages",
        values::hosts::cell_events_with_service_version(),
    );
    let views = || {
        values::cell_events()
            .into_iter()
            .filter_map(|event| match event {
                CellEvent::Instance { view, .. } => view.map(|view| *view),
                _ => None,
            })
    };
    tested.test("messages", views().collect::<Vec<_>>());
    tested.test(
        "messages",
        views().filter_map(|view| view.job).collect::<Vec<_>>(),
    );
    let hosts = values::cell_events()
        .into_iter()
        .filter_map(|event| match event {
            CellEvent::Host { view, .. } => view,
            _ => None,
        });
    tested.test("messages", hosts.collect::<Vec<_>>());
}

fn test_hosts(tested: &mut TestedRows) {
    let numbered = values::hosts::cell_events_with_service_version()
        .into_iter()
        .filter_map(|event| match event {
            CellEvent::State { update, .. } => Some(*update),
            _ => None,
        });
    let numbered: Vec<NumberedUpdate> = numbered.collect();
    let updates: Vec<HostUpdate> = numbered
        .iter()
        .map(|numbered| numbered.update.clone())
        .collect();
    let report = updates.iter().find_map(|update| match update {
        HostUpdate::Full(report) => Some(HostReport::clone(report)),
        _ => None,
    });
    let report = report.unwrap();
    tested.test("hosts", numbered);
    tested.test("hosts", updates);
    tested.test("hosts", [report.facts.clone()]);
    tested.test("hosts", [report.facts.names.clone()]);
    tested.test("hosts", [report.facts.platform.clone()]);
    tested.test("hosts", [report.load]);
    tested.test("hosts", report.metrics.clone());
    tested.test("hosts", report.instances.clone());
    tested.test("hosts", [report]);
}

fn test_guests(tested: &mut TestedRows) {
    let guest = GuestRow {
        state: GuestStateName::Running,
        amounts: values::amounts(),
        group: Some(OTHER),
        image_properties: vec![("a".into(), "b".into())],
    };
    let key = (INSTANCE, 7);
    let put = Entry::Put(HOST, key, guest.clone());
    tested.test("guests", [guest]);
    tested.test(
        "guests",
        [put, Entry::Erase(HOST, key), Entry::Session(300)],
    );
}

fn test_requests(tested: &mut TestedRows) {
    let request = bodies::request();
    tested.test("requests", [request.flavor.clone()]);
    tested.test("requests", request.image.clone());
    tested.test("requests", request.requested_destination.clone());
    tested.test("requests", request.instance_group.clone());
    tested.test("requests", [bodies::rule_with_place()]);
    tested.test("requests", request.requested_resources.clone());
    tested.test("requests", [request.request_level_params.clone()]);
    tested.test("requests", request.pci_requests.clone());
    tested.test("requests", request.pci_requests[0].spec.clone());
    let network = bodies::network();
    let resource_request = network.resource_request.clone().unwrap();
    tested.test("requests", [network]);
    tested.test("requests", resource_request.request_groups.clone().unwrap());
    tested.test("requests", [resource_request]);
    tested.test("requests", [bodies::profile()]);
    tested.test("requests", bodies::profile().groups);
    tested.test(
        "requests",
        [RequestSpec {
            group_policy: Some(RequestGroupPolicy::Isolate),
            ..request
        }],
    );
}

fn test_quotas_and_images(tested: &mut TestedRows) {
    tested.test("quotas", [values::quotas::limits()]);
    tested.test("quotas", values::quotas::scopes());
    tested.test("quotas", values::quotas::usage().amounts().cloned());
    tested.test("images", values::images::images());
    tested.test("images", [values::images::content()]);
    tested.test("images", values::images::members());
}

fn test_commands(tested: &mut TestedRows) {
    use values::commands;
    let intent = commands::intent();
    tested.test("placement_commands", commands::placement_commands());
    tested.test("offer", [commands::offer()]);
    tested.test("placement_commands", intent.rules.clone());
    tested.test("placement_commands", intent.candidates.clone());
    tested.test("placement_commands", [intent]);
    tested.test("placement_commands", [commands::claim()]);
    tested.test("placement_commands", [commands::replacement()]);
    tested.test("placement_commands", commands::allocations());
    tested.test("placement_commands", commands::parent_changes());
    tested.test(
        "placement_commands",
        [ConsumerGeneration::Any, ConsumerGeneration::Is(Some(3))],
    );
    tested.test("conductor_commands", values::reschedule::commands());
    tested.test("conductor_commands", commands::rebuild_events());
    tested.test("conductor_commands", values::images::all_limit_checks());
    tested.test("conductor_commands", commands::builds(2));
    let commands = commands::placement_commands().into_iter();
    tested.test("command", commands.map(control::Command::Placement));
}

fn test_servers(tested: &mut TestedRows) {
    let body = bodies::body();
    tested.test(
        "servers",
        [ServerFields {
            secrets_mark: Some("mark".into()),
            request_id: Some("req-1".into()),
            traceparent: Some("00-1".into()),
            ..body.server
        }],
    );
    tested.test("servers", [body.own]);
    tested.test("servers", bodies::scalar_values());
    for networks in bodies::networks() {
        if let Networks::List(list) = networks {
            tested.test("servers", list);
        }
    }
    tested.test("servers", bodies::networks());
}

#[test]
fn every_kind_of_row_grows() {
    let mut tested = TestedRows::default();
    test_placement_changes(&mut tested);
    test_control_rows(&mut tested);
    test_accounts(&mut tested);
    test_cell_rows(&mut tested);
    test_instances(&mut tested);
    test_messages(&mut tested);
    test_hosts(&mut tested);
    test_guests(&mut tested);
    test_requests(&mut tested);
    test_servers(&mut tested);
    test_quotas_and_images(&mut tested);
    test_commands(&mut tested);
    next::decisions::test(&mut tested);
    next::mappings::test(&mut tested);
    let mut names = tested.names;
    names.extend(NOT_ROWS.map(str::to_owned));
    let missing: Vec<_> = declared_types().difference(&names).cloned().collect();
    let unknown: Vec<_> = names.difference(&declared_types()).cloned().collect();
    assert!(missing.is_empty(), "not tested: {missing:?}");
    assert!(unknown.is_empty(), "not declared: {unknown:?}");
}

/// The bytes of a row with a field that a later release added.
fn with_added_field(bytes: &[u8]) -> Vec<u8> {
    let mut from = Reader::new(bytes, Layout::Growing);
    let present_fields = from.bytes().unwrap();
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    out.bytes(&[present_fields, b"of a later release"].concat());
    out.into_bytes()
}

#[test]
fn both_parts_of_a_body_grow() {
    let SpecBody::Row(row) = server::write(&bodies::body()) else {
        panic!("a body that is written is a row");
    };
    let common = with_added_field(row.common());
    let later = SharedRow::from_parts(common.into(), with_added_field(row.own()));
    let later = SpecBody::Row(later);
    assert_eq!(server::read(&later).unwrap(), bodies::body());
    // A release that does not know an added field forwards the field.
    let spec = Spec {
        body: later,
        ..bodies::spec()
    };
    assert_eq!(next::decode::<Spec>(&next::encode(&spec)), spec);
}

#[test]
fn a_spec_of_a_template_grows() {
    let spec = bodies::spec();
    let SpecBody::Row(row) = &spec.body else {
        panic!("a body that is written is a row");
    };
    // Both flags of a record: it concerns the conductor, and is packed. `packed.rs` has the numbers of elements.
    let (flags, template, spec_of_template) = (3, 1, 2);
    let mut out = Writer::new(
        vec![control_records::RECORD_VERSION, flags],
        Layout::Growing,
    );
    out.number(template);
    spec.write(&mut out);
    out.number(spec_of_template);
    out.row(|out| {
        INSTANCE.write(out);
        let template_number = 0;
        out.number(template_number);
        spec.name.write(out);
        String::new().write(out);
        out.bytes(row.own());
        // The own parts of the secrets are empty.
        out.raw(&[0, 0]);
        // These bytes stand for a field that a later release added.
        out.raw(&fields(&WithAddedField::new(bodies::topology())));
    });
    let read = control_records::decode(&out.into_bytes()).unwrap();
    let change = super_conductor::Change::Spec(INSTANCE, Some(Box::new(spec)));
    assert_eq!(read, [control::Change::Conductor(change)]);
}
