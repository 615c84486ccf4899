//! Releases with and without an added field read each other's rows, as in `growth.rs`, for every declared
//! row. The declarations are read from the source files, so that the test fails if a row is missing here.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod bodies;
mod next;
mod values;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;

use next::{WithAddedField, assert_grows, fields};
use placewright_conductor::cell_conductor::{self as cell, Continuation, GuestRef, JobKind, Stage};
use placewright_conductor::message::Message;
use placewright_conductor::super_conductor::{self, BuildStage, MoveStage};
use placewright_conductor::{
    ClaimResponse, MoveKind, MoveSide, SharedRow, Spec, SpecBody, control,
};
use placewright_link::CellEvent;
use placewright_placement::change::AllocationFact;
use placewright_placement::group::{Distance, Level, Relation, RuleScope};
use placewright_placement::{self as placement, ClassId, Inventory};
use placewright_records::guests::{Entry, GuestRow, GuestStateName};
use placewright_records::{Form, Layout, Reader, Writer, control as control_records, server};
use placewright_types::host_state::{HostReport, HostUpdate, NumberedUpdate};
use placewright_types::server::{Networks, ServerFields};
use values::{AT, HOST, INSTANCE, OTHER};

/// Types with a form that is not a row: they are written as the value in them, or as bytes that are rows.
const NOT_ROWS: [&str; 10] = [
    "control::Change",
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

/// The names of all declarations below `src`, each with its file.
fn declared_types() -> BTreeSet<String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut types = BTreeSet::new();
    for folder in [src.join("forms"), src] {
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                let declaration = ["row!(", "choice!(", "impl Form for "]
                    .iter()
                    .find_map(|start| line.strip_prefix(start));
                if let Some(declaration) = declaration {
                    let name = declaration.split([' ', '{']).next().unwrap();
                    types.insert(format!("{module}::{name}"));
                }
            }
        }
    }
    types
}

/// The rows that were tested.
#[derive(Default)]
struct TestedRows(BTreeSet<String>);

impl TestedRows {
    fn add<T: Form + Clone + PartialEq + Debug>(
        &mut self,
        module: &str,
        rows: impl IntoIterator<Item = T>,
    ) {
        let name = std::any::type_name::<T>();
        let name = name.rsplit("::").next().unwrap();
        let before = self.0.len();
        for row in rows {
            assert_grows(row);
            self.0.insert(format!("{module}::{name}"));
        }
        assert_eq!(self.0.len(), before + 1, "{module}::{name}");
    }
}

fn test_placement_changes(tested: &mut TestedRows) {
    let inventory = Inventory {
        total: 64,
        reserved: 2,
        min_unit: 1,
        max_unit: 32,
        step_size: 1,
        allocation_ratio: 4.0,
    };
    let fact = AllocationFact {
        provider: HOST.0,
        class: ClassId(3),
        amount: 4,
    };
    let level = Level {
        name: "rack".into(),
        aggregates: vec!["a".into()],
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
    tested.add("placement", [changed]);
    tested.add("placement", [inventory]);
    tested.add("placement", [fact]);
    tested.add("placement", [level]);
    tested.add("placement", [distance]);
    tested.add("placement", [values::rule()]);
    tested.add("placement", scopes);
    tested.add("placement", relations);
}

/// Tests the rows in the changes of the given kinds.
macro_rules! rows_of {
    ($tested:ident, $module:literal, $changes:expr, $change:path: $($kind:ident),*) => {$({
        use $change as Kind;
        let rows = $changes.into_iter().filter_map(|change| match change {
            Kind::$kind(_, row) => row.map(|row| *row),
            _ => None,
        });
        $tested.add($module, rows.collect::<Vec<_>>());
    })*};
}

fn test_control_rows(tested: &mut TestedRows) {
    let all = || [values::instances_of_control(), values::tables_of_control()].concat();
    rows_of!(tested, "control_rows", all(), super_conductor::Change:
        Cell, Host, Build, Mapping, Buried, Deletion, Migration, Rebuild, Flavor, Keypair,
        Group, Aggregate, Labels, Service);
    tested.add("control_rows", [values::quotas::move_with_usage()]);
    tested.add("control_rows", [bodies::topology()]);
    tested.add("control_rows", all());
    let locks = all().into_iter().filter_map(|change| match change {
        super_conductor::Change::Labels(_, Some(labels)) => labels.lock,
        _ => None,
    });
    tested.add("control_rows", locks.collect::<Vec<_>>());
    tested.add(
        "control_rows",
        [
            BuildStage::Waiting,
            BuildStage::Placed {
                selection: values::candidate(),
                alternates: vec![values::candidate()],
            },
        ],
    );
    tested.add(
        "control_rows",
        [
            MoveStage::Requested,
            MoveStage::Reserved,
            MoveStage::Placed {
                selection: values::candidate(),
                alternates: Vec::new(),
                claim_number: 3,
            },
            MoveStage::InCell,
            MoveStage::Cancelling,
        ],
    );
}

fn test_cell_rows(tested: &mut TestedRows) {
    rows_of!(tested, "cell_rows", values::cell_changes(), cell::Change: Meta, Host, Instance, Job);
    tested.add("cell_rows", values::cell_changes());
    let targets = values::cell_changes()
        .into_iter()
        .filter_map(|change| match change {
            cell::Change::Job(_, Some(job)) => job.target,
            _ => None,
        });
    tested.add("cell_rows", targets.collect::<Vec<_>>());
    let guest = GuestRef {
        host: HOST,
        number: 7,
    };
    tested.add("cell_rows", [guest]);
    let after = [
        Continuation::Release,
        Continuation::Settle(MoveSide::Target),
        Continuation::Return,
    ];
    tested.add("cell_rows", after);
    tested.add(
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
    tested.add(
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

fn instances(tested: &mut TestedRows) {
    let actions = values::actions();
    tested.add("instances", [bodies::spec_with_added_fields()]);
    tested.add("instances", values::spec().rules.to_vec());
    tested.add("instances", [values::candidate()]);
    tested.add("instances", values::amounts());
    tested.add("instances", [values::fault()]);
    tested.add(
        "instances",
        actions.iter().flat_map(|action| action.attempts.clone()),
    );
    tested.add("instances", actions.clone());
    tested.add::<ClaimResponse>("instances", values::claim_responses());
}

fn messages(tested: &mut TestedRows) {
    let messages = || {
        values::envelopes()
            .into_iter()
            .map(|envelope| envelope.message)
    };
    tested.add("messages", values::envelopes());
    tested.add("messages", messages());
    let creates = messages().filter_map(|message| match message {
        Message::Create(create) => Some(*create),
        _ => None,
    });
    tested.add("messages", creates.collect::<Vec<_>>());
    let orders = messages().filter_map(|message| match message {
        Message::Move(order) => Some(*order),
        _ => None,
    });
    tested.add("messages", orders.collect::<Vec<_>>());
    tested.add("messages", values::claim_requests());
    tested.add(
        "messages",
        values::claim_requests()
            .into_iter()
            .map(|request| request.change),
    );
    tested.add("messages", values::replies());
    tested.add("messages", values::cell_operations());
    tested.add("messages", values::cell_events());
    let views = || {
        values::cell_events()
            .into_iter()
            .filter_map(|event| match event {
                CellEvent::Instance { view, .. } => view.map(|view| *view),
                _ => None,
            })
    };
    tested.add("messages", views().collect::<Vec<_>>());
    tested.add(
        "messages",
        views().filter_map(|view| view.job).collect::<Vec<_>>(),
    );
    let hosts = values::cell_events()
        .into_iter()
        .filter_map(|event| match event {
            CellEvent::Host { view, .. } => view,
            _ => None,
        });
    tested.add("messages", hosts.collect::<Vec<_>>());
}

fn hosts(tested: &mut TestedRows) {
    let numbered = values::cell_events()
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
    tested.add("hosts", numbered);
    tested.add("hosts", updates);
    tested.add("hosts", [report.facts.clone()]);
    tested.add("hosts", [report.facts.names.clone()]);
    tested.add("hosts", [report.facts.platform.clone()]);
    tested.add("hosts", [report.load]);
    tested.add("hosts", report.metrics.clone());
    tested.add("hosts", report.instances.clone());
    tested.add("hosts", [report]);
}

fn guests(tested: &mut TestedRows) {
    let guest = GuestRow {
        state: GuestStateName::Running,
        amounts: values::amounts(),
        group: Some(OTHER),
        image_properties: vec![("a".into(), "b".into())],
    };
    let key = (INSTANCE, 7);
    let put = Entry::Put(HOST, key, guest.clone());
    tested.add("guests", [guest]);
    tested.add(
        "guests",
        [put, Entry::Erase(HOST, key), Entry::Session(300)],
    );
}

fn requests(tested: &mut TestedRows) {
    let request = bodies::request();
    tested.add("requests", [request.flavor.clone()]);
    tested.add("requests", request.image.clone());
    tested.add("requests", request.requested_destination.clone());
    tested.add("requests", request.instance_group.clone());
    tested.add("requests", request.topology_rules.clone());
    tested.add("requests", request.requested_resources.clone());
    tested.add("requests", [request.request_level_params.clone()]);
    tested.add("requests", request.pci_requests.clone());
    tested.add("requests", request.pci_requests[0].spec.clone());
    let network = bodies::network();
    let resource_request = network.resource_request.clone().unwrap();
    tested.add("requests", [network]);
    tested.add("requests", resource_request.request_groups.clone().unwrap());
    tested.add("requests", [resource_request]);
    tested.add("requests", [bodies::profile()]);
    tested.add("requests", bodies::profile().groups);
    tested.add("requests", [request]);
}

fn quotas(tested: &mut TestedRows) {
    tested.add("quotas", [values::quotas::limits()]);
    tested.add("quotas", values::quotas::scopes());
    tested.add("quotas", values::quotas::usage().amounts().cloned());
}

fn servers(tested: &mut TestedRows) {
    let body = bodies::body();
    tested.add(
        "servers",
        [ServerFields {
            secrets_mark: Some("mark".into()),
            ..body.server
        }],
    );
    tested.add("servers", [body.own]);
    tested.add("servers", bodies::scalar_values());
    for networks in bodies::networks() {
        if let Networks::List(list) = networks {
            tested.add("servers", list);
        }
    }
    tested.add("servers", bodies::networks());
}

#[test]
fn every_kind_of_row_grows() {
    let mut tested = TestedRows::default();
    test_placement_changes(&mut tested);
    test_control_rows(&mut tested);
    test_cell_rows(&mut tested);
    instances(&mut tested);
    messages(&mut tested);
    hosts(&mut tested);
    guests(&mut tested);
    requests(&mut tested);
    servers(&mut tested);
    quotas(&mut tested);
    tested.0.extend(NOT_ROWS.map(str::to_owned));
    let missing: Vec<_> = declared_types().difference(&tested.0).cloned().collect();
    let unknown: Vec<_> = tested.0.difference(&declared_types()).cloned().collect();
    assert!(missing.is_empty(), "does it grow? {missing:?}");
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
    // A release that does not know the field forwards it.
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
    let mut out = Writer::new(vec![control_records::RECORD_VERSION, 3], Layout::Growing);
    out.number(1);
    spec.write(&mut out);
    out.number(2);
    out.row(|out| {
        INSTANCE.write(out);
        out.number(0);
        spec.name.write(out);
        String::new().write(out);
        out.bytes(row.own());
        // The defaults of what was added after it.
        out.raw(&[0, 0]);
        out.raw(&fields(&WithAddedField::new(bodies::topology())));
    });
    let read = control_records::decode(&out.into_bytes()).unwrap();
    let change = super_conductor::Change::Spec(INSTANCE, Some(Box::new(spec)));
    assert_eq!(read, [control::Change::Conductor(change)]);
}
